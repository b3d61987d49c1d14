//! Even admission: the minute's budget in equal steps (`admission_pacing = "smooth"`).

use super::time::Millis;

/// Admits at most one second's share at once, and one at least, then one each `60 s ÷ new_users_per_minute`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Microseconds; the next admission is on time from here on.
    next_us: u64,
}

impl Pace {
    /// Admissions the pace allows now.
    pub(super) fn allows(self, now: Millis, per_minute: u32) -> u64 {
        let now_us = now.as_u64().saturating_mul(1000);
        let step_us = step_us(per_minute);
        let burst = u64::from(per_minute / 60).max(1);
        let latest_us = now_us.saturating_add((burst - 1) * step_us);
        match latest_us.checked_sub(self.next_us.max(now_us)) {
            Some(room_us) => room_us / step_us + 1,
            None => 0,
        }
    }

    pub(super) fn take(&mut self, now: Millis, per_minute: u32) {
        let now_us = now.as_u64().saturating_mul(1000);
        self.next_us = self.next_us.max(now_us).saturating_add(step_us(per_minute));
    }
}

fn step_us(per_minute: u32) -> u64 {
    // A limit beyond 60 million a minute is no pace; the rolling window still holds it.
    (60_000_000 / u64::from(per_minute.max(1))).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(per_minute: u32, seconds: u64) -> u64 {
        let mut pace = Pace::default();
        let mut count = 0;
        for milli in 0..seconds * 1000 {
            let now = Millis::new(1_000_000 + milli);
            while pace.allows(now, per_minute) > 0 {
                pace.take(now, per_minute);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn spreads_the_budget() {
        assert_eq!(admitted(6, 59), 6);
        assert_eq!(admitted(6, 9), 1);
        // One second's share at once, the rest in step.
        let first_second = admitted(600, 1);
        assert!((10..=20).contains(&first_second), "{first_second}");
    }

    #[test]
    fn an_idle_hour_saves_up_one_second() {
        let pace = Pace::default();
        assert_eq!(pace.allows(Millis::new(3_600_000), 600), 10);
        assert_eq!(pace.allows(Millis::new(3_600_000), 5), 1);
    }
}
