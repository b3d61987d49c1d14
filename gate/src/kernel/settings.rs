//! What the operator decides about the kernel part: plain data, valid by construction. Reads no file and touches no kernel.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::str::FromStr;

/// Longest interface name Linux accepts, without the terminating zero.
pub const INTERFACE_NAME_BYTES_MAX: usize = 15;
/// Interfaces one gate attaches to. More is a configuration error.
pub const INTERFACES_MAX: usize = 64;
/// Highest rate per source. Above it one connection's share of time would round to nothing worth keeping.
pub const RATE_PER_MINUTE_MAX: u32 = 60_000_000;
/// Highest burst per source.
pub const BURST_MAX: u32 = 1_000_000;
/// Smallest burst of new connections per source: a browser opens six connections at once, and the sketch in front of the
/// exact table must be able to let a few pass before it promotes a source.
pub const SOURCE_BURST_MIN: u32 = 8;
/// Prefixes in `deny` and `trusted_proxies` together. More is a configuration error; nothing is silently left out.
pub const PREFIXES_MAX: usize = 4096;
/// Bounds of a map's size in entries.
pub const MAP_ENTRIES_MIN: u32 = 64;
/// See [`MAP_ENTRIES_MIN`]. An entry costs the kernel about 100 bytes.
pub const MAP_ENTRIES_MAX: u32 = 16_777_216;

/// What the kernel part and the user-space source rate do with a source over its rate (`mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KernelMode {
    /// Nothing is loaded, counted, dropped or refused.
    Off,
    /// Everything is counted, nothing is dropped or refused.
    #[default]
    Monitor,
    /// Over the rate: the kernel drops the SYN, user space answers 429.
    Enforce,
}

impl KernelMode {
    /// The word used in the configuration and in status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Monitor => "monitor",
            Self::Enforce => "enforce",
        }
    }
}

impl fmt::Display for KernelMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for KernelMode {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        match text {
            "off" => Ok(Self::Off),
            "monitor" => Ok(Self::Monitor),
            "enforce" => Ok(Self::Enforce),
            _ => Err(SettingsError::Mode),
        }
    }
}

/// Whether the slower generic XDP may be used where the driver refuses native XDP (`generic`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GenericAttach {
    #[default]
    Allowed,
    Refused,
}

/// Why a value is no setting of the kernel part. `Display` names what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsError {
    Mode,
    InterfaceName,
    InterfacesTooMany,
    RateOutOfRange,
    BurstOutOfRange,
    SourceBurstTooSmall,
    AdmittedRateBelowSourceRate,
    PrefixSyntax,
    PrefixLength,
    /// Bits are set beyond the prefix length, so the writer meant another prefix or a single address.
    PrefixHostBits,
    PrefixesTooMany,
    MapEntriesOutOfRange,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode => f.write_str("must be \"off\", \"monitor\" or \"enforce\""),
            Self::InterfaceName => write!(
                f,
                "must be an interface name: 1 to {INTERFACE_NAME_BYTES_MAX} bytes without blanks, '/' or ':'"
            ),
            Self::InterfacesTooMany => write!(f, "must name at most {INTERFACES_MAX} interfaces"),
            Self::RateOutOfRange => {
                write!(f, "must be in range [1, {RATE_PER_MINUTE_MAX}] per minute")
            }
            Self::BurstOutOfRange => write!(f, "must be in range [1, {BURST_MAX}]"),
            Self::SourceBurstTooSmall => write!(f, "must be at least {SOURCE_BURST_MIN}"),
            Self::AdmittedRateBelowSourceRate => f.write_str(
                "must be at least the rate and burst of a source without a session: a session never makes things worse",
            ),
            Self::PrefixSyntax => {
                f.write_str("must be an address or a prefix such as 192.0.2.0/24 or 2001:db8::/32")
            }
            Self::PrefixLength => {
                f.write_str("must have a prefix length of at most 32 (IPv4) or 128 (IPv6)")
            }
            Self::PrefixHostBits => f.write_str("must have no bits set beyond its prefix length"),
            Self::PrefixesTooMany => write!(
                f,
                "must hold at most {PREFIXES_MAX} prefixes, deny and trusted_proxies together"
            ),
            Self::MapEntriesOutOfRange => write!(
                f,
                "must be in range [{MAP_ENTRIES_MIN}, {MAP_ENTRIES_MAX}] entries"
            ),
        }
    }
}

impl std::error::Error for SettingsError {}

/// The name of a network interface. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for InterfaceName {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let length_ok = (1..=INTERFACE_NAME_BYTES_MAX).contains(&text.len());
        let bytes_ok = text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b':');
        if length_ok && bytes_ok && text != "." && text != ".." {
            Ok(Self(text.to_owned()))
        } else {
            Err(SettingsError::InterfaceName)
        }
    }
}

/// A set of addresses: an address and how many of its leading bits count. Bits beyond them are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// At most 32 bits for IPv4 and 128 for IPv6, and no bit set beyond them.
    pub fn new(address: IpAddr, length: u8) -> Result<Self, SettingsError> {
        let prefix = Self { address, length };
        let (bits, width) = match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
            IpAddr::V6(v6) => (v6.to_bits(), 128),
        };
        if length > width {
            return Err(SettingsError::PrefixLength);
        }
        if bits & !mask(length) != 0 {
            return Err(SettingsError::PrefixHostBits);
        }
        Ok(prefix)
    }

    /// The first address of the set.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// How many leading bits count, in the address's own family.
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// Whether the address is in the set. An IPv4-mapped IPv6 address counts as the IPv4 address it carries.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let difference = u128::from(own.to_bits() ^ other.to_bits()) << 96;
                difference & mask(self.length) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()) & mask(self.length) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// The same set as IPv6 bytes and a length of 0 to 128; IPv4 as IPv4-mapped.
    pub fn as_mapped(&self) -> ([u8; 16], u8) {
        match self.address {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped().octets(), self.length + 96),
            IpAddr::V6(v6) => (v6.octets(), self.length),
        }
    }
}

/// The leading `length` of 128 bits.
const fn mask(length: u8) -> u128 {
    match length {
        0 => 0,
        1..=127 => u128::MAX << (128 - length),
        128.. => u128::MAX,
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address = match address.parse::<IpAddr>() {
            Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
                return Err(SettingsError::PrefixSyntax);
            }
            Ok(address) => address,
            Err(_) => return Err(SettingsError::PrefixSyntax),
        };
        let whole = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        let length = match length {
            None => whole,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
                .parse::<u8>()
                .map_err(|_| SettingsError::PrefixLength)?,
            Some(_) => return Err(SettingsError::PrefixSyntax),
        };
        Self::new(address, length)
    }
}

/// A rate with a burst: `burst` at once, then `per_minute` spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRateLimit {
    per_minute: NonZeroU32,
    burst: NonZeroU32,
}

impl SourceRateLimit {
    /// `per_minute` in `1..=`[`RATE_PER_MINUTE_MAX`], `burst` in `1..=`[`BURST_MAX`].
    pub fn new(per_minute: u32, burst: u32) -> Result<Self, SettingsError> {
        let per_minute = NonZeroU32::new(per_minute)
            .filter(|rate| rate.get() <= RATE_PER_MINUTE_MAX)
            .ok_or(SettingsError::RateOutOfRange)?;
        let burst = NonZeroU32::new(burst)
            .filter(|burst| burst.get() <= BURST_MAX)
            .ok_or(SettingsError::BurstOutOfRange)?;
        Ok(Self { per_minute, burst })
    }

    /// Events per minute once the burst is used.
    pub const fn per_minute(self) -> u32 {
        self.per_minute.get()
    }

    /// Events at once after a quiet time.
    pub const fn burst(self) -> u32 {
        self.burst.get()
    }

    /// Nanoseconds one event uses up.
    pub const fn interval_ns(self) -> u64 {
        60_000_000_000 / self.per_minute.get() as u64
    }
}

/// Sizes of the kernel's maps, in entries. Each in `MAP_ENTRIES_MIN..=MAP_ENTRIES_MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapSizes {
    admitted_entries_max: u32,
    source_entries_max: u32,
}

impl MapSizes {
    /// Checks the ranges given at the type.
    pub fn new(admitted_entries_max: u32, source_entries_max: u32) -> Result<Self, SettingsError> {
        let range = MAP_ENTRIES_MIN..=MAP_ENTRIES_MAX;
        if range.contains(&admitted_entries_max) && range.contains(&source_entries_max) {
            Ok(Self {
                admitted_entries_max,
                source_entries_max,
            })
        } else {
            Err(SettingsError::MapEntriesOutOfRange)
        }
    }

    /// Sources with a session the kernel knows. When full, further admitted sources are treated as strangers in the
    /// kernel until entries expire; nobody already entered loses its place.
    pub const fn admitted_entries_max(self) -> u32 {
        self.admitted_entries_max
    }

    /// Sources without a session that are tracked exactly, in the kernel and, apart from it, in user space. When full,
    /// the least recently seen is forgotten and counts as new.
    pub const fn source_entries_max(self) -> u32 {
        self.source_entries_max
    }
}

impl Default for MapSizes {
    fn default() -> Self {
        Self {
            admitted_entries_max: 262_144,
            source_entries_max: 65_536,
        }
    }
}

/// The kernel part of one gate. Fields are valid one by one; [`KernelSettings::check`] looks at them together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSettings {
    pub mode: KernelMode,
    /// Where the program is attached; empty leaves only the user-space source rate.
    pub interfaces: Vec<InterfaceName>,
    pub generic: GenericAttach,
    /// New users per source without a session: SYNs in the kernel and, charged apart, cookie-less requests in user space.
    /// An abuse limit, an order of magnitude above what an honest visitor needs: a dropped SYN costs it a second.
    pub source_rate: SourceRateLimit,
    /// New connections of a source with a session. Generous: many visitors share one address.
    pub admitted_rate: SourceRateLimit,
    /// Sources refused altogether. The longest matching prefix of `deny` and `trusted_proxies` decides.
    pub deny: Vec<Prefix>,
    /// Sources never limited in the kernel: other visitors speak through them.
    pub trusted_proxies: Vec<Prefix>,
    pub map_sizes: MapSizes,
}

impl Default for KernelSettings {
    fn default() -> Self {
        const fn rate(per_minute: u32, burst: u32) -> SourceRateLimit {
            match (NonZeroU32::new(per_minute), NonZeroU32::new(burst)) {
                (Some(per_minute), Some(burst)) => SourceRateLimit { per_minute, burst },
                _ => panic!("a default rate is positive"),
            }
        }
        Self {
            mode: KernelMode::default(),
            interfaces: Vec::new(),
            generic: GenericAttach::default(),
            source_rate: const { rate(600, 120) },
            admitted_rate: const { rate(12_000, 2_400) },
            deny: Vec::new(),
            trusted_proxies: Vec::new(),
            map_sizes: MapSizes::default(),
        }
    }
}

impl KernelSettings {
    /// What the fields must satisfy together; the first fault is returned.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.interfaces.len() > INTERFACES_MAX {
            return Err(SettingsError::InterfacesTooMany);
        }
        if self.source_rate.burst() < SOURCE_BURST_MIN {
            return Err(SettingsError::SourceBurstTooSmall);
        }
        if self.admitted_rate.per_minute() < self.source_rate.per_minute()
            || self.admitted_rate.burst() < self.source_rate.burst()
        {
            return Err(SettingsError::AdmittedRateBelowSourceRate);
        }
        if self.deny.len() + self.trusted_proxies.len() > PREFIXES_MAX {
            return Err(SettingsError::PrefixesTooMany);
        }
        Ok(())
    }

    /// What an address is to the operator: the longest matching prefix decides, a trusted proxy over a denied one.
    pub fn standing(&self, address: IpAddr) -> Standing {
        let longest = |prefixes: &[Prefix]| {
            prefixes
                .iter()
                .filter(|prefix| prefix.contains(address))
                .map(Prefix::length)
                .max()
        };
        match (longest(&self.deny), longest(&self.trusted_proxies)) {
            (None, None) => Standing::Unlisted,
            (Some(denied), Some(trusted)) if denied > trusted => Standing::Denied,
            (Some(_), None) => Standing::Denied,
            (_, Some(_)) => Standing::TrustedProxy,
        }
    }
}

/// What an address is to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Unlisted,
    Denied,
    TrustedProxy,
}

/// The address as the kernel part counts it: IPv4 whole, IPv6 without its lower 64 bits.
pub fn source_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits())),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask(64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_parse_or_say_why_not() {
        assert_eq!(prefix("192.0.2.0/24").to_string(), "192.0.2.0/24");
        assert_eq!(prefix("192.0.2.7").length(), 32);
        assert_eq!(prefix("2001:db8::/32").as_mapped().1, 32);
        assert_eq!(prefix("10.0.0.0/8").as_mapped().1, 104);
        assert_eq!(prefix("0.0.0.0/0").as_mapped().1, 96);
        for (text, fault) in [
            ("192.0.2.1/24", SettingsError::PrefixHostBits),
            ("192.0.2.0/33", SettingsError::PrefixLength),
            ("2001:db8::/129", SettingsError::PrefixLength),
            ("192.0.2.0/300", SettingsError::PrefixLength),
            ("192.0.2.0/+8", SettingsError::PrefixSyntax),
            ("192.0.2.0/", SettingsError::PrefixLength),
            ("example.com", SettingsError::PrefixSyntax),
            ("::ffff:192.0.2.0/120", SettingsError::PrefixSyntax),
            ("", SettingsError::PrefixSyntax),
        ] {
            assert_eq!(text.parse::<Prefix>(), Err(fault), "{text}");
        }
    }

    #[test]
    fn the_longest_prefix_decides() {
        let settings = KernelSettings {
            deny: vec![
                prefix("10.0.0.0/8"),
                prefix("10.1.1.0/24"),
                prefix("2001:db8::/32"),
            ],
            trusted_proxies: vec![prefix("10.1.0.0/16"), prefix("10.0.0.0/8")],
            ..KernelSettings::default()
        };
        let standing = |text: &str| settings.standing(text.parse().unwrap());
        assert_eq!(standing("10.9.9.9"), Standing::TrustedProxy);
        assert_eq!(standing("10.1.2.3"), Standing::TrustedProxy);
        assert_eq!(standing("10.1.1.3"), Standing::Denied);
        assert_eq!(standing("::ffff:10.1.1.3"), Standing::Denied);
        assert_eq!(standing("2001:db8:1::1"), Standing::Denied);
        assert_eq!(standing("192.0.2.1"), Standing::Unlisted);
    }

    #[test]
    fn interface_names_are_what_linux_accepts() {
        assert!("eth0.100".parse::<InterfaceName>().is_ok());
        assert!("fifteen-bytes-x".parse::<InterfaceName>().is_ok());
        for bad in ["", "sixteen-bytes-xy", "a/b", "a b", "a:b", ".", "..", "é"] {
            assert!(bad.parse::<InterfaceName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn settings_are_checked_together() {
        let good = KernelSettings::default();
        assert_eq!(good.check(), Ok(()));
        let mut small = good.clone();
        small.source_rate = SourceRateLimit::new(60, 7).unwrap();
        assert_eq!(small.check(), Err(SettingsError::SourceBurstTooSmall));
        let mut reversed = good.clone();
        reversed.admitted_rate = SourceRateLimit::new(599, 2_400).unwrap();
        assert_eq!(
            reversed.check(),
            Err(SettingsError::AdmittedRateBelowSourceRate)
        );
        let mut crowded = good;
        crowded.deny = vec![prefix("192.0.2.0/24"); PREFIXES_MAX + 1];
        assert_eq!(crowded.check(), Err(SettingsError::PrefixesTooMany));
    }

    #[test]
    fn a_source_is_a_host_or_a_sixty_four() {
        let network = |text: &str| source_network(text.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.1"), "192.0.2.1");
        assert_eq!(network("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
