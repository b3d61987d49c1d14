//! A rate limit in one word (the generic cell rate algorithm).
//!
//! The word is the theoretical arrival time: when the source's past would be used up at the configured rate. Because it is a
//! single word, two processors that update it at once leave one of the two results, never a mixture: at worst one event per
//! race is not charged.

/// A rate and a burst, in the form in which no division is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// What one event uses up, in nanoseconds.
    pub interval_ns: u64,
    /// How far ahead of now the word may run: the interval times the burst, in nanoseconds.
    pub limit_ns: u64,
}

/// What became of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Within the rate: this is the word to store.
    Within { arrival_ns: u64 },
    /// Over the rate: nothing is stored, and after this time the event would be within it.
    Over { retry_after_ns: u64 },
}

impl Rate {
    /// Charges one event at `now_ns` to a source whose word is `arrival_ns` (0 where it has none).
    ///
    /// Over any span the events within the rate are at most `limit / interval + span / interval`. A word further ahead than
    /// the limit, left by an earlier slower rate, counts as just at the limit.
    #[inline(always)]
    pub const fn charge(self, arrival_ns: u64, now_ns: u64) -> Charge {
        let latest = now_ns.saturating_add(self.limit_ns);
        let base = if arrival_ns < now_ns {
            now_ns
        } else if arrival_ns > latest {
            latest
        } else {
            arrival_ns
        };
        let next = base.saturating_add(self.interval_ns);
        if next <= latest {
            Charge::Within { arrival_ns: next }
        } else {
            Charge::Over {
                retry_after_ns: next - latest,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(interval_ns: u64, burst: u64) -> Rate {
        Rate {
            interval_ns,
            limit_ns: interval_ns * burst,
        }
    }

    #[test]
    fn a_burst_passes_and_no_more() {
        let rate = rate(100, 5);
        let mut word = 0;
        for _ in 0..5 {
            let Charge::Within { arrival_ns } = rate.charge(word, 1_000) else {
                panic!("the burst is within the rate");
            };
            word = arrival_ns;
        }
        assert_eq!(
            rate.charge(word, 1_000),
            Charge::Over {
                retry_after_ns: 100
            }
        );
        assert_eq!(rate.charge(word, 1_099), Charge::Over { retry_after_ns: 1 });
        assert!(matches!(rate.charge(word, 1_100), Charge::Within { .. }));
    }

    #[test]
    fn a_word_from_a_slower_rate_heals_at_once() {
        let slow = rate(1_000_000, 100);
        let Charge::Within { arrival_ns } = slow.charge(99_000_000, 1) else {
            panic!("within the slow rate");
        };
        let fast = rate(10, 5);
        assert_eq!(
            fast.charge(arrival_ns, 2),
            Charge::Over { retry_after_ns: 10 }
        );
    }

    proptest! {
        /// In every span, at most the burst plus what the span is worth.
        #[test]
        fn the_rate_holds_over_every_span(
            interval in 1_u64..1_000,
            burst in 1_u64..20,
            gaps in proptest::collection::vec(0_u64..2_000, 1..200),
        ) {
            let rate = rate(interval, burst);
            let (mut word, mut now) = (0, 5_000_000);
            let mut passed = std::vec::Vec::new();
            for gap in gaps {
                now += gap;
                if let Charge::Within { arrival_ns } = rate.charge(word, now) {
                    word = arrival_ns;
                    passed.push(now);
                }
            }
            for (first, start) in passed.iter().enumerate() {
                for (last, end) in passed.iter().enumerate().skip(first) {
                    let count = (last - first + 1) as u64;
                    prop_assert!(count <= burst + (end - start) / interval);
                }
            }
        }

        /// What is announced is enough, and is not more than needed.
        #[test]
        fn retry_after_is_exact(interval in 1_u64..1_000, burst in 1_u64..20, word in 0_u64..100_000, now in 0_u64..100_000) {
            let rate = rate(interval, burst);
            if let Charge::Over { retry_after_ns } = rate.charge(word.min(now + rate.limit_ns), now) {
                let word = word.min(now + rate.limit_ns);
                prop_assert!(matches!(rate.charge(word, now + retry_after_ns), Charge::Within { .. }), "too short");
                prop_assert!(matches!(rate.charge(word, now + retry_after_ns - 1), Charge::Over { .. }), "too long");
            }
        }

        #[test]
        fn no_input_panics(interval: u64, limit: u64, word: u64, now: u64) {
            Rate { interval_ns: interval, limit_ns: limit }.charge(word, now);
        }
    }
}
