//! Waiting for something to become true, with a deadline instead of a guess.

use std::thread;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine to start a process; a test that needs less never waits this long.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// How often a condition is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks again and again until `found` gives a value, and panics with `what` after `deadline`.
#[track_caller]
pub fn until<T>(what: &str, deadline: Duration, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(
            begun.elapsed() < deadline,
            "not within {deadline:?}: {what}"
        );
        thread::sleep(PAUSE);
    }
}

/// Real time since a moment of the test.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// What has passed.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
