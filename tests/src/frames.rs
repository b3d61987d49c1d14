//! Ethernet frames, byte by byte, for programs that read them.

use std::net::{IpAddr, SocketAddr};

/// Ethernet types.
pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86dd;
pub const ARP: u16 = 0x0806;
pub const VLAN: u16 = 0x8100;
pub const VLAN_SERVICE: u16 = 0x88a8;

/// TCP flags.
pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;
pub const ECE: u8 = 0x40;
pub const CWR: u8 = 0x80;

/// Protocols and IPv6 extension headers.
pub const HOP_BY_HOP: u8 = 0;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ROUTING: u8 = 43;
pub const FRAGMENT: u8 = 44;
pub const DESTINATION: u8 = 60;

/// A frame in the making. What is not changed is a SYN of a plain TCP connection.
#[derive(Clone, Debug)]
pub struct Frame {
    from: SocketAddr,
    to: SocketAddr,
    flags: u8,
    protocol: u8,
    ethertype: Option<u16>,
    vlan_tags: Vec<u16>,
    ipv4_options: usize,
    ipv4_fragment: u16,
    first_byte: Option<u8>,
    extensions: Vec<(u8, Vec<u8>)>,
    padding: usize,
}

impl Frame {
    /// A SYN from one address and port to another of the same family.
    ///
    /// # Panics
    /// Where an address is none or the families differ.
    #[track_caller]
    pub fn syn(from: &str, to: &str) -> Self {
        let frame = Self {
            from: from.parse().expect("an address and a port"),
            to: to.parse().expect("an address and a port"),
            flags: SYN,
            protocol: TCP,
            ethertype: None,
            vlan_tags: Vec::new(),
            ipv4_options: 0,
            ipv4_fragment: 0,
            first_byte: None,
            extensions: Vec::new(),
            padding: 0,
        };
        assert_eq!(frame.from.is_ipv4(), frame.to.is_ipv4());
        frame
    }

    #[must_use]
    pub fn flags(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    #[must_use]
    pub fn protocol(mut self, protocol: u8) -> Self {
        self.protocol = protocol;
        self
    }

    /// Claims to carry something else.
    #[must_use]
    pub fn ethertype(mut self, ethertype: u16) -> Self {
        self.ethertype = Some(ethertype);
        self
    }

    /// One more VLAN tag, inside those before it.
    #[must_use]
    pub fn vlan(mut self, ethertype: u16) -> Self {
        self.vlan_tags.push(ethertype);
        self
    }

    /// Words of IPv4 options, 0 to 10.
    #[must_use]
    pub fn ipv4_options(mut self, words: usize) -> Self {
        self.ipv4_options = words;
        self
    }

    /// Flags and offset of the IPv4 fragment.
    #[must_use]
    pub fn ipv4_fragment(mut self, word: u16) -> Self {
        self.ipv4_fragment = word;
        self
    }

    /// The first byte of the IP header, whatever it should be.
    #[must_use]
    pub fn first_byte(mut self, byte: u8) -> Self {
        self.first_byte = Some(byte);
        self
    }

    /// An IPv6 extension header of `units` times eight bytes.
    #[must_use]
    pub fn extension(mut self, kind: u8, units: u8) -> Self {
        let mut body = vec![0; usize::from(units) * 8];
        body[1] = units - 1;
        self.extensions.push((kind, body));
        self
    }

    /// An IPv6 fragment header with this offset-and-flags word.
    #[must_use]
    pub fn ipv6_fragment(mut self, word: u16) -> Self {
        let mut body = vec![0; 8];
        body[2..4].copy_from_slice(&word.to_be_bytes());
        self.extensions.push((FRAGMENT, body));
        self
    }

    /// Bytes behind the TCP header.
    #[must_use]
    pub fn padding(mut self, bytes: usize) -> Self {
        self.padding = bytes;
        self
    }

    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for tag in &self.vlan_tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 5]);
        }
        let natural = if self.from.is_ipv4() { IPV4 } else { IPV6 };
        frame.extend(self.ethertype.unwrap_or(natural).to_be_bytes());
        let tcp = self.tcp();
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                self.ipv4(&mut frame, from.octets(), to.octets(), tcp.len());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                self.ipv6(&mut frame, from.octets(), to.octets(), tcp.len());
            }
            _ => unreachable!("checked where the frame was begun"),
        }
        frame.extend(tcp);
        frame
    }

    fn tcp(&self) -> Vec<u8> {
        let mut tcp = vec![0; 20 + self.padding];
        tcp[0..2].copy_from_slice(&self.from.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&self.to.port().to_be_bytes());
        tcp[12] = 5 << 4;
        tcp[13] = self.flags;
        tcp
    }

    fn ipv4(&self, frame: &mut Vec<u8>, from: [u8; 4], to: [u8; 4], payload: usize) {
        let header_bytes = 20 + self.ipv4_options * 4;
        let words = u8::try_from(header_bytes / 4).expect("at most 15");
        let mut header = vec![0; header_bytes];
        header[0] = self.first_byte.unwrap_or(4 << 4 | words);
        let total = u16::try_from(header_bytes + payload).unwrap_or(u16::MAX);
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[6..8].copy_from_slice(&self.ipv4_fragment.to_be_bytes());
        header[8] = 64;
        header[9] = self.protocol;
        header[12..16].copy_from_slice(&from);
        header[16..20].copy_from_slice(&to);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(header);
    }

    fn ipv6(&self, frame: &mut Vec<u8>, from: [u8; 16], to: [u8; 16], payload: usize) {
        let extensions: usize = self.extensions.iter().map(|(_, body)| body.len()).sum();
        let total = u16::try_from(extensions + payload).unwrap_or(u16::MAX);
        let kinds = self.extensions.iter().map(|(kind, _)| *kind);
        let mut protocols = kinds.chain([self.protocol]);
        frame.extend([self.first_byte.unwrap_or(6 << 4), 0, 0, 0]);
        frame.extend(total.to_be_bytes());
        frame.push(protocols.next().expect("at least one"));
        frame.push(64);
        frame.extend(from);
        frame.extend(to);
        for ((_, body), next) in self.extensions.iter().zip(protocols) {
            frame.push(next);
            frame.extend(&body[1..]);
        }
    }
}

fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).expect("folded twice")
}
