//! Sets of client addresses. IPv4 and IPv6 never match each other; a mapped address counts as the IPv4 address it carries.

use std::net::IpAddr;
use std::str::FromStr;

use crate::kernel::settings::Prefix;

/// An address that can be ordered: the family, then the bits.
type Place = (u8, u128);

/// An address, a prefix, or the addresses from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    first: Place,
    last: Place,
}

/// Addresses, to be looked up in the time of a binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSet {
    /// Ordered and apart.
    ranges: Vec<AddressRange>,
}

fn place(address: IpAddr) -> Place {
    match address.to_canonical() {
        IpAddr::V4(v4) => (4, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (6, v6.to_bits()),
    }
}

impl From<IpAddr> for AddressRange {
    fn from(address: IpAddr) -> Self {
        let place = place(address);
        Self {
            first: place,
            last: place,
        }
    }
}

impl From<Prefix> for AddressRange {
    fn from(prefix: Prefix) -> Self {
        let (family, bits) = place(prefix.address());
        let width = if family == 4 { 32 } else { 128 };
        let free = width - u32::from(prefix.length());
        let ones = if free == 0 {
            0
        } else {
            u128::MAX >> (128 - free)
        };
        Self {
            first: (family, bits),
            last: (family, bits | ones),
        }
    }
}

impl FromStr for AddressRange {
    type Err = String;

    /// Reads `192.0.2.1`, `192.0.2.0/24` or `192.0.2.1..192.0.2.9`, and the same in IPv6.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((first, last)) = text.split_once("..") {
            let (Ok(first), Ok(last)) = (first.parse(), last.parse()) else {
                return Err(wanted(text));
            };
            let (first, last) = (place(first), place(last));
            if first.0 != last.0 || first > last {
                return Err(format!(
                    "{text:?} does not run from a lower address to a higher"
                ));
            }
            return Ok(Self { first, last });
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(address.into());
        }
        if !text.contains('/') {
            return Err(wanted(text));
        }
        match text.parse::<Prefix>() {
            Ok(prefix) => Ok(prefix.into()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn wanted(text: &str) -> String {
    format!(
        "{text:?} is no address, prefix or range, such as 192.0.2.1, 192.0.2.0/24 or 192.0.2.1..192.0.2.9"
    )
}

impl FromIterator<AddressRange> for AddressSet {
    fn from_iter<I: IntoIterator<Item = AddressRange>>(ranges: I) -> Self {
        let mut sorted: Vec<AddressRange> = ranges.into_iter().collect();
        sorted.sort_unstable();
        let mut ranges: Vec<AddressRange> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match ranges.last_mut() {
                Some(last) if range.first <= last.last => last.last = last.last.max(range.last),
                Some(_) | None => ranges.push(range),
            }
        }
        Self { ranges }
    }
}

impl AddressSet {
    pub fn contains(&self, address: IpAddr) -> bool {
        let place = place(address);
        let after = self.ranges.partition_point(|range| range.first <= place);
        after
            .checked_sub(1)
            .and_then(|index| self.ranges.get(index))
            .is_some_and(|range| place <= range.last)
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// All ranges, for putting sets together.
    pub fn ranges(&self) -> &[AddressRange] {
        &self.ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> AddressSet {
        texts
            .iter()
            .map(|text| text.parse::<AddressRange>().unwrap())
            .collect()
    }

    #[test]
    fn contains_what_was_put_in_and_nothing_beside() {
        let set = set(&[
            "192.0.2.0/24",
            "192.0.2.7",
            "198.51.100.5..198.51.100.7",
            "2001:db8::/32",
            "10.0.0.0/8",
        ]);
        for (address, is_in) in [
            ("192.0.2.0", true),
            ("192.0.2.255", true),
            ("192.0.3.0", false),
            ("192.0.1.255", false),
            ("198.51.100.4", false),
            ("198.51.100.5", true),
            ("198.51.100.7", true),
            ("198.51.100.8", false),
            ("10.255.255.255", true),
            ("::ffff:10.1.2.3", true),
            ("2001:db8:ffff::", true),
            ("2001:db9::", false),
            ("::c000:200", false),
        ] {
            assert_eq!(set.contains(address.parse().unwrap()), is_in, "{address}");
        }
    }

    #[test]
    fn families_are_apart() {
        let all_six = set(&["::/0"]);
        assert!(all_six.contains("2001:db8::1".parse().unwrap()));
        assert!(!all_six.contains("192.0.2.1".parse().unwrap()));
        let all_four = set(&["0.0.0.0/0"]);
        assert!(all_four.contains("255.255.255.255".parse().unwrap()));
        assert!(!all_four.contains("::1".parse().unwrap()));
        assert!(!AddressSet::default().contains("::1".parse().unwrap()));
    }

    #[test]
    fn refuses_what_is_no_range() {
        for text in [
            "",
            "shop.example.com",
            "192.0.2.1/24",
            "192.0.2.0/33",
            "192.0.2.9..192.0.2.1",
            "192.0.2.1..::1",
            "1..2",
            "192.0.2",
        ] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }
}
