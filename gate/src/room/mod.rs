//! The core: who is admitted and who waits. Deterministic: the time and the seed come in as arguments. No sockets, no
//! clock, no global randomness, and no calls out of this module.

mod plan;
pub mod settings;
pub mod slots;
mod time;
mod view;
mod visitor;

pub use plan::{Event, EventError, OverlapError, Overrides, Plan, PrequeueOrder};
pub use settings::{
    AdmissionPacing, Limits, LimitsError, Operation, QueueAll, QueueingMethod, RefreshInterval,
    SessionDuration, SessionRenewal, Settings,
};
pub use time::Millis;
pub use view::{EventPhase, WaitTime, WaitView};
pub use visitor::{Place, Session, Ticket, VisitorId, Waiting};
