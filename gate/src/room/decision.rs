//! What the core answers.

use super::view::{EventPhase, WaitTime, WaitView};
use super::visitor::{Session, Waiting};

/// How an admitted visitor comes by its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A slot was taken: the visitor was admitted just now.
    New,
    /// The visitor was active already.
    Renewed,
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Forward it; the answer carries `session`, which lives `lifetime_seconds` from now.
    Admit {
        session: Session,
        admission: Admission,
        lifetime_seconds: u32,
    },
    /// Answer with the waiting page; it carries `ticket`, which is good for `lifetime_seconds` without a check-in.
    Wait {
        ticket: Waiting,
        view: WaitView,
        lifetime_seconds: u32,
    },
    /// Answer with the waiting page and no ticket: the visitor has no place.
    Refuse { view: WaitView },
    /// The room is off: forward untouched, without a cookie.
    Bypass,
}

/// What a room does as a whole; the field's four words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    EventPrequeueing,
    NotQueueing,
    Queueing,
    Suspended,
}

/// A room at one instant. Counts are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub activity: Activity,
    pub active_users: u64,
    /// Waiters that are present.
    pub queued_users: u64,
    /// Waiters that have a place, present or not.
    pub places: u64,
    pub new_users_last_minute: u64,
    /// Since the room began; a restart with a state file goes on counting.
    pub admitted_total: u64,
    pub sessions_revoked_total: u64,
    /// The limits in effect.
    pub total_active_users: u32,
    pub new_users_per_minute: u32,
    /// The wait of one who joins now.
    pub wait_time: WaitTime,
    pub event: EventPhase,
    pub event_index: Option<usize>,
}
