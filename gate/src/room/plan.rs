//! What a room does when: its settings and its events. Which of them is in effect at a given time is decided here; nothing
//! here knows who waits.

use super::settings::{
    Limits, Operation, QueueingMethod, SessionDuration, SessionRenewal, Settings,
};
use super::time::Millis;

/// What an event changes while it runs. `None` inherits, and keeps following the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    pub limits: Option<Limits>,
    pub session_duration: Option<SessionDuration>,
    pub session_renewal: Option<SessionRenewal>,
    pub queueing_method: Option<QueueingMethod>,
}

/// Whether the places of a prequeue are permuted when the event starts (`shuffle_at_event_start`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrequeueOrder {
    #[default]
    Arrival,
    Shuffled,
}

/// Why an event cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventError {
    /// `event_end_time` must be at least a minute after `event_start_time`.
    EndsTooSoon,
    /// `prequeue_start_time` must be at least five minutes before `event_start_time`.
    PrequeueTooShort,
    /// `shuffle_at_event_start` needs a `prequeue_start_time`.
    ShuffleWithoutPrequeue,
}

impl std::fmt::Display for EventError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::EndsTooSoon => "event_end_time must be at least 1 minute after event_start_time",
            Self::PrequeueTooShort => {
                "prequeue_start_time must be at least 5 minutes before event_start_time"
            }
            Self::ShuffleWithoutPrequeue => "shuffle_at_event_start needs a prequeue_start_time",
        })
    }
}

impl std::error::Error for EventError {}

/// One event of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    starts_at: Millis,
    ends_at: Millis,
    prequeue_starts_at: Option<Millis>,
    prequeue_order: PrequeueOrder,
    operation: Operation,
    overrides: Overrides,
}

impl Event {
    /// Checks the order and the distances of the times (the field's rules).
    pub fn new(
        starts_at: Millis,
        ends_at: Millis,
        prequeue_starts_at: Option<Millis>,
        prequeue_order: PrequeueOrder,
        operation: Operation,
        overrides: Overrides,
    ) -> Result<Self, EventError> {
        if ends_at < starts_at.plus_millis(60_000) {
            return Err(EventError::EndsTooSoon);
        }
        match (prequeue_starts_at, prequeue_order) {
            (Some(prequeue), _) if prequeue.plus_millis(300_000) > starts_at => {
                return Err(EventError::PrequeueTooShort);
            }
            (None, PrequeueOrder::Shuffled) => return Err(EventError::ShuffleWithoutPrequeue),
            (Some(_) | None, _) => {}
        }
        Ok(Self {
            starts_at,
            ends_at,
            prequeue_starts_at,
            prequeue_order,
            operation,
            overrides,
        })
    }

    pub const fn starts_at(&self) -> Millis {
        self.starts_at
    }

    pub const fn ends_at(&self) -> Millis {
        self.ends_at
    }

    pub const fn prequeue_order(&self) -> PrequeueOrder {
        self.prequeue_order
    }

    /// When the event begins to matter: the prequeue's start where there is one.
    pub fn opens_at(&self) -> Millis {
        self.prequeue_starts_at.unwrap_or(self.starts_at)
    }

    /// Whether two events are in effect at a common instant, prequeues included.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.opens_at() < other.ends_at && other.opens_at() < self.ends_at
    }
}

/// Two events of one room are in effect at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlapError {
    /// Indices into the list given to [`Plan::new`].
    pub first: usize,
    pub second: usize,
}

impl std::fmt::Display for OverlapError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "events {} and {} of the room overlap",
            self.first, self.second
        )
    }
}

impl std::error::Error for OverlapError {}

/// Settings and events of one room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    settings: Settings,
    events: Vec<Event>,
}

/// Which part of an event a time falls in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Prequeue,
    Running,
}

/// What is in effect at one time, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct InEffect {
    pub(super) settings: Settings,
    /// Index of the event and its phase.
    pub(super) event: Option<(usize, Phase)>,
    /// Nothing changes before this time.
    pub(super) until: Millis,
}

impl Plan {
    /// A room without events.
    pub fn new_without_events(settings: Settings) -> Self {
        Self {
            settings,
            events: Vec::new(),
        }
    }

    /// Refuses events that overlap.
    pub fn new(settings: Settings, events: Vec<Event>) -> Result<Self, OverlapError> {
        for (second, event) in events.iter().enumerate() {
            if let Some(first) = events[..second].iter().position(|e| e.overlaps(event)) {
                return Err(OverlapError { first, second });
            }
        }
        Ok(Self { settings, events })
    }

    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    pub(super) fn in_effect(&self, now: Millis) -> InEffect {
        let mut until = Millis::new(u64::MAX);
        let mut current = None;
        for (index, event) in self.events.iter().enumerate() {
            if event.operation == Operation::Suspended {
                continue;
            }
            for edge in [event.opens_at(), event.starts_at, event.ends_at] {
                if edge > now && edge < until {
                    until = edge;
                }
            }
            if event.opens_at() <= now && now < event.ends_at {
                let phase = if now < event.starts_at {
                    Phase::Prequeue
                } else {
                    Phase::Running
                };
                current = Some((index, phase));
            }
        }
        let mut settings = self.settings;
        // From the prequeue on, so that an event that disables renewal empties the room before it starts.
        if let Some((index, _)) = current {
            let overrides = &self.events[index].overrides;
            settings.limits = overrides.limits.unwrap_or(settings.limits);
            settings.session_duration = overrides
                .session_duration
                .unwrap_or(settings.session_duration);
            settings.session_renewal = overrides
                .session_renewal
                .unwrap_or(settings.session_renewal);
            settings.queueing_method = overrides
                .queueing_method
                .unwrap_or(settings.queueing_method);
        }
        InEffect {
            settings,
            event: current,
            until,
        }
    }
}
