//! Addresses as the kernel and its maps see them: sixteen bytes in network order, IPv4 as IPv4-mapped IPv6.

/// An address. In memory its bytes are those of the IPv6 address, whatever the machine's byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    halves: [u64; 2],
}

/// The first half of every IPv4-mapped address is zero; the second begins with these bytes.
const MAPPED_MARK: [u8; 4] = [0, 0, 0xff, 0xff];

impl Address {
    /// From the sixteen bytes of an IPv6 address.
    #[inline(always)]
    pub const fn from_ipv6(octets: [u8; 16]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = octets;
        Self {
            halves: [
                u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
            ],
        }
    }

    /// From the four bytes of an IPv4 address.
    #[inline(always)]
    pub const fn from_ipv4(octets: [u8; 4]) -> Self {
        let [m0, m1, m2, m3] = MAPPED_MARK;
        let [a, b, c, d] = octets;
        Self {
            halves: [0, u64::from_ne_bytes([m0, m1, m2, m3, a, b, c, d])],
        }
    }

    /// The sixteen bytes of the IPv6 address.
    pub const fn octets(self) -> [u8; 16] {
        let [a, b, c, d, e, f, g, h] = self.halves[0].to_ne_bytes();
        let [i, j, k, l, m, n, o, p] = self.halves[1].to_ne_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }

    /// Whether this is an IPv4 address.
    #[inline(always)]
    pub const fn is_ipv4(self) -> bool {
        const MARK: u64 = {
            let [a, b, c, d] = MAPPED_MARK;
            u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0])
        };
        const MASK: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        self.halves[0] == 0 && self.halves[1] & MASK == MARK
    }
}

/// One client as the kernel counts it: an IPv4 address, or the first 64 bits of an IPv6 one (a subscriber's network, inside
/// which it may take any address it likes).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceKey(Address);

impl SourceKey {
    /// The source an address belongs to.
    #[inline(always)]
    pub const fn of(address: Address) -> Self {
        if address.is_ipv4() {
            Self(address)
        } else {
            Self(Address {
                halves: [address.halves[0], 0],
            })
        }
    }

    /// The source's first address.
    pub const fn address(self) -> Address {
        self.0
    }

    /// The key's two halves, as hashed.
    #[inline(always)]
    pub(crate) const fn halves(self) -> [u64; 2] {
        self.0.halves
    }
}

/// A guarded address and port.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerKey {
    address: Address,
    /// Wide, so that the key has no padding.
    port: u64,
}

impl ListenerKey {
    #[inline(always)]
    pub const fn new(address: Address, port: u16) -> Self {
        Self {
            address,
            port: port as u64,
        }
    }

    /// The key's bytes in the map.
    pub const fn words(self) -> [u64; 3] {
        [self.address.halves[0], self.address.halves[1], self.port]
    }
}

const _: () = {
    assert!(size_of::<Address>() == 16 && align_of::<Address>() == 8);
    assert!(size_of::<SourceKey>() == 16);
    assert!(size_of::<ListenerKey>() == 24);
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    proptest! {
        #[test]
        fn octets_come_back(octets: [u8; 16]) {
            prop_assert_eq!(Address::from_ipv6(octets).octets(), octets);
        }

        #[test]
        fn ipv4_is_mapped_and_whole(octets: [u8; 4]) {
            let address = Address::from_ipv4(octets);
            prop_assert_eq!(address.octets(), Ipv4Addr::from(octets).to_ipv6_mapped().octets());
            prop_assert!(address.is_ipv4());
            prop_assert_eq!(SourceKey::of(address).address(), address);
            prop_assert_eq!(SourceKey::of(Address::from_ipv6(address.octets())), SourceKey::of(address));
        }

        #[test]
        fn ipv6_keeps_its_network(octets: [u8; 16], other: [u8; 8]) {
            prop_assume!(Ipv6Addr::from(octets).to_ipv4_mapped().is_none());
            let mut sibling = octets;
            sibling[8..].copy_from_slice(&other);
            prop_assume!(Ipv6Addr::from(sibling).to_ipv4_mapped().is_none());
            let key = SourceKey::of(Address::from_ipv6(octets));
            prop_assert_eq!(key, SourceKey::of(Address::from_ipv6(sibling)));
            prop_assert_eq!(&key.address().octets()[..8], &octets[..8]);
            prop_assert_eq!(&key.address().octets()[8..], &[0; 8][..]);
        }
    }
}
