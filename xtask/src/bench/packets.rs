//! The two clients of the flood suite, each run as a process of its own inside the clients' namespace: one sends SYNs from
//! made-up sources, the other is a visitor.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::http::Client;

/// SYNs sent at once: fewer than a virtual cable's queue of 256 holds.
const BURST: u64 = 192;
/// After each burst, for the receiver to do its work.
const PAUSE: Duration = Duration::from_micros(500);
/// Made-up sources are here: routable nowhere.
const SOURCES_FROM: u32 = Ipv4Addr::new(198, 18, 0, 0).to_bits();
const IPPROTO_RAW: i32 = 255;
const PACKET_BYTES: usize = 40;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Sends SYNs.
#[derive(Clone, Debug, Args)]
pub(crate) struct FloodArgs {
    #[arg(long)]
    target: SocketAddrV4,
    /// How many addresses the SYNs come from, in turn
    #[arg(long)]
    sources: u32,
    #[arg(long)]
    packets: u64,
}

/// # Errors
///
/// Where the process may not send raw packets.
pub(crate) fn flood(args: &FloodArgs) -> Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IPPROTO_RAW)))
        .context("raw socket")?;
    let target = SockAddr::from(args.target);
    let mut sent = 0;
    while sent < args.packets {
        for _ in 0..BURST {
            let source = SOURCES_FROM + u32::try_from(sent % u64::from(args.sources))?;
            let port = 1024 + u16::try_from(sent / u64::from(args.sources) % 60_000)?;
            // A full queue shows in the interface's counter, not here.
            socket.send_to(&syn(source, port, args.target), &target)?;
            sent += 1;
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// An IPv4 packet without options with a SYN of no options. The kernel fills in the header's checksum.
fn syn(source: u32, port: u16, target: SocketAddrV4) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    let (header, segment) = packet.split_at_mut(20);
    header[0] = 0x45;
    header[3] = PACKET_BYTES as u8;
    header[8] = 64;
    header[9] = 6;
    header[12..16].copy_from_slice(&source.to_be_bytes());
    header[16..20].copy_from_slice(&target.ip().octets());
    segment[0..2].copy_from_slice(&port.to_be_bytes());
    segment[2..4].copy_from_slice(&target.port().to_be_bytes());
    segment[4..8].copy_from_slice(&source.wrapping_mul(2_654_435_761).to_be_bytes());
    segment[12] = 5 << 4;
    segment[13] = 2;
    segment[14..16].copy_from_slice(&64_000_u16.to_be_bytes());
    let sum = segment_checksum(&header[12..20], segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The Internet checksum over both addresses, protocol, length and segment.
fn segment_checksum(addresses: &[u8], segment: &[u8]) -> u16 {
    let words = addresses.chunks_exact(2).chain(segment.chunks_exact(2));
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    sum += 6 + segment.len() as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Visits over and over, each time on a connection of its own.
#[derive(Clone, Debug, Args)]
pub(crate) struct VisitArgs {
    #[arg(long)]
    target: SocketAddr,
    /// `name=value`; without it the visits are a newcomer's and the cookie that was set is printed
    #[arg(long)]
    cookie: Option<String>,
    #[arg(long)]
    visits: u32,
    #[arg(long)]
    pause_milliseconds: u64,
}

/// Prints the cookie, or how many visits got the page and how many milliseconds each of these took.
///
/// # Errors
///
/// Where a newcomer gets no cookie.
pub(crate) fn visit(args: &VisitArgs) -> Result<()> {
    let Some(cookie) = &args.cookie else {
        let answer = Client::connect(args.target)?.get("/1k", &[])?;
        println!("{}", answer.cookie().context("the gate set no cookie")?);
        return Ok(());
    };
    for _ in 0..args.visits {
        let begun = Instant::now();
        match once(args.target, cookie) {
            Ok(true) => println!("{:.3}", begun.elapsed().as_secs_f64() * 1e3),
            Ok(false) | Err(_) => println!("failed"),
        }
        thread::sleep(Duration::from_millis(args.pause_milliseconds));
    }
    Ok(())
}

fn once(target: SocketAddr, cookie: &str) -> Result<bool> {
    let mut client = Client::connect_within(target, ANSWER_TIMEOUT)?;
    let answer = client.get("/1k", &[("Cookie", cookie)])?;
    Ok(answer.status == 200 && answer.body.len() == 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syn_carries_a_checksum_that_adds_up() {
        let target = SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), 8000);
        let packet = syn(SOURCES_FROM + 7, 4321, target);
        // Over a segment with its checksum in place the sum is zero.
        assert_eq!(segment_checksum(&packet[12..20], &packet[20..]), 0);
        assert_eq!(packet[33], 2);
    }
}
