//! gate: a self-hosted virtual waiting room.
//!
//! One request, in a straight line: `proxy` accepts, `ticket` opens the cookie, `room` decides, then `proxy` forwards
//! (admitted, bypassed) or `page` answers (waiting, refused). Nothing flows backwards, and `room` never calls out.

pub mod admin;
pub mod cli;
pub mod clock;
<<<<<<< HEAD
pub mod config;
=======
pub mod cluster;
>>>>>>> 23b2736 (Keep the books of shared slots, in memory and in Redis, and simulate whole clusters)
pub mod kernel;
pub mod page;
pub mod proxy;
pub mod registry;
pub mod room;
pub mod route;
<<<<<<< HEAD
pub mod serve;
pub mod state;
=======
pub mod simulate;
>>>>>>> 23b2736 (Keep the books of shared slots, in memory and in Redis, and simulate whole clusters)
pub mod ticket;
