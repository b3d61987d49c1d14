//! How long a waiter will wait: people ahead ÷ recent admissions per minute.
//!
//! Recent means the last five minutes in which there was a line. Before there is such history the divisor is what the limits
//! sustain, and it fades out as history comes in: with `T` seconds of history that saw `n` admissions,
//! `(sustained · 2 min + n) ÷ (2 min + T)`.

use super::settings::Limits;
use super::time::Millis;
use super::view::WaitTime;

const BUCKET_MILLIS: u64 = 10_000;
const BUCKETS: usize = 30;
/// How much history weighs as much as the limits do.
const PRIOR_MILLIS: f64 = 120_000.0;
/// Beyond it the queue counts as full: the field's rule.
pub(super) const WAIT_MINUTES_MAX: u64 = 24 * 60;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    number: u64,
    queueing_millis: u64,
    admissions: u64,
}

/// Admissions while there was a line.
#[derive(Clone, Debug)]
pub(super) struct Outflow {
    buckets: [Bucket; BUCKETS],
    last: Millis,
}

impl Outflow {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            buckets: [Bucket::default(); BUCKETS],
            last: now,
        }
    }

    /// Lets time pass, with people waiting or not.
    pub(super) fn advance(&mut self, now: Millis, anybody_waits: bool) {
        if anybody_waits {
            let passed = now.millis_since(self.last);
            self.bucket(now).queueing_millis += passed.min(BUCKET_MILLIS * BUCKETS as u64);
        }
        self.last = now;
    }

    /// Somebody who waited was admitted.
    pub(super) fn record(&mut self, now: Millis) {
        self.bucket(now).admissions += 1;
    }

    fn bucket(&mut self, now: Millis) -> &mut Bucket {
        let number = now.as_u64() / BUCKET_MILLIS;
        let bucket = &mut self.buckets[(number % BUCKETS as u64) as usize];
        if bucket.number != number {
            *bucket = Bucket {
                number,
                ..Bucket::default()
            };
        }
        bucket
    }

    /// Admissions per minute to reckon with. Always positive.
    pub(super) fn per_minute(&self, now: Millis, sustained_per_minute: f64) -> f64 {
        let oldest = (now.as_u64() / BUCKET_MILLIS).saturating_sub(BUCKETS as u64 - 1);
        let recent = self.buckets.iter().filter(|b| b.number >= oldest);
        let (millis, admissions) = recent.fold((0, 0), |(millis, admissions), bucket| {
            (
                millis + bucket.queueing_millis,
                admissions + bucket.admissions,
            )
        });
        let prior = sustained_per_minute * PRIOR_MILLIS / 60_000.0;
        (prior + admissions as f64) * 60_000.0 / (PRIOR_MILLIS + millis as f64)
    }
}

/// What the limits let in for ever: as many as leave when every session lasts exactly its duration, and not more than the
/// rate limit.
pub(super) fn sustained_per_minute(limits: Limits, session_duration_seconds: u32) -> f64 {
    let turnover =
        f64::from(limits.total_active_users()) * 60.0 / f64::from(session_duration_seconds);
    turnover.min(f64::from(limits.new_users_per_minute()))
}

/// The wait of one with `people` to be admitted up to and including him, in order.
pub(super) fn ordered_wait(people: u64, per_minute: f64) -> WaitTime {
    let minutes = whole_minutes(people as f64 / per_minute);
    WaitTime::Known {
        percentile_25_minutes: minutes,
        percentile_50_minutes: minutes,
        percentile_75_minutes: minutes,
    }
}

/// The wait of one among `people` of whom the next is drawn by lot: evenly spread over the time it takes to admit all.
pub(super) fn drawn_wait(people: u64, per_minute: f64) -> WaitTime {
    let all = people as f64 / per_minute;
    WaitTime::Known {
        percentile_25_minutes: whole_minutes(all * 0.25),
        percentile_50_minutes: whole_minutes(all * 0.5),
        percentile_75_minutes: whole_minutes(all * 0.75),
    }
}

/// Rounded up, at least 1: somebody who waits is never told 0.
fn whole_minutes(minutes: f64) -> u64 {
    // A float beyond the range becomes its end.
    (minutes.ceil() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_history_the_limits_speak() {
        let limits = Limits::new(500, 300).unwrap();
        assert_eq!(sustained_per_minute(limits, 300), 100.0);
        assert_eq!(sustained_per_minute(limits, 60), 300.0);
        let outflow = Outflow::new(Millis::ZERO);
        assert_eq!(outflow.per_minute(Millis::new(5_000), 100.0), 100.0);
        assert_eq!(
            ordered_wait(250, 100.0),
            WaitTime::Known {
                percentile_25_minutes: 3,
                percentile_50_minutes: 3,
                percentile_75_minutes: 3
            }
        );
    }

    #[test]
    fn history_outweighs_the_limits_and_is_forgotten() {
        let mut outflow = Outflow::new(Millis::ZERO);
        let mut now = Millis::ZERO;
        // Ten a minute, where the limits would sustain a hundred.
        for _ in 0..100 {
            now = now.plus_millis(6_000);
            outflow.advance(now, true);
            outflow.record(now);
        }
        let rate = outflow.per_minute(now, 100.0);
        assert!((10.0..40.0).contains(&rate), "{rate}");
        let later = now.plus_millis(600_000);
        assert_eq!(outflow.per_minute(later, 100.0), 100.0);
    }

    #[test]
    fn time_without_a_line_is_no_history() {
        let mut outflow = Outflow::new(Millis::ZERO);
        outflow.advance(Millis::new(200_000), false);
        assert_eq!(outflow.per_minute(Millis::new(200_000), 60.0), 60.0);
    }

    #[test]
    fn a_wait_is_never_nought() {
        assert!(matches!(
            drawn_wait(1, 1e9),
            WaitTime::Known {
                percentile_25_minutes: 1,
                ..
            }
        ));
    }
}
