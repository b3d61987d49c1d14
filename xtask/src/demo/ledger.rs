//! What the origin itself can say about the limits: who is in, since when, and how many came in within a minute. Pure; time
//! comes in as an argument. Knows nothing of the gate, so that it can contradict it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The origin hears of a request a moment after the gate has stamped it, so its periods are shorter by this much.
pub(super) const GRACE: Duration = Duration::from_secs(1);

const MINUTE: Duration = Duration::from_secs(60);

/// One room's visitors as the origin sees them.
#[derive(Debug)]
pub(super) struct Ledger {
    session: Duration,
    last_seen: HashMap<u64, Duration>,
    entries: VecDeque<Duration>,
    admitted: usize,
    most_active: usize,
    most_in_a_minute: usize,
}

impl Ledger {
    /// For sessions that live this long after their last request.
    pub(super) fn new(session: Duration) -> Self {
        Self {
            session: session.saturating_sub(GRACE),
            last_seen: HashMap::new(),
            entries: VecDeque::new(),
            admitted: 0,
            most_active: 0,
            most_in_a_minute: 0,
        }
    }

    /// A request of this visitor has arrived.
    pub(super) fn seen(&mut self, visitor: u64, now: Duration) {
        self.forget(now);
        if self.last_seen.insert(visitor, now).is_none() {
            self.entries.push_back(now);
            self.admitted += 1;
            self.most_active = self.most_active.max(self.last_seen.len());
            self.most_in_a_minute = self.most_in_a_minute.max(self.entries.len());
        }
    }

    /// This visitor has left; its slot is free from here on.
    pub(super) fn left(&mut self, visitor: u64) {
        self.last_seen.remove(&visitor);
    }

    /// Visitors that are in.
    pub(super) fn active(&mut self, now: Duration) -> usize {
        self.forget(now);
        self.last_seen.len()
    }

    /// Visitors that came in within the last minute.
    pub(super) fn in_the_last_minute(&mut self, now: Duration) -> usize {
        self.forget(now);
        self.entries.len()
    }

    /// Visitors that ever came in.
    pub(super) fn admitted(&self) -> usize {
        self.admitted
    }

    /// The most that were in at one time.
    pub(super) fn most_active(&self) -> usize {
        self.most_active
    }

    /// The most that came in within any rolling minute.
    pub(super) fn most_in_a_minute(&self) -> usize {
        self.most_in_a_minute
    }

    fn forget(&mut self, now: Duration) {
        let session = self.session;
        self.last_seen
            .retain(|_, last| now.saturating_sub(*last) < session);
        while let Some(first) = self.entries.front()
            && now.saturating_sub(*first) >= MINUTE.saturating_sub(GRACE)
        {
            self.entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn counts_who_is_in_and_who_came() {
        let mut ledger = Ledger::new(at(60));
        ledger.seen(1, at(0));
        ledger.seen(2, at(1));
        ledger.seen(1, at(30));
        assert_eq!(ledger.active(at(31)), 2);
        assert_eq!(ledger.most_in_a_minute(), 2);
        ledger.left(1);
        assert_eq!(ledger.active(at(31)), 1);
        ledger.seen(3, at(62));
        assert_eq!(ledger.active(at(62)), 1, "the second's session has ended");
        assert_eq!((ledger.admitted(), ledger.most_active()), (3, 2));
        assert_eq!(ledger.in_the_last_minute(at(62)), 1);
    }

    #[test]
    fn an_overshoot_shows() {
        let mut ledger = Ledger::new(at(60));
        for visitor in 0..6 {
            ledger.seen(visitor, at(visitor));
            ledger.left(visitor);
        }
        assert_eq!((ledger.most_active(), ledger.most_in_a_minute()), (1, 6));
    }
}
