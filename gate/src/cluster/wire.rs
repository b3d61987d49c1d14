//! Waiters by second as bytes: what gates tell each other once a second. Hostile bytes make no waiters and no panic.

use crate::room::shared::WaitersBySecond;

/// Seconds with waiters in one message. More than a day of them; what is beyond is left out, and those waiters are not seen by
/// other gates.
const SECONDS_MAX: usize = 100_000;

/// Pairs of the distance to the second before and of the count, each as a variable-length number.
pub(super) fn encode(waiters: &WaitersBySecond) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(waiters.pairs().len() * 3);
    let mut before = 0;
    for &(second, count) in waiters.pairs().iter().take(SECONDS_MAX) {
        put(&mut bytes, second - before);
        put(&mut bytes, zigzag(count));
        before = second;
    }
    bytes
}

/// The pairs of [`encode`]; `None` where the bytes are not such.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<(u64, i64)>> {
    let mut pairs = Vec::new();
    let mut second = 0_u64;
    while !bytes.is_empty() {
        second = second.checked_add(get(&mut bytes)?)?;
        pairs.push((second, unzigzag(get(&mut bytes)?)));
        if pairs.len() > SECONDS_MAX {
            return None;
        }
    }
    Some(pairs)
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)).cast_unsigned()
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1).cast_signed() ^ -(n & 1).cast_signed()
}

fn put(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        bytes.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

fn get(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        n |= part << shift;
        if first & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(pairs in proptest::collection::vec((any::<u64>(), -1_000_000..1_000_000_i64), 0..200)) {
            let waiters = WaitersBySecond::from_pairs(pairs);
            let back = decode(&encode(&waiters)).unwrap();
            prop_assert_eq!(back.as_slice(), waiters.pairs());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ignored = decode(&bytes);
        }
    }
}
