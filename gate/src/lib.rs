//! gate: a self-hosted virtual waiting room.
//!
//! One request, in a straight line: `proxy` accepts, `ticket` opens the cookie, `room` decides, then `proxy` forwards
//! (admitted, bypassed) or `page` answers (waiting, refused). Nothing flows backwards, and `room` never calls out.

pub mod admin;
pub mod clock;
pub mod kernel;
pub mod page;
pub mod room;
pub mod route;
pub mod state;
pub mod ticket;
