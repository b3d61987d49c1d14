//! gate: a self-hosted virtual waiting room.
//!
//! One request, in a straight line: `proxy` accepts, `ticket` opens the cookie, `room` decides, then `proxy` forwards
//! (admitted, bypassed) or `page` answers (waiting, refused). Nothing flows backwards, and `room` never calls out.

pub mod admin;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod kernel;
pub mod page;
pub mod proxy;
pub mod registry;
pub mod room;
pub mod route;
pub mod rules;
pub mod serve;
pub mod simulate;
pub mod state;
pub mod ticket;
