//! The core: who is admitted and who waits. Deterministic: the time and the seed come in as arguments. No sockets, no
//! clock, no global randomness, and no calls out of this module.
//!
//! `core` decides; `sessions`, `line`, `rate` and `pace` count; `plan` says which settings are in effect; `estimate` says how
//! long a wait will be; `snapshot` makes a room survive a restart.

mod core;
mod decision;
mod estimate;
mod fenwick;
mod line;
mod pace;
mod plan;
mod rate;
mod returned;
mod sessions;
pub mod settings;
pub mod shared;
mod shuffle;
pub mod slots;
mod snapshot;
mod time;
mod view;
mod visitor;

pub use core::Room;
pub use decision::{Activity, Admission, Decision, Status};
pub use plan::{Event, EventError, OverlapError, Overrides, Plan, PrequeueOrder};
pub use settings::{
    AdmissionPacing, Limits, LimitsError, Operation, QueueAll, QueueingMethod, RefreshInterval,
    SessionDuration, SessionRenewal, Settings,
};
pub use snapshot::{SavedRoom, Snapshot, SnapshotError};
pub use time::Millis;
pub use view::{EventPhase, WaitTime, WaitView};
pub use visitor::{Place, Session, Ticket, VisitorId, Waiting};
