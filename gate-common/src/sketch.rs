//! The doorkeeper in front of exact tracking: a keyed count-min sketch, one per processor.
//!
//! It only ever promotes a source to exact tracking and never judges one, because it errs towards "seen more often": two sources
//! that share all their cells are counted together. What that costs an innocent source is that it is tracked exactly, and starts
//! with [`Parameters::promote_threshold`](crate::config::Parameters::promote_threshold) connections charged.

use crate::gcra::{Charge, Rate};
use crate::source::SourceKey;

/// Rows, each with a hash of its own.
pub const ROWS: usize = 4;
/// Cells of a row; a power of two, so that a mask proves the index in range.
pub const COLUMNS: usize = 1024;
const COLUMN_MASK: usize = COLUMNS - 1;
const SECOND_NS: u64 = 1_000_000_000;

/// The state of one processor: the sketch, its budget to learn sources, its budget to tell events.
///
/// A cell is a window number (upper half) and a count (lower half); a cell of another window counts as zero, so that nothing
/// is ever cleared. After 65,536 windows an untouched cell looks current again and counts too much, which promotes at worst.
#[repr(C)]
#[derive(Debug)]
pub struct Local {
    window_start_ns: u64,
    window: u64,
    /// Connections counted in this window.
    seen: u64,
    learn_start_ns: u64,
    learned: u64,
    events_arrival_ns: u64,
    cells: [[u32; COLUMNS]; ROWS],
}

/// The kernel refuses larger values of a per-processor map.
const PER_CPU_VALUE_BYTES_MAX: usize = 32 * 1024;
const _: () = assert!(size_of::<Local>() == 6 * 8 + 4 * ROWS * COLUMNS);
const _: () = assert!(size_of::<Local>() <= PER_CPU_VALUE_BYTES_MAX && COLUMNS.is_power_of_two());

/// Whether a source is seen often enough to be tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    Light,
    Heavy,
}

/// How the sketch counts.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    pub seed: [u64; 2],
    pub window_ns: u64,
    pub promote_threshold: u64,
}

impl Local {
    /// As the kernel creates it.
    pub const fn new() -> Self {
        Self {
            window_start_ns: 0,
            window: 0,
            seen: 0,
            learn_start_ns: 0,
            learned: 0,
            events_arrival_ns: 0,
            cells: [[0; COLUMNS]; ROWS],
        }
    }

    /// Counts one connection and says whether its source is heavy.
    ///
    /// In a flood from countless sources every cell fills with strangers. Twice the average of a row is therefore added to the
    /// threshold: one-shot sources do not promote each other, a heavy source still stands out.
    #[inline(always)]
    pub fn count(&mut self, source: SourceKey, counting: Counting, now_ns: u64) -> Weight {
        if now_ns.wrapping_sub(self.window_start_ns) >= counting.window_ns {
            self.window_start_ns = now_ns;
            self.window = self.window.wrapping_add(1);
            self.seen = 0;
        }
        self.seen = self.seen.wrapping_add(1);
        let estimate = self.touch(hash(source, counting.seed));
        let strangers = self.seen / (COLUMNS as u64 / 2);
        if estimate >= counting.promote_threshold.saturating_add(strangers) {
            Weight::Heavy
        } else {
            Weight::Light
        }
    }

    /// Raises the source's lowest cells and returns its count. Cells that already say more are left alone: they owe it to others.
    #[inline(always)]
    fn touch(&mut self, hash: u64) -> u64 {
        let tag = (self.window as u32) << 16;
        let columns = [
            hash as usize & COLUMN_MASK,
            (hash >> 16) as usize & COLUMN_MASK,
            (hash >> 32) as usize & COLUMN_MASK,
            (hash >> 48) as usize & COLUMN_MASK,
        ];
        let counts = [
            count_in(self.cells[0][columns[0]], tag),
            count_in(self.cells[1][columns[1]], tag),
            count_in(self.cells[2][columns[2]], tag),
            count_in(self.cells[3][columns[3]], tag),
        ];
        let mut least = counts[0];
        if counts[1] < least {
            least = counts[1];
        }
        if counts[2] < least {
            least = counts[2];
        }
        if counts[3] < least {
            least = counts[3];
        }
        let count = if least < 0xffff { least + 1 } else { least };
        if counts[0] < count {
            self.cells[0][columns[0]] = tag | count;
        }
        if counts[1] < count {
            self.cells[1][columns[1]] = tag | count;
        }
        if counts[2] < count {
            self.cells[2][columns[2]] = tag | count;
        }
        if counts[3] < count {
            self.cells[3][columns[3]] = tag | count;
        }
        count as u64
    }

    /// Takes one of the sources this processor may begin to track in this second; `false` where none is left.
    #[inline(always)]
    pub fn take_learning(&mut self, per_second_max: u64, now_ns: u64) -> bool {
        if now_ns.wrapping_sub(self.learn_start_ns) >= SECOND_NS {
            self.learn_start_ns = now_ns;
            self.learned = 0;
        }
        if self.learned >= per_second_max {
            return false;
        }
        self.learned += 1;
        true
    }

    /// Takes one of the events this processor may tell; `false` where it has told enough.
    #[inline(always)]
    pub fn take_event(&mut self, rate: Rate, now_ns: u64) -> bool {
        match rate.charge(self.events_arrival_ns, now_ns) {
            Charge::Within { arrival_ns } => {
                self.events_arrival_ns = arrival_ns;
                true
            }
            Charge::Over { .. } => false,
        }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

#[inline(always)]
const fn count_in(cell: u32, tag: u32) -> u32 {
    if cell & 0xffff_0000 == tag {
        cell & 0xffff
    } else {
        0
    }
}

/// A keyed hash of a source. Not cryptographic: its output never leaves the host, and whoever found a collision could only get
/// another source tracked exactly.
#[inline(always)]
pub const fn hash(source: SourceKey, seed: [u64; 2]) -> u64 {
    let [first, second] = source.halves();
    let mut mixed = (first ^ seed[0]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 32;
    mixed = (mixed ^ second ^ seed[1]).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^= mixed >> 29;
    mixed = mixed.wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::Address;

    const WINDOW_NS: u64 = 1_000_000_000;

    fn source(number: u32) -> SourceKey {
        SourceKey::of(Address::from_ipv4(number.to_be_bytes()))
    }

    fn counting(promote_threshold: u64) -> Counting {
        Counting {
            seed: [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210],
            window_ns: WINDOW_NS,
            promote_threshold,
        }
    }

    #[test]
    fn a_lone_source_is_heavy_exactly_at_the_threshold() {
        let mut local = Local::new();
        for _ in 0..7 {
            assert_eq!(
                local.count(source(1), counting(8), 5 * WINDOW_NS),
                Weight::Light
            );
        }
        assert_eq!(
            local.count(source(1), counting(8), 5 * WINDOW_NS),
            Weight::Heavy
        );
    }

    #[test]
    fn a_new_window_starts_from_nothing() {
        let mut local = Local::new();
        for round in 1..100 {
            for _ in 0..7 {
                let now = round * WINDOW_NS;
                assert_eq!(local.count(source(1), counting(8), now), Weight::Light);
            }
        }
    }

    #[test]
    fn a_million_single_connections_promote_nobody_and_hide_nobody() {
        let mut local = Local::new();
        let mut promoted = 0;
        for number in 0..1_000_000 {
            if local.count(source(number), counting(8), WINDOW_NS) == Weight::Heavy {
                promoted += 1;
            }
        }
        assert!(promoted < 100, "{promoted} of a million were promoted");
        let needed = (1..10_000)
            .find(|_| local.count(source(u32::MAX), counting(8), WINDOW_NS) == Weight::Heavy);
        assert!(needed.is_some(), "a heavy source is lost in the crowd");
    }

    #[test]
    fn counts_stop_at_their_largest() {
        let mut local = Local::new();
        for _ in 0..70_000 {
            local.touch(1);
        }
        assert_eq!(local.touch(1), 0xffff);
    }

    #[test]
    fn learning_has_a_budget_per_second() {
        let mut local = Local::new();
        let taken =
            |local: &mut Local, now| (0..10).filter(|_| local.take_learning(4, now)).count();
        assert_eq!(taken(&mut local, 10 * SECOND_NS), 4);
        assert_eq!(taken(&mut local, 10 * SECOND_NS + 999_999_999), 0);
        assert_eq!(taken(&mut local, 11 * SECOND_NS), 4);
    }

    #[test]
    fn events_have_a_budget() {
        let mut local = Local::new();
        let rate = Rate {
            interval_ns: SECOND_NS,
            limit_ns: 3 * SECOND_NS,
        };
        let told = (0..10)
            .filter(|_| local.take_event(rate, 100 * SECOND_NS))
            .count();
        assert_eq!(told, 3);
    }

    proptest! {
        /// The count is never below the truth.
        #[test]
        fn nobody_is_counted_too_little(numbers in proptest::collection::vec(0_u32..300, 1..3_000)) {
            let mut local = Local::new();
            let mut truth = std::collections::HashMap::new();
            for number in numbers {
                let count = local.touch(hash(source(number), [1, 2]));
                let true_count = truth.entry(number).or_insert(0_u64);
                *true_count += 1;
                prop_assert!(count >= *true_count);
            }
        }
    }
}
