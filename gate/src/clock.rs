//! The only place that reads a clock.
//!
//! Room time is milliseconds since the Unix epoch, anchored once at start and then advanced by the monotonic clock: steps
//! of the wall clock while the gate runs neither end sessions nor free slots.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::room::Millis;

/// A running clock. Cheap to copy; every copy shows the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    anchor: Instant,
    anchor_millis: u64,
}

impl Clock {
    /// Starts at the wall clock's time, or at `not_before` where the wall clock is behind it (a restart after the wall
    /// clock was stepped back must not show the saved state a time before its own).
    #[expect(
        clippy::disallowed_methods,
        reason = "this module is where time enters"
    )]
    pub fn start(not_before: Millis) -> Self {
        // A wall clock before 1970 counts as 1970.
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            });
        Self {
            anchor: Instant::now(),
            anchor_millis: wall.max(not_before.as_u64()),
        }
    }

    /// The same clock, showing `now` at this moment.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this module is where time enters"
    )]
    pub fn showing(now: Millis) -> Self {
        Self {
            anchor: Instant::now(),
            anchor_millis: now.as_u64(),
        }
    }

    /// Room time now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this module is where time enters"
    )]
    pub fn now(&self) -> Millis {
        let passed: Duration = Instant::now().saturating_duration_since(self.anchor);
        Millis::new(
            self.anchor_millis
                .saturating_add(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)),
        )
    }
}

/// A reading of `CLOCK_MONOTONIC` in nanoseconds: the kernel program's clock. Never mixed with room time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonotonicNs(u64);

impl MonotonicNs {
    /// From nanoseconds.
    pub const fn new(ns: u64) -> Self {
        Self(ns)
    }

    /// What the clock shows now. Costs about 25 ns: take it once per request.
    pub fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(ns))
    }

    /// Nanoseconds.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// This instant plus whole seconds, at most the last instant there is.
    #[must_use]
    pub const fn plus_seconds(self, seconds: u64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1_000_000_000)))
    }
}
