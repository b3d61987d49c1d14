//! The core: who is admitted and who waits. Deterministic: the time and the seed come in as arguments. No sockets, no
//! clock, no global randomness, and no calls out of this module.

mod settings;
mod time;
mod view;
mod visitor;

pub use settings::{QueueingMethod, SessionRenewal};
pub use time::Millis;
pub use view::{EventPhase, WaitTime, WaitView};
pub use visitor::{Place, Session, Ticket, VisitorId, Waiting};
