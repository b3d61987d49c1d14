//! From a frame's bytes to the TCP segment it carries: Ethernet, up to two VLAN tags, IPv4 with options or IPv6 with up to four
//! extension headers. Reads headers only, never a checksum and never a length field: offloads make both unreliable here.

use crate::reason::Reason;
use crate::source::{Address, ListenerKey};

/// VLAN tags walked over.
pub const VLAN_TAGS_MAX: usize = 2;
/// IPv6 extension headers walked over.
pub const EXTENSION_HEADERS_MAX: usize = 4;

const ETHERNET_BYTES: usize = 14;
const VLAN_TAG_BYTES: usize = 4;
const IPV4_BYTES_MIN: usize = 20;
const IPV6_BYTES: usize = 40;
/// Up to and including the flags; what follows does not matter here.
const TCP_BYTES_READ: usize = 14;
/// Longest IPv6 extension header.
const EXTENSION_BYTES_MAX: usize = 256 * 8;

/// No byte beyond this offset is ever read.
pub const OFFSET_MAX: usize = ETHERNET_BYTES
    + VLAN_TAGS_MAX * VLAN_TAG_BYTES
    + IPV6_BYTES
    + EXTENSION_HEADERS_MAX * EXTENSION_BYTES_MAX
    + TCP_BYTES_READ;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_VLAN_SERVICE: u16 = 0x88a8;

const PROTOCOL_HOP_BY_HOP: u8 = 0;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_ROUTING: u8 = 43;
const PROTOCOL_FRAGMENT: u8 = 44;
const PROTOCOL_DESTINATION: u8 = 60;

const TCP_FIN: u8 = 0x01;
const TCP_SYN: u8 = 0x02;
const TCP_RST: u8 = 0x04;
const TCP_ACK: u8 = 0x10;

/// A frame whose bytes may be missing from some offset on.
pub trait Packet {
    /// `N` bytes from `offset`, or nothing where the frame ends before them.
    fn read<const N: usize>(&self, offset: usize) -> Option<[u8; N]>;
}

impl Packet for &[u8] {
    fn read<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.get(offset..)?.first_chunk::<N>().copied()
    }
}

/// What the walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub source: Address,
    pub destination: ListenerKey,
    flags: u8,
}

impl Segment {
    /// Whether a listening socket would take the segment for a new connection: SYN without ACK, RST or FIN. Other flags
    /// (ECN, PSH) change nothing.
    #[inline(always)]
    pub const fn opens_connection(&self) -> bool {
        self.flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN) == TCP_SYN
    }
}

/// Where the transport header begins, and whose addresses are in front of it.
struct Network {
    source: Address,
    destination: Address,
    transport: usize,
}

/// Walks the headers of a frame. An `Err` is why it carries no segment that could be judged.
#[inline(always)]
pub fn walk<P: Packet>(packet: &P) -> Result<Segment, Reason> {
    let (ethertype, offset) = ethernet(packet)?;
    let network = match ethertype {
        ETHERTYPE_IPV4 => ipv4(packet, offset)?,
        ETHERTYPE_IPV6 => ipv6(packet, offset)?,
        ETHERTYPE_VLAN | ETHERTYPE_VLAN_SERVICE => return Err(Reason::VlanTooDeep),
        _ => return Err(Reason::NotIp),
    };
    let tcp: [u8; TCP_BYTES_READ] = packet.read(network.transport).ok_or(Reason::Truncated)?;
    Ok(Segment {
        source: network.source,
        destination: ListenerKey::new(network.destination, u16::from_be_bytes([tcp[2], tcp[3]])),
        flags: tcp[13],
    })
}

/// The type of what the frame carries, and where it begins.
#[inline(always)]
fn ethernet<P: Packet>(packet: &P) -> Result<(u16, usize), Reason> {
    let mut offset = ETHERNET_BYTES;
    let mut ethertype = ethertype_before(packet, offset)?;
    for _ in 0..VLAN_TAGS_MAX {
        if ethertype != ETHERTYPE_VLAN && ethertype != ETHERTYPE_VLAN_SERVICE {
            break;
        }
        offset += VLAN_TAG_BYTES;
        ethertype = ethertype_before(packet, offset)?;
    }
    Ok((ethertype, offset))
}

/// An Ethernet header and a VLAN tag both end with the type of what follows.
#[inline(always)]
fn ethertype_before<P: Packet>(packet: &P, end: usize) -> Result<u16, Reason> {
    let bytes = packet.read::<2>(end - 2).ok_or(Reason::Truncated)?;
    Ok(u16::from_be_bytes(bytes))
}

#[inline(always)]
fn ipv4<P: Packet>(packet: &P, offset: usize) -> Result<Network, Reason> {
    let header: [u8; IPV4_BYTES_MIN] = packet.read(offset).ok_or(Reason::Truncated)?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || header_bytes < IPV4_BYTES_MIN {
        return Err(Reason::BadHeader);
    }
    if header[9] != PROTOCOL_TCP {
        return Err(Reason::NotTcp);
    }
    if u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0 {
        return Err(Reason::LaterFragment);
    }
    Ok(Network {
        source: Address::from_ipv4([header[12], header[13], header[14], header[15]]),
        destination: Address::from_ipv4([header[16], header[17], header[18], header[19]]),
        transport: offset + header_bytes,
    })
}

#[inline(always)]
fn ipv6<P: Packet>(packet: &P, offset: usize) -> Result<Network, Reason> {
    let first: [u8; 8] = packet.read(offset).ok_or(Reason::Truncated)?;
    let source: [u8; 16] = packet.read(offset + 8).ok_or(Reason::Truncated)?;
    let destination: [u8; 16] = packet.read(offset + 24).ok_or(Reason::Truncated)?;
    if first[0] >> 4 != 6 {
        return Err(Reason::BadHeader);
    }
    let transport = extensions(packet, first[6], offset + IPV6_BYTES)?;
    Ok(Network {
        source: Address::from_ipv6(source),
        destination: Address::from_ipv6(destination),
        transport,
    })
}

/// Where TCP begins behind the extension headers.
#[inline(always)]
fn extensions<P: Packet>(packet: &P, first: u8, start: usize) -> Result<usize, Reason> {
    let (mut protocol, mut offset) = (first, start);
    for _ in 0..EXTENSION_HEADERS_MAX {
        match protocol {
            PROTOCOL_HOP_BY_HOP | PROTOCOL_ROUTING | PROTOCOL_DESTINATION => {
                let header: [u8; 2] = packet.read(offset).ok_or(Reason::Truncated)?;
                protocol = header[0];
                offset += (usize::from(header[1]) + 1) * 8;
            }
            PROTOCOL_FRAGMENT => {
                let header: [u8; 4] = packet.read(offset).ok_or(Reason::Truncated)?;
                if u16::from_be_bytes([header[2], header[3]]) & 0xfff8 != 0 {
                    return Err(Reason::LaterFragment);
                }
                protocol = header[0];
                offset += 8;
            }
            _ => break,
        }
    }
    match protocol {
        PROTOCOL_TCP => Ok(offset),
        PROTOCOL_HOP_BY_HOP | PROTOCOL_ROUTING | PROTOCOL_DESTINATION | PROTOCOL_FRAGMENT => {
            Err(Reason::ExtensionsTooMany)
        }
        _ => Err(Reason::NotTcp),
    }
}
