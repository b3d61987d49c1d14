//! Prefix sums over a ring of counters, in logarithmic time. Knows nothing of lines.

/// Counters numbered by an ever growing block number, of which a window is in use; all others are zero.
#[derive(Clone, Debug, Default)]
pub(super) struct RingSums {
    /// A Fenwick tree over `capacity` (a power of two) counters; entry 0 is unused.
    tree: Vec<u32>,
    total: u64,
}

impl RingSums {
    fn capacity(&self) -> u64 {
        self.tree.len().saturating_sub(1) as u64
    }

    /// Makes room for `window` consecutive blocks. `count_of` gives the counters of the blocks from `first` on.
    pub(super) fn reserve(&mut self, window: u64, first: u64, counts: impl Iterator<Item = u32>) {
        if window <= self.capacity() {
            return;
        }
        let capacity = window.next_power_of_two().max(8);
        // A window is bounded by the number of waiters, so it fits.
        self.tree = vec![0; usize::try_from(capacity).unwrap_or(usize::MAX - 1) + 1];
        self.total = 0;
        for (offset, count) in counts.enumerate() {
            self.add(first + offset as u64, count);
        }
    }

    pub(super) fn add(&mut self, block: u64, count: u32) {
        self.total += u64::from(count);
        self.change(block, |cell| *cell += count);
    }

    pub(super) fn sub(&mut self, block: u64, count: u32) {
        self.total -= u64::from(count);
        self.change(block, |cell| *cell -= count);
    }

    /// The sum of the counters of `first..block`, which lie within one window.
    pub(super) fn sum(&self, first: u64, block: u64) -> u64 {
        if self.tree.is_empty() || block <= first {
            return 0;
        }
        let mask = self.capacity() - 1;
        let (from, to) = (first & mask, block & mask);
        if block - first > mask {
            return self.total;
        }
        if to >= from {
            self.prefix(to) - self.prefix(from)
        } else {
            self.total - self.prefix(from) + self.prefix(to)
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    fn change(&mut self, block: u64, mut change: impl FnMut(&mut u32)) {
        let mask = self.capacity() - 1;
        let mut at = usize::try_from(block & mask).unwrap_or(0) + 1;
        while at < self.tree.len() {
            change(&mut self.tree[at]);
            at += at & at.wrapping_neg();
        }
    }

    /// The sum of the ring's first `count` counters.
    fn prefix(&self, count: u64) -> u64 {
        let mut at = usize::try_from(count).unwrap_or(0);
        let mut sum = 0;
        while at > 0 {
            sum += u64::from(self.tree[at]);
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_adding_up(first in 0..1000_u64, counts in proptest::collection::vec(0..50_u32, 1..70)) {
            let mut sums = RingSums::default();
            sums.reserve(3, first, std::iter::empty());
            let mut known: Vec<u32> = Vec::new();
            for (offset, &count) in counts.iter().enumerate() {
                sums.reserve(offset as u64 + 1, first, known.iter().copied());
                sums.add(first + offset as u64, count);
                known.push(count);
            }
            for to in 0..=known.len() {
                for from in 0..=to {
                    let expected: u64 = known[from..to].iter().map(|&c| u64::from(c)).sum();
                    prop_assert_eq!(sums.sum(first + from as u64, first + to as u64), expected);
                }
            }
            prop_assert_eq!(sums.total(), known.iter().map(|&c| u64::from(c)).sum::<u64>());
        }
    }
}
