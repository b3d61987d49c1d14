//! The JSON answers, member for member in the field's order. Written straight into the buffer: no tree is built, because a
//! gate writes one of these for every waiter every few seconds.

use crate::room::{QueueingMethod, WaitView};

use super::language::Language;
use super::texts::Words;
use super::values::{
    BuiltIn, Numbers, Personal, State, Values, method_name, write_personal, write_plain_number,
    write_until_formatted, write_wait_formatted,
};

/// Whose JSON a room speaks (`json_response_format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonFormat {
    /// `{"cfWaitingRoom":{…25 members…},"position":N}`
    #[default]
    Cloudflare,
    /// `{"WaitingRoom":{…8 members…},"position":N}`
    Esa,
}

/// Writes the answer for API clients. Formatted times are English, as the field defines them.
pub fn write_json(format: JsonFormat, view: &WaitView, out: &mut String) {
    write_json_with(format, view, out, &mut |personal, out| {
        write_personal(personal, Language::EnUs, view, out);
    });
}

/// Writes the answer to the built-in page's own script: the field's JSON with one more member, `page`, that holds the texts to
/// put in place in the page's language.
pub fn write_poll_json(language: Language, view: &WaitView, out: &mut String) {
    write_poll_json_with(language, view, out, &mut |personal, out| {
        write_personal(personal, language, view, out);
    });
}

/// What is done where something personal belongs.
type Fill<'a> = &'a mut dyn FnMut(Personal, &mut String);

pub(super) fn write_json_with(
    format: JsonFormat,
    view: &WaitView,
    out: &mut String,
    fill: Fill<'_>,
) {
    let numbers = Numbers::of(view);
    match format {
        JsonFormat::Cloudflare => write_cloudflare(view, &numbers, out, fill),
        JsonFormat::Esa => write_esa(view, &numbers, out, fill),
    }
    out.push_str(",\"position\":");
    match view.position {
        Some(_) => fill(Personal::Position, out),
        None => out.push_str("null"),
    }
    out.push('}');
}

pub(super) fn write_poll_json_with(
    language: Language,
    view: &WaitView,
    out: &mut String,
    fill: Fill<'_>,
) {
    write_json_with(JsonFormat::Cloudflare, view, out, fill);
    out.pop();
    let values = Values::new(view, Words::of(language));
    out.push_str(",\"page\":{\"state\":\"");
    out.push_str(State::of(view).as_str());
    out.push('"');
    for (name, variable) in [
        ("title", BuiltIn::Title),
        ("heading", BuiltIn::Heading),
        ("lead", BuiltIn::Lead),
        ("positionText", BuiltIn::PositionText),
        ("waitText", BuiltIn::WaitText),
        ("eventLabel", BuiltIn::EventLabel),
        ("eventText", BuiltIn::EventText),
    ] {
        out.push_str(",\"");
        out.push_str(name);
        out.push_str("\":\"");
        match variable.personal() {
            Some(personal) => fill(personal, out),
            None => {
                let start = out.len();
                values.write_built_in(variable, out);
                escape_tail(out, start);
            }
        }
        out.push('"');
    }
    out.push_str("}}");
}

/// The answer to a poll that admits its visitor: the page then loads the same address again, with its session.
pub const fn admitted_json(format: JsonFormat) -> &'static str {
    match format {
        JsonFormat::Cloudflare => r#"{"cfWaitingRoom":{"inWaitingRoom":false},"position":null}"#,
        JsonFormat::Esa => r#"{"WaitingRoom":{"inWaitingRoom":false},"position":null}"#,
    }
}

fn write_cloudflare(view: &WaitView, numbers: &Numbers, out: &mut String, fill: Fill<'_>) {
    let words = Words::of(Language::EnUs);
    let [p25, p50, p75] = numbers.percentiles_minutes;
    let method = view.queueing_method;
    out.push_str(r#"{"cfWaitingRoom":{"inWaitingRoom":true"#);
    let mut members = Members(out);
    members.boolean(r#","waitTimeKnown":"#, numbers.wait_known);
    members.number(r#","waitTime":"#, numbers.wait_minutes);
    members.number(r#","waitTime25Percentile":"#, p25);
    members.number(r#","waitTime50Percentile":"#, p50);
    members.number(r#","waitTime75Percentile":"#, p75);
    members.text(r#","waitTimeFormatted":"#, |out| {
        write_wait_formatted(words, numbers, out);
    });
    members.boolean(r#","queueIsFull":"#, view.queue_is_full);
    members.boolean(r#","queueAll":"#, view.queue_all);
    members.text(r#","lastUpdated":"#, |out| {
        fill(Personal::LastUpdated, out);
    });
    members.number(
        r#","refreshIntervalSeconds":"#,
        u64::from(view.refresh_interval_seconds),
    );
    members.text(r#","queueingMethod":"#, |out| {
        out.push_str(method_name(method))
    });
    members.boolean(r#","isFIFOQueue":"#, method == QueueingMethod::Fifo);
    members.boolean(r#","isRandomQueue":"#, method == QueueingMethod::Random);
    members.boolean(
        r#","isPassthroughQueue":"#,
        method == QueueingMethod::Passthrough,
    );
    members.boolean(r#","isRejectQueue":"#, method == QueueingMethod::Reject);
    members.boolean(r#","isEventActive":"#, numbers.event_is_active);
    members.boolean(r#","isEventPrequeueing":"#, numbers.event_is_prequeueing);
    members.number(
        r#","timeUntilEventStart":"#,
        numbers.until_start_minutes.unwrap_or(0),
    );
    members.text(r#","timeUntilEventStartFormatted":"#, |out| {
        write_until_formatted(words, numbers.until_start_minutes, out);
    });
    members.number(
        r#","timeUntilEventEnd":"#,
        numbers.until_end_minutes.unwrap_or(0),
    );
    members.text(r#","timeUntilEventEndFormatted":"#, |out| {
        write_until_formatted(words, numbers.until_end_minutes, out);
    });
    members.boolean(r#","shuffleAtEventStart":"#, numbers.shuffle_at_event_start);
    members.text(r#","turnstile":"#, |_| {});
    members.boolean(r#","infiniteQueue":"#, false);
    out.push('}');
}

fn write_esa(view: &WaitView, numbers: &Numbers, out: &mut String, fill: Fill<'_>) {
    out.push_str(r#"{"WaitingRoom":{"inWaitingRoom":true"#);
    let mut members = Members(out);
    members.number(r#","waitTime":"#, numbers.wait_minutes);
    members.boolean(r#","waitTimeKnown":"#, numbers.wait_known);
    members.text(r#","waitTimeFormatted":"#, |out| {
        if numbers.wait_known {
            write_wait_formatted(Words::of(Language::EnUs), numbers, out);
        } else {
            out.push_str("unknown");
        }
    });
    members.boolean(r#","queueIsFull":"#, view.queue_is_full);
    members.boolean(r#","queueAll":"#, view.queue_all);
    members.text(r#","lastUpdated":"#, |out| {
        fill(Personal::LastUpdated, out);
    });
    members.number(
        r#","refreshIntervalSeconds":"#,
        u64::from(view.refresh_interval_seconds),
    );
    out.push('}');
}

/// Writes the members of one object after its first; each name comes with the comma and the colon around it. Names and texts
/// need no escaping: they are English and ours.
struct Members<'a>(&'a mut String);

impl Members<'_> {
    fn boolean(&mut self, name: &str, value: bool) {
        self.0.push_str(name);
        self.0.push_str(if value { "true" } else { "false" });
    }

    fn number(&mut self, name: &str, value: u64) {
        self.0.push_str(name);
        write_plain_number(value, self.0);
    }

    fn text(&mut self, name: &str, write: impl FnOnce(&mut String)) {
        self.0.push_str(name);
        self.0.push('"');
        write(self.0);
        self.0.push('"');
    }
}

/// Escapes what was written since `start` for a JSON string. Our texts hold no control characters, so quotes and backslashes
/// are all there can be.
fn escape_tail(out: &mut String, start: usize) {
    if out[start..].contains(['"', '\\']) {
        let tail = out.split_off(start);
        for character in tail.chars() {
            if matches!(character, '"' | '\\') {
                out.push('\\');
            }
            out.push(character);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::preview::PreviewState;
    use crate::page::values::write_time;
    use crate::room::{EventPhase, Millis, WaitTime};

    fn json(format: JsonFormat, view: &WaitView) -> String {
        let mut out = String::new();
        write_json(format, view, &mut out);
        out
    }

    /// The situation of the field's published example, with values of our own.
    fn random_during_an_event() -> WaitView {
        WaitView {
            position: None,
            wait_time: WaitTime::Known {
                percentile_25_minutes: 5,
                percentile_50_minutes: 10,
                percentile_75_minutes: 15,
            },
            queueing_method: QueueingMethod::Random,
            last_updated: Millis::new(1_596_498_360_000),
            event: EventPhase::Active {
                ends_at: Millis::new(1_596_498_360_000 + 14 * 60_000 + 1),
                shuffle_at_event_start: true,
            },
            now: Millis::new(1_596_498_360_000),
            ..PreviewState::Queueing.view()
        }
    }

    #[test]
    fn every_member_stands_in_the_fields_order() {
        assert_eq!(
            json(JsonFormat::Cloudflare, &random_during_an_event()),
            concat!(
                r#"{"cfWaitingRoom":{"inWaitingRoom":true,"waitTimeKnown":true,"waitTime":10,"waitTime25Percentile":5,"#,
                r#""waitTime50Percentile":10,"waitTime75Percentile":15,"waitTimeFormatted":"5 minutes to 15 minutes","#,
                r#""queueIsFull":false,"queueAll":false,"lastUpdated":"2020-08-03T23:46:00.000Z","#,
                r#""refreshIntervalSeconds":20,"queueingMethod":"random","isFIFOQueue":false,"isRandomQueue":true,"#,
                r#""isPassthroughQueue":false,"isRejectQueue":false,"isEventActive":true,"isEventPrequeueing":false,"#,
                r#""timeUntilEventStart":0,"timeUntilEventStartFormatted":"unavailable","timeUntilEventEnd":15,"#,
                r#""timeUntilEventEndFormatted":"15 minutes","shuffleAtEventStart":true,"turnstile":"","#,
                r#""infiniteQueue":false},"position":null}"#,
            )
        );
    }

    #[test]
    fn an_ordered_line_has_a_position_and_no_percentiles() {
        let text = json(JsonFormat::Cloudflare, &PreviewState::Queueing.view());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["position"], 1284);
        let room = &value["cfWaitingRoom"];
        assert_eq!(room.as_object().unwrap().len(), 25);
        assert_eq!(room["waitTime"], 25);
        assert_eq!(room["waitTime25Percentile"], 0);
        assert_eq!(room["waitTime50Percentile"], 0);
        assert_eq!(room["waitTime75Percentile"], 0);
        assert_eq!(room["waitTimeFormatted"], "25 minutes");
        assert_eq!(room["timeUntilEventEndFormatted"], "unavailable");
        assert_eq!(room["isEventActive"], false);
    }

    #[test]
    fn each_state_says_so() {
        let room = |state: PreviewState| -> serde_json::Value {
            let text = json(JsonFormat::Cloudflare, &state.view());
            serde_json::from_str::<serde_json::Value>(&text).unwrap()["cfWaitingRoom"].take()
        };
        let held = room(PreviewState::QueueAll);
        assert_eq!(held["queueAll"], true);
        assert_eq!(held["waitTimeKnown"], false);
        assert_eq!(held["waitTime"], 0);
        assert_eq!(held["waitTimeFormatted"], "unavailable");
        assert_eq!(room(PreviewState::QueueFull)["queueIsFull"], true);
        let reject = room(PreviewState::Reject);
        assert_eq!(reject["isRejectQueue"], true);
        assert_eq!(reject["refreshIntervalSeconds"], 0);
        let prequeue = room(PreviewState::PrequeueShuffle);
        assert_eq!(prequeue["isEventActive"], true);
        assert_eq!(prequeue["isEventPrequeueing"], true);
        assert_eq!(prequeue["timeUntilEventStart"], 15);
        assert_eq!(prequeue["timeUntilEventStartFormatted"], "15 minutes");
        assert_eq!(prequeue["timeUntilEventEnd"], 135);
        assert_eq!(prequeue["shuffleAtEventStart"], true);
    }

    #[test]
    fn formatted_times_are_singular_plural_or_a_range() {
        for (minutes, expected) in [
            ([0, 0, 0], "0 minutes"),
            ([1, 1, 1], "1 minute"),
            ([2, 2, 2], "2 minutes"),
            ([90, 90, 90], "90 minutes"),
            ([1500, 1500, 1500], "1,500 minutes"),
            ([1, 2, 3], "1 minute to 3 minutes"),
        ] {
            let mut view = random_during_an_event();
            view.wait_time = WaitTime::Known {
                percentile_25_minutes: minutes[0],
                percentile_50_minutes: minutes[1],
                percentile_75_minutes: minutes[2],
            };
            let text = json(JsonFormat::Cloudflare, &view);
            assert!(
                text.contains(&format!(r#""waitTimeFormatted":"{expected}""#)),
                "{text}"
            );
        }
    }

    #[test]
    fn esa_has_eight_members() {
        assert_eq!(
            json(JsonFormat::Esa, &PreviewState::Queueing.view()),
            concat!(
                r#"{"WaitingRoom":{"inWaitingRoom":true,"waitTime":25,"waitTimeKnown":true,"#,
                r#""waitTimeFormatted":"25 minutes","queueIsFull":false,"queueAll":false,"#,
                r#""lastUpdated":"2026-03-01T12:00:00.000Z","refreshIntervalSeconds":20},"position":1284}"#,
            )
        );
        assert!(
            json(JsonFormat::Esa, &PreviewState::QueueAll.view())
                .contains(r#""waitTime":0,"waitTimeKnown":false,"waitTimeFormatted":"unknown""#)
        );
    }

    #[test]
    fn a_poll_carries_the_texts_of_the_page() {
        for language in Language::ALL {
            for state in PreviewState::ALL {
                let mut text = String::new();
                write_poll_json(*language, &state.view(), &mut text);
                let value: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(value["cfWaitingRoom"].as_object().unwrap().len(), 25);
                assert_eq!(value["page"].as_object().unwrap().len(), 8, "{text}");
            }
        }
        let mut text = String::new();
        write_poll_json(Language::EnUs, &PreviewState::Queueing.view(), &mut text);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["page"]["positionText"], "1,284");
        assert_eq!(value["page"]["waitText"], "25 minutes");
        assert_eq!(value["page"]["title"], "25 minutes · You are in line");
        assert_eq!(value["page"]["eventText"], "");
    }

    #[test]
    fn texts_are_escaped() {
        let mut text = "\"".to_owned();
        text.push_str("a\"b\\c");
        escape_tail(&mut text, 1);
        assert_eq!(text, r#""a\"b\\c"#);
    }

    #[test]
    fn an_admitted_poll_is_told() {
        for (format, envelope) in [
            (JsonFormat::Cloudflare, "cfWaitingRoom"),
            (JsonFormat::Esa, "WaitingRoom"),
        ] {
            let value: serde_json::Value = serde_json::from_str(admitted_json(format)).unwrap();
            assert_eq!(value[envelope]["inWaitingRoom"], false);
        }
    }

    #[test]
    fn times_beyond_reason_are_written_too() {
        let mut text = String::new();
        write_time(Millis::new(u64::MAX), &mut text);
        assert!(text.starts_with("9999-12-3"), "{text}");
        text.clear();
        write_time(Millis::new(1_596_498_360_007), &mut text);
        assert_eq!(text, "2020-08-03T23:46:00.007Z");
    }
}
