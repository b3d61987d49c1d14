//! HTTP between clients and the origin: listeners, connections, forwarding. Asks `ticket` who comes and `room` whether it
//! may pass; decides neither itself.

mod answers;
mod body;
mod check;
mod check_in;
mod client_io;
mod connection;
mod forward;
mod gate;
mod listener;
mod service;
mod tunnel;
mod upstream;
mod visit;
mod watch;

pub use gate::{Gate, Setup};
pub use listener::{Listeners, start};
