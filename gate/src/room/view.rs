//! What a waiting visitor is told. `page` turns it into HTML or JSON; nothing here is text.

use super::settings::QueueingMethod;
use super::time::Millis;

/// The expected wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTime {
    /// Nobody can say: `queue_all`, `reject`, a prequeue, or no slot in sight.
    Unknown,
    /// Minutes, rounded up. In an ordered line the three percentiles are the same number.
    Known {
        percentile_25_minutes: u64,
        percentile_50_minutes: u64,
        percentile_75_minutes: u64,
    },
}

/// Where the room's event stands, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventPhase {
    None,
    /// New visitors gather and nobody is admitted until `starts_at`.
    Prequeueing {
        starts_at: Millis,
        ends_at: Millis,
        shuffle_at_event_start: bool,
    },
    Active {
        ends_at: Millis,
        shuffle_at_event_start: bool,
    },
}

/// Everything an answer to a waiting visitor shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitView {
    /// 1 for the next to enter; `None` where there is no order.
    pub position: Option<u64>,
    pub wait_time: WaitTime,
    /// The wait is longer than a day, or the line takes nobody more.
    pub queue_is_full: bool,
    pub queue_all: bool,
    pub queueing_method: QueueingMethod,
    /// The last check-in that counted: one sooner than the refresh interval changes nothing.
    pub last_updated: Millis,
    /// 0 where the page does not refresh (`reject`).
    pub refresh_interval_seconds: u32,
    pub event: EventPhase,
    /// Which of the plan's events `event` speaks of; its page, status code and language may differ from the room's.
    pub event_index: Option<usize>,
    /// The time this was computed for.
    pub now: Millis,
}
