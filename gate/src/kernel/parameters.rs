//! From settings to the words the kernel program reads. Pure.

use std::net::IpAddr;

use gate_common::config::{Mode, Parameters, PrefixLookup};
use gate_common::gcra::Rate;
use gate_common::source::{Address, SourceKey};

use super::settings::{KernelMode, KernelSettings, SourceRateLimit};

/// The kernel's cheap clock moves in steps of up to 10 ms; a limit shorter than one step would refuse what the rate allows.
const LIMIT_NS_MIN: u64 = 10_000_000;
/// Shortest window of the sketch.
const WINDOW_NS_MIN: u64 = 1_000_000_000;
/// Longest window: beyond it the sketch would remember visitors who left long ago.
const WINDOW_NS_MAX: u64 = 300_000_000_000;
/// A source is promoted after a quarter of its burst, within these bounds.
const PROMOTE_THRESHOLD_MIN: u64 = 2;
/// See [`PROMOTE_THRESHOLD_MIN`].
const PROMOTE_THRESHOLD_MAX: u64 = 16;
/// The exact table turns over at most once in so many seconds, however hard strangers knock.
const TURNOVER_SECONDS_MIN: u64 = 16;
/// Events per second and processor about sources that went over their rate. What exceeds it is only counted.
const EVENTS_PER_SECOND_MAX: u64 = 10;

/// What the program is told. `processors` is how many may run it at once.
pub(super) fn parameters(settings: &KernelSettings, processors: u64, seed: [u64; 2]) -> Parameters {
    let processors = processors.max(1);
    let source = rate(settings.source_rate);
    let promote_threshold = (u64::from(settings.source_rate.burst()) / 4)
        .clamp(PROMOTE_THRESHOLD_MIN, PROMOTE_THRESHOLD_MAX);
    // Each processor counts for itself: what all of them may let through untracked in one window stays below the rate.
    let window_ns = promote_threshold
        .saturating_mul(processors)
        .saturating_mul(source.interval_ns)
        .clamp(WINDOW_NS_MIN, WINDOW_NS_MAX);
    let entries = u64::from(settings.map_sizes.source_entries_max());
    let has_prefixes = !settings.deny.is_empty() || !settings.trusted_proxies.is_empty();
    Parameters {
        mode: mode(settings.mode),
        source,
        admitted: rate(settings.admitted_rate),
        promote_threshold,
        window_ns,
        learn_per_second_max: (entries / TURNOVER_SECONDS_MIN / processors).max(1),
        events: Rate {
            interval_ns: 1_000_000_000 / EVENTS_PER_SECOND_MAX,
            limit_ns: 1_000_000_000,
        },
        seed,
        prefixes: if has_prefixes {
            PrefixLookup::Do
        } else {
            PrefixLookup::Skip
        },
    }
}

const fn mode(mode: KernelMode) -> Mode {
    match mode {
        KernelMode::Off => Mode::Off,
        KernelMode::Monitor => Mode::Monitor,
        KernelMode::Enforce => Mode::Enforce,
    }
}

/// The rate as the limiter uses it.
pub(super) const fn rate(limit: SourceRateLimit) -> Rate {
    let interval_ns = limit.interval_ns();
    let limit_ns = interval_ns * limit.burst() as u64;
    Rate {
        interval_ns,
        limit_ns: if limit_ns < LIMIT_NS_MIN {
            LIMIT_NS_MIN
        } else {
            limit_ns
        },
    }
}

/// An address as the kernel's maps hold it.
pub(super) fn address(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(v4) => Address::from_ipv4(v4.octets()),
        IpAddr::V6(v6) => Address::from_ipv6(v6.octets()),
    }
}

/// The source an address belongs to.
pub(super) fn source_key(ip: IpAddr) -> SourceKey {
    SourceKey::of(address(ip))
}

/// The key's bytes as the maps hold them.
pub(super) const fn key_bytes(source: SourceKey) -> [u8; 16] {
    source.address().octets()
}

/// The address of a key, for people.
pub(super) fn ip_of(octets: [u8; 16]) -> IpAddr {
    IpAddr::from(octets).to_canonical()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::settings::{BURST_MAX, RATE_PER_MINUTE_MAX, SOURCE_BURST_MIN};

    proptest! {
        /// No settings lead to a program that drops what the rate allows or lets more through untracked than the rate.
        #[test]
        fn parameters_are_consistent(
            per_minute in 1..=RATE_PER_MINUTE_MAX,
            burst in SOURCE_BURST_MIN..=BURST_MAX,
            processors in 0_u64..512,
        ) {
            let settings = KernelSettings {
                source_rate: SourceRateLimit::new(per_minute, burst).unwrap(),
                ..KernelSettings::default()
            };
            let parameters = parameters(&settings, processors, [1, 2]);
            let used_ns = parameters.promote_threshold.checked_mul(parameters.source.interval_ns).unwrap();
            prop_assert!(used_ns < parameters.source.limit_ns, "promotion alone would exceed the burst");
            prop_assert!(parameters.source.limit_ns >= LIMIT_NS_MIN);
            prop_assert!((WINDOW_NS_MIN..=WINDOW_NS_MAX).contains(&parameters.window_ns));
            prop_assert!(parameters.learn_per_second_max > 0);
        }
    }

    #[test]
    fn what_is_untracked_stays_below_the_rate() {
        let settings = KernelSettings::default();
        let parameters = parameters(&settings, 4, [1, 2]);
        let untracked_per_window = 4 * parameters.promote_threshold;
        let allowed_per_window = parameters.window_ns / parameters.source.interval_ns;
        assert!(untracked_per_window <= allowed_per_window);
    }

    #[test]
    fn an_ipv6_visitor_is_its_network() {
        let key = |text: &str| source_key(text.parse().unwrap());
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_eq!(ip_of(key_bytes(key("192.0.2.1"))).to_string(), "192.0.2.1");
    }
}
