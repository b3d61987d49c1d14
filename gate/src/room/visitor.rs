//! What a visitor carries between requests. Sealing it into a cookie is `ticket`'s work.

use super::time::Millis;

/// One visitor of one room, for as long as its cookie lives. Unique with the odds of 64 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VisitorId(pub u64);

/// A place in the line: the number of visitors that joined it before. Never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u64);

/// The ticket of a visitor who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub visitor: VisitorId,
    pub place: Place,
    pub joined_at: Millis,
    pub last_check_in: Millis,
}

/// The ticket of a visitor who was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    pub visitor: VisitorId,
    /// When the visitor first asked; equals `accepted_at` for one who never waited.
    pub joined_at: Millis,
    pub accepted_at: Millis,
    pub last_check_in: Millis,
}

/// What a cookie says, once opened. A cookie that cannot be opened is no ticket at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    Waiting(Waiting),
    Session(Session),
}
