//! The events of a room (`[[rooms.events]]`).

use std::collections::HashMap;

use crate::room::{
    Event, EventError, Limits, Millis, Operation, Overrides, PrequeueOrder, SessionRenewal,
};

use super::fields::{At, Found, Section};
use super::page::{self, PageSettings};
use super::room::{parse_name, read_limits, read_method, read_session_duration};
use super::{EVENTS_MAX, Surroundings};

/// What an event has beside its times and limits, in the order of [`crate::room::Plan::events`].
#[derive(Clone, Debug)]
pub struct EventConfig {
    pub name: String,
    pub description: String,
    /// The room's, with what the event changes.
    pub page: PageSettings,
}

/// An event that could be read.
pub(super) struct EventRead {
    pub(super) config: EventConfig,
    pub(super) event: Event,
    pub(super) at: At,
}

/// Reads all events of a room. Faulty ones are reported and left out.
pub(super) fn read_all(
    section: &mut Section<'_>,
    room_page: &PageSettings,
    around: &Surroundings<'_>,
) -> Vec<EventRead> {
    let report = section.report();
    let sections = section.tables("events");
    if sections.len() > EVENTS_MAX {
        report.add(
            &section.at_value("events"),
            format!("must be at most {EVENTS_MAX} events"),
        );
        return Vec::new();
    }
    let mut events: Vec<EventRead> = Vec::with_capacity(sections.len());
    let mut names = HashMap::new();
    for section in sections {
        let at = section.at();
        let Some((name_at, event)) = read(section, room_page, around) else {
            continue;
        };
        let first = names
            .entry(event.config.name.clone())
            .or_insert_with(|| at.key().to_owned());
        if first != at.key() {
            report.add(
                &name_at,
                format!("must be unique in the room: {first} has this name"),
            );
        }
        events.push(event);
    }
    for (index, event) in events.iter().enumerate() {
        if let Some(earlier) = events[..index]
            .iter()
            .find(|earlier| earlier.event.overlaps(&event.event))
        {
            report.add(
                &event.at,
                format!(
                    "overlaps {} ({:?}): one event of a room must end before the next one, prequeue included, begins",
                    earlier.at.key(),
                    earlier.config.name
                ),
            );
        }
    }
    events
}

fn read(
    mut section: Section<'_>,
    room_page: &PageSettings,
    around: &Surroundings<'_>,
) -> Option<(At, EventRead)> {
    let report = section.report();
    let at = section.at();
    section.require("name", "an event needs a name");
    section.require("event_start_time", "an event needs a time to start");
    section.require("event_end_time", "an event needs a time to end");
    let name = section.parsed("name", parse_name);
    let description = section.string("description");
    let starts_at = read_time(&mut section, "event_start_time");
    let ends_at = read_time(&mut section, "event_end_time");
    let prequeue = read_time(&mut section, "prequeue_start_time");
    let has_prequeue = section.has("prequeue_start_time");
    let shuffle = section.boolean("shuffle_at_event_start");
    let suspended = section.boolean("suspended");
    let overrides = read_overrides(&mut section);
    let page = page::read(&mut section, room_page, around);
    page::refuse_turnstile(&mut section);
    let order = match &shuffle {
        Some(Found { value: true, .. }) => PrequeueOrder::Shuffled,
        Some(Found { value: false, .. }) | None => PrequeueOrder::Arrival,
    };
    let operation = match suspended {
        Some(Found { value: true, .. }) => Operation::Suspended,
        Some(Found { value: false, .. }) | None => Operation::Running,
    };
    let places = EventPlaces {
        end: section.at_value("event_end_time"),
        prequeue: section.at_value("prequeue_start_time"),
        shuffle: section.at_value("shuffle_at_event_start"),
    };
    section.finish();
    if has_prequeue && prequeue.is_none() {
        // Reported already; without its time the rest cannot be judged.
        return None;
    }
    let event = Event::new(
        starts_at?.value,
        ends_at?.value,
        prequeue.map(|found| found.value),
        order,
        operation,
        overrides,
    );
    let event = match event {
        Ok(event) => event,
        Err(error) => {
            report.add(places.of(error), error.to_string());
            return None;
        }
    };
    let name = name?;
    let config = EventConfig {
        name: name.value,
        description: description.map(|found| found.value).unwrap_or_default(),
        page,
    };
    Some((name.at, EventRead { config, event, at }))
}

/// Where to complain about an event's times.
struct EventPlaces {
    end: At,
    prequeue: At,
    shuffle: At,
}

impl EventPlaces {
    fn of(&self, error: EventError) -> &At {
        match error {
            EventError::EndsTooSoon => &self.end,
            EventError::PrequeueTooShort => &self.prequeue,
            EventError::ShuffleWithoutPrequeue => &self.shuffle,
        }
    }
}

fn read_overrides(section: &mut Section<'_>) -> Overrides {
    let report = section.report();
    let (total, rate) = read_limits(section);
    if section.has("total_active_users") != section.has("new_users_per_minute") {
        let (given, missing) = if section.has("total_active_users") {
            ("total_active_users", "new_users_per_minute")
        } else {
            ("new_users_per_minute", "total_active_users")
        };
        report.add(
            &section.at_value(given),
            format!("an event sets both limits or none; {missing} is missing"),
        );
    }
    Overrides {
        limits: total
            .zip(rate)
            .and_then(|(total, rate)| Limits::new(total.value, rate.value).ok()),
        session_duration: read_session_duration(section),
        session_renewal: section.boolean("disable_session_renewal").map(|found| {
            if found.value {
                SessionRenewal::Disabled
            } else {
                SessionRenewal::EachRequest
            }
        }),
        queueing_method: read_method(section),
    }
}

/// A time as RFC 3339 writes it, between 1970 and 9999.
fn read_time(section: &mut Section<'_>, key: &'static str) -> Option<Found<Millis>> {
    let report = section.report();
    let text = section.time_text(key)?;
    match parse_time(&text.value) {
        Ok(value) => Some(Found { value, at: text.at }),
        Err(problem) => {
            report.add(&text.at, problem);
            None
        }
    }
}

fn parse_time(text: &str) -> Result<Millis, String> {
    let wanted = "must be an RFC 3339 time with an offset, such as 2026-11-27T09:00:00Z or 2026-11-27T10:00:00+01:00";
    // jiff also reads annotations in brackets and offsets of seconds, which RFC 3339 does not know.
    if text.contains('[') || text.len() > 64 {
        return Err(wanted.to_owned());
    }
    let time: jiff::Timestamp = text.parse().map_err(|error| format!("{wanted}: {error}"))?;
    u64::try_from(time.as_millisecond())
        .map(Millis::new)
        .map_err(|_| "must not be before 1970".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        let millis = |text: &str| parse_time(text).map(Millis::as_u64).ok();
        assert_eq!(millis("1970-01-01T00:00:01Z"), Some(1_000));
        assert_eq!(millis("1970-01-01T01:00:01.5+01:00"), Some(1_500));
        assert_eq!(millis("1970-01-01t00:00:01z"), Some(1_000));
        for text in [
            "",
            "tomorrow",
            "2026-11-27",
            "2026-11-27T09:00:00",
            "2026-02-30T09:00:00Z",
            "2026-11-27T25:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-27T09:00:00+01:00[Europe/Berlin]",
            "99999-01-01T00:00:00Z",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
