//! Permutations that need no memory: how a prequeue is shuffled without touching anybody's ticket.

/// Puts the numbers `from..from + length` into another order; every other number stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shuffle {
    pub(super) from: u64,
    pub(super) length: u64,
    pub(super) key: u64,
}

impl Shuffle {
    /// Where the place `index` went. A bijection of the range onto itself.
    pub(super) fn apply(self, index: u64) -> u64 {
        match index.checked_sub(self.from) {
            Some(offset) if offset < self.length => self.from + self.permute(offset),
            Some(_) | None => index,
        }
    }

    /// A four-round Feistel network over the next even number of bits, walked until the value falls into the range again:
    /// at most four steps on average.
    fn permute(self, offset: u64) -> u64 {
        let bits = 64 - self.length.saturating_sub(1).leading_zeros();
        let half = bits.div_ceil(2).max(1);
        let mask = (1_u64 << half) - 1;
        let mut value = offset;
        loop {
            let (mut left, mut right) = (value >> half, value & mask);
            for round in 0..4_u64 {
                let mixed = mix(right ^ self.key.rotate_left((round * 16) as u32) ^ round) & mask;
                (left, right) = (right, left ^ mixed);
            }
            value = left << half | right;
            if value < self.length {
                return value;
            }
        }
    }
}

/// The finalizer of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_bijection_that_leaves_the_rest_alone(from in 0..1000_u64, length in 0..700_u64, key: u64) {
            let shuffle = Shuffle { from, length, key };
            let mut places: Vec<u64> = (0..2000).map(|index| shuffle.apply(index)).collect();
            prop_assert!((0..from).all(|index| places[index as usize] == index));
            prop_assert!((from + length..2000).all(|index| places[index as usize] == index));
            places.sort_unstable();
            prop_assert!(places.iter().copied().eq(0..2000));
        }
    }

    /// Every place is about as likely to become every other: the mean of where the first tenth lands is the middle.
    #[test]
    fn early_places_get_no_better_ones() {
        let length = 1000;
        let mut sum = 0;
        for key in 0..400_u64 {
            let shuffle = Shuffle {
                from: 0,
                length,
                key: mix(key + 1),
            };
            sum += (0..100).map(|index| shuffle.apply(index)).sum::<u64>();
        }
        let mean = sum as f64 / 40_000.0;
        assert!((480.0..520.0).contains(&mean), "{mean}");
    }
}
