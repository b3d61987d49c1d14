//! Questions to the kernel's routing socket: which interfaces there are, which XDP program sits on one, which addresses are local.
//!
//! Only asks, except for [`detach_leftover`]. Everything is about the network namespace of the calling thread.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

const HEADER_BYTES: usize = 16;
/// An answer in pieces never exceeds this per piece; the kernel makes pieces of at most 32 KiB.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The kernel answers at once; this only keeps a fault from hanging the gate.
const ANSWER_SECONDS_MAX: u64 = 5;

const MESSAGE_ERROR: u16 = 2;
const MESSAGE_DONE: u16 = 3;
const FLAG_REQUEST: u16 = 0x1;
const FLAG_ACKNOWLEDGE: u16 = 0x4;
const FLAG_DUMP: u16 = 0x300;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const LINK_MESSAGE_BYTES: usize = 16;
const ADDRESS_MESSAGE_BYTES: usize = 8;

const IFLA_IFNAME: u16 = 3;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_FLAGS: u16 = 3;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_XDP_DRV_PROG_ID: u16 = 5;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const NESTED: u16 = 0x8000;
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;

const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) index: u32,
    pub(super) name: String,
    /// The XDP programs on it, native and generic, by their ids.
    pub(super) programs: Vec<AttachedProgram>,
}

/// An XDP program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttachedProgram {
    pub(super) id: u32,
    pub(super) mode: ProgramMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramMode {
    Native,
    Generic,
    /// In the network card itself, or in a way this code does not know.
    Other,
}

/// Every interface of the namespace.
pub(super) fn interfaces() -> io::Result<Vec<Interface>> {
    let mut found = Vec::new();
    dump(RTM_GETLINK, &[0; LINK_MESSAGE_BYTES], |kind, body| {
        if kind == RTM_NEWLINK
            && let Some(interface) = parse_link(body)
        {
            found.push(interface);
        }
    })?;
    Ok(found)
}

/// Every address of the namespace's interfaces.
pub(super) fn local_addresses() -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    dump(RTM_GETADDR, &[0; ADDRESS_MESSAGE_BYTES], |kind, body| {
        if kind == RTM_NEWADDR
            && let Some(address) = parse_address(body)
        {
            found.push(address);
        }
    })?;
    Ok(found)
}

/// Takes a program off an interface that was attached without a link, so that no process holds it. A program held by a link is
/// refused by the kernel with `EBUSY`.
pub(super) fn detach_leftover(interface: u32, mode: ProgramMode) -> io::Result<()> {
    let flags = match mode {
        ProgramMode::Native => XDP_FLAGS_DRV_MODE,
        ProgramMode::Generic => XDP_FLAGS_SKB_MODE,
        ProgramMode::Other => 0,
    };
    let mut xdp = attribute(IFLA_XDP_FD, &(-1_i32).to_ne_bytes());
    xdp.extend(attribute(IFLA_XDP_FLAGS, &flags.to_ne_bytes()));
    let mut body = link_message(interface);
    body.extend(attribute(IFLA_XDP | NESTED, &xdp));
    exchange(
        RTM_SETLINK,
        FLAG_REQUEST | FLAG_ACKNOWLEDGE,
        &body,
        |_, _| {},
    )
}

fn link_message(interface: u32) -> Vec<u8> {
    let mut message = vec![0; LINK_MESSAGE_BYTES];
    message[4..8].copy_from_slice(&interface.to_ne_bytes());
    message
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = Vec::with_capacity(usize::from(length).next_multiple_of(4));
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn dump(kind: u16, body: &[u8], each: impl FnMut(u16, &[u8])) -> io::Result<()> {
    exchange(kind, FLAG_REQUEST | FLAG_DUMP, body, each)
}

/// Sends one request and hands over every message of the answer.
fn exchange(
    kind: u16,
    flags: u16,
    body: &[u8],
    mut each: impl FnMut(u16, &[u8]),
) -> io::Result<()> {
    let mut socket = Socket::new(
        Domain::from(libc::AF_NETLINK),
        Type::RAW,
        Some(Protocol::from(libc::NETLINK_ROUTE)),
    )?;
    socket.set_read_timeout(Some(Duration::from_secs(ANSWER_SECONDS_MAX)))?;
    let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(u32::MAX);
    let mut request = Vec::with_capacity(HEADER_BYTES + body.len());
    request.extend(length.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend(1_u32.to_ne_bytes());
    request.extend(0_u32.to_ne_bytes());
    request.extend(body);
    socket.write_all(&request)?;
    let mut buffer = vec![0; ANSWER_BYTES_MAX];
    loop {
        let received = socket.read(&mut buffer)?;
        if let Step::Finished = messages(&buffer[..received], &mut each)? {
            return Ok(());
        }
    }
}

enum Step {
    MoreToCome,
    Finished,
}

/// Hands over the messages of one datagram.
fn messages(mut bytes: &[u8], each: &mut impl FnMut(u16, &[u8])) -> io::Result<Step> {
    while let Some((length, kind)) = header(bytes) {
        let Some(body) = bytes.get(HEADER_BYTES..length) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match kind {
            MESSAGE_DONE => return Ok(Step::Finished),
            MESSAGE_ERROR => {
                let code = word(body, 0).map_or(0, |word| word.cast_signed());
                return if code == 0 {
                    Ok(Step::Finished)
                } else {
                    Err(io::Error::from_raw_os_error(-code))
                };
            }
            other => each(other, body),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(Step::MoreToCome)
}

/// Length and kind of the message that begins here.
fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let length = word(bytes, 0)? as usize;
    let kind = half(bytes, 4)?;
    (length >= HEADER_BYTES).then_some((length, kind))
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..)?.first_chunk::<4>()?;
    Some(u32::from_ne_bytes(*bytes))
}

fn half(bytes: &[u8], offset: usize) -> Option<u16> {
    let bytes = bytes.get(offset..)?.first_chunk::<2>()?;
    Some(u16::from_ne_bytes(*bytes))
}

/// The attributes of a message: kind and value.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(half(bytes, 0)?);
        let kind = half(bytes, 2)? & ATTRIBUTE_TYPE_MASK;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

fn parse_link(body: &[u8]) -> Option<Interface> {
    let index = word(body, 4)?;
    let mut interface = Interface {
        index,
        name: String::new(),
        programs: Vec::new(),
    };
    for (kind, value) in attributes(body.get(LINK_MESSAGE_BYTES..)?) {
        match kind {
            IFLA_IFNAME => {
                let name = value.strip_suffix(&[0]).unwrap_or(value);
                interface.name = String::from_utf8_lossy(name).into_owned();
            }
            IFLA_XDP => interface.programs = parse_xdp(value),
            _ => {}
        }
    }
    Some(interface)
}

/// The kernel names the program once where there is one and by mode where there are two.
fn parse_xdp(bytes: &[u8]) -> Vec<AttachedProgram> {
    let mut programs = Vec::new();
    let mut only = None;
    let mut attached = 0;
    for (kind, value) in attributes(bytes) {
        let mode = match kind {
            IFLA_XDP_ATTACHED => {
                attached = value.first().copied().unwrap_or(0);
                continue;
            }
            IFLA_XDP_PROG_ID => {
                only = word(value, 0);
                continue;
            }
            IFLA_XDP_DRV_PROG_ID => ProgramMode::Native,
            IFLA_XDP_SKB_PROG_ID => ProgramMode::Generic,
            _ => continue,
        };
        programs.extend(word(value, 0).map(|id| AttachedProgram { id, mode }));
    }
    if programs.is_empty() {
        let mode = match attached {
            1 => ProgramMode::Native,
            2 => ProgramMode::Generic,
            _ => ProgramMode::Other,
        };
        programs.extend(only.map(|id| AttachedProgram { id, mode }));
    }
    programs
}

/// The interface's own address: of two ends of a point-to-point line, `IFA_LOCAL`.
fn parse_address(body: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for (kind, value) in attributes(body.get(ADDRESS_MESSAGE_BYTES..)?) {
        let address = || match value.len() {
            4 => value.first_chunk::<4>().copied().map(IpAddr::from),
            _ => value.first_chunk::<16>().copied().map(IpAddr::from),
        };
        match kind {
            IFA_LOCAL => return address(),
            IFA_ADDRESS => found = address(),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_loopback_interface_is_found_with_its_address() {
        let interfaces = interfaces().unwrap();
        assert!(interfaces.iter().any(|interface| interface.name == "lo"));
        assert!(
            local_addresses()
                .unwrap()
                .contains(&IpAddr::from([127, 0, 0, 1]))
        );
    }

    #[test]
    fn what_is_not_there_cannot_be_detached() {
        assert!(detach_leftover(u32::MAX / 2, ProgramMode::Generic).is_err());
    }

    #[test]
    fn programs_are_told_by_mode() {
        let mut xdp = attribute(IFLA_XDP_ATTACHED, &[2]);
        xdp.extend(attribute(IFLA_XDP_PROG_ID, &7_u32.to_ne_bytes()));
        xdp.extend(attribute(IFLA_XDP_SKB_PROG_ID, &7_u32.to_ne_bytes()));
        let generic = AttachedProgram {
            id: 7,
            mode: ProgramMode::Generic,
        };
        assert_eq!(parse_xdp(&xdp), [generic]);
        assert_eq!(parse_xdp(&attribute(IFLA_XDP_ATTACHED, &[0])), []);
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes: Vec<u8>) {
            let _parsed = parse_link(&bytes);
            let _address = parse_address(&bytes);
            let _step = messages(&bytes, &mut |_, _| {}).is_ok();
        }
    }
}
