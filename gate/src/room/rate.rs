//! Admissions in the last 60 seconds, exactly.

use std::collections::VecDeque;

use super::time::Millis;

const WINDOW_MILLIS: u64 = 60_000;

/// Counts admissions in a window that ends now. One entry a millisecond in which somebody was admitted, so at most 60,001
/// entries of 16 bytes whatever the limit is.
#[derive(Clone, Debug, Default)]
pub(super) struct RateWindow {
    /// Times and counts, oldest first.
    admissions: VecDeque<(Millis, u32)>,
    total: u64,
}

impl RateWindow {
    /// Forgets what is out of the window. An admission counts until more than 60 seconds have passed: times are whole
    /// milliseconds, and an interval of exactly 60 seconds holds both its ends.
    pub(super) fn advance(&mut self, now: Millis) {
        while let Some(&(at, count)) = self.admissions.front() {
            if now.millis_since(at) <= WINDOW_MILLIS {
                break;
            }
            self.total -= u64::from(count);
            self.admissions.pop_front();
        }
    }

    /// Counts one admission. `now` is not earlier than in any call before.
    pub(super) fn record(&mut self, now: Millis) {
        self.total += 1;
        match self.admissions.back_mut() {
            Some((at, count)) if *at == now => *count += 1,
            Some(_) | None => self.admissions.push_back((now, 1)),
        }
    }

    /// Admissions in the window, as of the last call to [`Self::advance`].
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (Millis, u32)> + '_ {
        self.admissions.iter().copied()
    }

    pub(super) fn restore(&mut self, at: Millis, count: u32) {
        self.total += u64::from(count);
        self.admissions.push_back((at, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admission_counts_for_sixty_seconds_and_not_longer() {
        let mut window = RateWindow::default();
        window.record(Millis::new(1_000));
        window.record(Millis::new(1_000));
        window.advance(Millis::new(61_000));
        assert_eq!(window.total(), 2);
        window.advance(Millis::new(61_001));
        assert_eq!(window.total(), 0);
        assert_eq!(window.entries().count(), 0);
    }

    #[test]
    fn memory_is_bounded_by_the_milliseconds_of_a_window() {
        let mut window = RateWindow::default();
        for at in 0..200_000_u64 {
            window.advance(Millis::new(at));
            window.record(Millis::new(at));
            window.record(Millis::new(at));
        }
        assert_eq!(window.entries().count(), 60_001);
    }
}
