//! The same rate per source, in user space: for requests without a ticket on connections that are already open, so that one
//! client cannot mint places in the line.
//!
//! Works whether or not the kernel program is loaded, and by the same mode: nothing is refused in `off` and `monitor`.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use gate_common::gcra::{Charge, Rate};
use gate_common::sketch::hash;
use gate_common::source::SourceKey;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

use super::parameters::{rate, source_key};
use super::settings::{KernelMode, KernelSettings};
use crate::clock::MonotonicNs;

/// Sources that share one lock and compete for its entries.
const WAYS: usize = 8;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceCharge {
    Allowed,
    /// Answer 429 with this `Retry-After` and give no place. At least 1.
    Over {
        retry_after_seconds: u32,
    },
}

/// Counts since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRateCounts {
    /// Requests over the rate, refused or not.
    pub over: u64,
    /// Those refused with 429.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Option<SourceKey>,
    arrival_ns: u64,
}

const EMPTY: Entry = Entry {
    key: None,
    arrival_ns: 0,
};

/// The limiter. Shared by all threads; one short lock per charge, seldom contended.
///
/// It holds `source_entries_max` sources, rounded up to a power of two, 33 bytes each. When the eight entries a new source may take are all in
/// use, the one nearest to having used up nothing is forgotten and counts as new: to its advantage, never against it.
#[derive(Debug)]
pub struct SourceRate {
    sets: Box<[Mutex<[Entry; WAYS]>]>,
    seed: [u64; 2],
    mode: AtomicU8,
    rate: RwLock<Rate>,
    over: AtomicU64,
    refused: AtomicU64,
}

impl SourceRate {
    /// Empty. `seed` keeps strangers from aiming at one set.
    pub fn new(settings: &KernelSettings, seed: [u64; 2]) -> Self {
        let entries = settings.map_sizes.source_entries_max() as usize;
        let sets = entries.div_ceil(WAYS).next_power_of_two();
        let limiter = Self {
            sets: (0..sets).map(|_| Mutex::new([EMPTY; WAYS])).collect(),
            seed,
            mode: AtomicU8::new(0),
            rate: RwLock::new(rate(settings.source_rate)),
            over: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        };
        limiter.set(settings);
        limiter
    }

    /// Takes over mode and rate. The size stays.
    pub fn set(&self, settings: &KernelSettings) {
        *self.rate.write() = rate(settings.source_rate);
        self.mode.store(
            match settings.mode {
                KernelMode::Off => 0,
                KernelMode::Monitor => 1,
                KernelMode::Enforce => 2,
            },
            Ordering::Relaxed,
        );
    }

    /// Whether requests are charged at all.
    pub fn is_on(&self) -> bool {
        self.mode.load(Ordering::Relaxed) != 0
    }

    /// Charges one request without a ticket to its source. In `monitor` it is counted and allowed.
    ///
    /// For a client behind a trusted proxy, pass the client's address, not the proxy's.
    pub fn charge(&self, now: MonotonicNs, ip: IpAddr) -> SourceCharge {
        let mode = self.mode.load(Ordering::Relaxed);
        if mode == 0 {
            return SourceCharge::Allowed;
        }
        let Some(retry_after_ns) = self.charge_key(now.as_u64(), source_key(ip)) else {
            return SourceCharge::Allowed;
        };
        self.over.fetch_add(1, Ordering::Relaxed);
        if mode == 1 {
            return SourceCharge::Allowed;
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        let seconds = retry_after_ns.div_ceil(1_000_000_000).max(1);
        SourceCharge::Over {
            retry_after_seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
        }
    }

    /// Nanoseconds until the request would be allowed, or nothing where it is.
    fn charge_key(&self, now_ns: u64, key: SourceKey) -> Option<u64> {
        let rate = *self.rate.read();
        let index = hash(key, self.seed) as usize & (self.sets.len() - 1);
        let mut set = self.sets.get(index)?.lock();
        let entry = match set.iter().position(|entry| entry.key == Some(key)) {
            Some(own) => &mut set[own],
            None => {
                let idlest = set.iter_mut().min_by_key(|entry| entry.arrival_ns)?;
                *idlest = Entry {
                    key: Some(key),
                    arrival_ns: 0,
                };
                idlest
            }
        };
        match rate.charge(entry.arrival_ns, now_ns) {
            Charge::Within { arrival_ns } => {
                entry.arrival_ns = arrival_ns;
                None
            }
            Charge::Over { retry_after_ns } => Some(retry_after_ns),
        }
    }

    /// Counts since start.
    pub fn counts(&self) -> SourceRateCounts {
        SourceRateCounts {
            over: self.over.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::settings::{MapSizes, SourceRateLimit};

    const NOW: MonotonicNs = MonotonicNs::new(5_000_000_000);

    fn settings(mode: KernelMode) -> KernelSettings {
        KernelSettings {
            mode,
            source_rate: SourceRateLimit::new(60, 8).unwrap(),
            map_sizes: MapSizes::new(64, 64).unwrap(),
            ..KernelSettings::default()
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn allowed(limiter: &SourceRate, now: MonotonicNs, address: &str, tries: usize) -> usize {
        (0..tries)
            .filter(|_| limiter.charge(now, ip(address)) == SourceCharge::Allowed)
            .count()
    }

    #[test]
    fn a_source_gets_its_burst_and_then_its_rate() {
        let limiter = SourceRate::new(&settings(KernelMode::Enforce), [1, 2]);
        assert_eq!(allowed(&limiter, NOW, "192.0.2.1", 20), 8);
        assert_eq!(
            limiter.charge(NOW, ip("192.0.2.1")),
            SourceCharge::Over {
                retry_after_seconds: 1
            }
        );
        assert_eq!(
            allowed(&limiter, NOW, "192.0.2.2", 1),
            1,
            "others are not touched"
        );
        assert_eq!(allowed(&limiter, NOW.plus_seconds(3), "192.0.2.1", 20), 3);
        assert_eq!(
            limiter.counts(),
            SourceRateCounts {
                over: 30,
                refused: 30
            }
        );
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let limiter = SourceRate::new(&settings(KernelMode::Enforce), [1, 2]);
        assert_eq!(allowed(&limiter, NOW, "2001:db8::1", 8), 8);
        assert_eq!(allowed(&limiter, NOW, "2001:db8::2", 1), 0);
        assert_eq!(allowed(&limiter, NOW, "2001:db8:0:1::2", 1), 1);
    }

    #[test]
    fn monitor_counts_and_refuses_nothing_and_off_does_not_even_count() {
        let limiter = SourceRate::new(&settings(KernelMode::Monitor), [1, 2]);
        assert_eq!(allowed(&limiter, NOW, "192.0.2.1", 20), 20);
        assert_eq!(
            limiter.counts(),
            SourceRateCounts {
                over: 12,
                refused: 0
            }
        );
        limiter.set(&settings(KernelMode::Enforce));
        assert_eq!(
            allowed(&limiter, NOW, "192.0.2.1", 1),
            0,
            "the mode changes at once"
        );
        let off = SourceRate::new(&settings(KernelMode::Off), [1, 2]);
        assert_eq!(allowed(&off, NOW, "192.0.2.1", 20), 20);
        assert_eq!(off.counts(), SourceRateCounts::default());
    }

    #[test]
    fn a_full_table_forgets_the_idlest_and_refuses_nobody_new() {
        let limiter = SourceRate::new(&settings(KernelMode::Enforce), [1, 2]);
        for number in 0_u32..10_000 {
            let address = IpAddr::from(number.to_be_bytes());
            assert_eq!(limiter.charge(NOW, address), SourceCharge::Allowed);
        }
        assert_eq!(allowed(&limiter, NOW, "192.0.2.1", 9), 8);
    }

    #[test]
    fn a_heavy_source_survives_a_crowd_of_light_ones() {
        let limiter = SourceRate::new(&settings(KernelMode::Enforce), [1, 2]);
        assert_eq!(allowed(&limiter, NOW, "192.0.2.1", 9), 8);
        for number in 0_u32..10_000 {
            limiter.charge(NOW, IpAddr::from(number.to_be_bytes()));
        }
        assert_eq!(allowed(&limiter, NOW, "192.0.2.1", 9), 0);
    }
}
