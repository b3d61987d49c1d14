//! Helpers of the end-to-end cases: real processes that end with the test, temporary folders, free ports, small HTTP clients.
//!
//! Nothing here stands in for a real peer: nginx, Redis, curl and Chromium are the ones from Debian. Waiting is polling with a
//! deadline, never a sleep that hopes.
#![allow(
    clippy::disallowed_methods,
    reason = "waits for real processes with real deadlines"
)]
#![allow(
    clippy::print_stderr,
    reason = "a test harness shows standard error where a test fails"
)]

pub mod browser;
pub mod curl;
pub mod frames;
pub mod gate;
pub mod http;
pub mod need;
pub mod netns;
pub mod nginx;
pub mod ports;
pub mod process;
pub mod program;
pub mod redis;
pub mod relay;
pub mod rough_origin;
pub mod wait;

pub use gate::Gate;
pub use need::Need;
pub use nginx::Nginx;
pub use process::Process;
pub use wait::{DEADLINE, Stopwatch, until};
