//! What the kernel program costs by itself. As root:
//!
//! - `kernel_bench packets OBJECT ROUND` runs the program on packets of its own, one kind after the other, and prints one JSON
//!   object per measurement: `{"case":…,"round":…,"figure":…,"value":…}`.
//! - `kernel_bench attach-pass OBJECT INTERFACE` attaches the program that passes everything, until it is ended.
//!
//! `cargo xtask bench --suite flood` runs both.

#![allow(clippy::print_stdout, reason = "prints what it measured")]

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aya::maps::{Array, HashMap, MapData};
use aya::programs::{TestRun as _, TestRunOptions, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use gate_common::config::{CONFIG_WORDS, Mode, Parameters, PrefixLookup};
use gate_common::gcra::Rate;
use gate_common::source::{Address, ListenerKey, SourceKey};
use gate_common::tables::{ADMITTED_WORDS, Admitted, TRACKED_WORDS};

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const PORT: u16 = 8000;
const SERVER: [u8; 4] = [10, 9, 0, 1];
/// As many at once as the gate's default, and then so few that no source recovers while the others are measured.
const SOURCE: Rate = Rate {
    interval_ns: 60_000_000_000,
    limit_ns: 120 * 60_000_000_000,
};
/// So high that no packet of a measurement is over it.
const UNLIMITED: Rate = Rate {
    interval_ns: 1,
    limit_ns: 60_000_000_000,
};
const REPEAT: u32 = 1_000_000;
/// Sources whose packets come one by one, so that each finds its entry cold.
const COLD_SOURCES: u32 = 20_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["packets", object, round] => packets(load(object)?, round.parse()?),
        ["attach-pass", object, interface] => attach_pass(load(object)?, interface),
        _ => bail!("usage: kernel_bench packets OBJECT ROUND | attach-pass OBJECT INTERFACE"),
    }
}

fn load(object: &str) -> Result<Ebpf> {
    let bytes = std::fs::read(object).with_context(|| format!("cannot read {object}"))?;
    EbpfLoader::new()
        .load(&bytes)
        .context("the kernel refuses the object")
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp> {
    let program = ebpf
        .program_mut(name)
        .with_context(|| format!("no program {name}"))?;
    Ok(program.try_into()?)
}

fn attach_pass(mut ebpf: Ebpf, interface: &str) -> Result<()> {
    let program = program(&mut ebpf, "gate_xdp_pass")?;
    program.load()?;
    program.attach(interface, XdpMode::Driver)?;
    println!("attached");
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// One kind of packet: from whom, and what becomes of it.
struct Kind {
    case: &'static str,
    source: [u8; 4],
    flags: u8,
    port: u16,
    expected: u32,
}

const SYN: u8 = 2;
const ACK: u8 = 16;
const ADMITTED_SOURCE: [u8; 4] = [10, 9, 0, 2];
const REFUSED_SOURCE: [u8; 4] = [10, 9, 0, 3];

/// Each packet over and over, so that everything it needs is at hand.
const WARM: [Kind; 4] = [
    Kind {
        case: "test-run-not-guarded",
        source: REFUSED_SOURCE,
        flags: SYN,
        port: 22,
        expected: XDP_PASS,
    },
    Kind {
        case: "test-run-established",
        source: REFUSED_SOURCE,
        flags: ACK,
        port: PORT,
        expected: XDP_PASS,
    },
    Kind {
        case: "test-run-admitted",
        source: ADMITTED_SOURCE,
        flags: SYN,
        port: PORT,
        expected: XDP_PASS,
    },
    Kind {
        case: "test-run-refused",
        source: REFUSED_SOURCE,
        flags: SYN,
        port: PORT,
        expected: XDP_DROP,
    },
];

fn packets(mut ebpf: Ebpf, round: u32) -> Result<()> {
    fill(&mut ebpf)?;
    let pass = program(&mut ebpf, "gate_xdp_pass")?;
    pass.load()?;
    let frame = frame(REFUSED_SOURCE, SYN, PORT);
    let (_, warm) = run(pass, &frame, REPEAT)?;
    report("test-run-pass-only", round, warm);
    // One run by itself takes this long whatever it does: reading the clock is in it.
    report("test-run-pass-only-cold", round, cold(pass, XDP_PASS)?);

    let gate = program(&mut ebpf, "gate_xdp")?;
    gate.load()?;
    for kind in WARM {
        let frame = self::frame(kind.source, kind.flags, kind.port);
        let (verdict, nanoseconds) = run(gate, &frame, REPEAT)?;
        ensure!(verdict == kind.expected, "{}: verdict {verdict}", kind.case);
        report(kind.case, round, nanoseconds);
    }
    report("test-run-refused-cold", round, cold(gate, XDP_DROP)?);
    Ok(())
}

/// The median of one packet from each of many sources.
fn cold(program: &Xdp, expected: u32) -> Result<f64> {
    let mut durations = Vec::with_capacity(COLD_SOURCES as usize);
    for source in 0..COLD_SOURCES {
        let (verdict, nanoseconds) = run(program, &frame(cold_source(source), SYN, PORT), 1)?;
        ensure!(verdict == expected, "a cold source: verdict {verdict}");
        durations.push(nanoseconds);
    }
    durations.sort_by(f64::total_cmp);
    Ok(durations[durations.len() / 2])
}

fn cold_source(number: u32) -> [u8; 4] {
    ((198 << 24) | (18 << 16) | number).to_be_bytes()
}

fn run(program: &Xdp, frame: &[u8], repeat: u32) -> Result<(u32, f64)> {
    let result = program.test_run(TestRunOptions {
        data_in: Some(frame),
        repeat,
        ..TestRunOptions::default()
    })?;
    Ok((result.return_value, result.duration.as_nanos() as f64))
}

fn report(case: &str, round: u32, nanoseconds: f64) {
    println!(r#"{{"case":"{case}","round":{round},"figure":"nanoseconds","value":{nanoseconds}}}"#);
}

fn map<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut aya::maps::Map> {
    ebpf.map_mut(name).with_context(|| format!("no map {name}"))
}

/// One guarded listener, one source with a session, and and many over their rate.
fn fill(ebpf: &mut Ebpf) -> Result<()> {
    let parameters = Parameters {
        mode: Mode::Enforce,
        source: SOURCE,
        admitted: UNLIMITED,
        promote_threshold: 2,
        window_ns: 10_000_000_000,
        learn_per_second_max: 1 << 30,
        events: Rate {
            interval_ns: 100_000_000,
            limit_ns: 1_000_000_000,
        },
        seed: [1, 2],
        prefixes: PrefixLookup::Skip,
    };
    let mut config: Array<&mut MapData, [u64; CONFIG_WORDS]> = map(ebpf, "CONFIG")?.try_into()?;
    config.set(0, parameters.words(), 0)?;
    let mut listeners: HashMap<&mut MapData, [u64; 3], u32> = map(ebpf, "LISTENERS")?.try_into()?;
    let listener = ListenerKey::new(Address::from_ipv4(SERVER), PORT);
    listeners.insert(listener.words(), 1, 0)?;
    let mut admitted: HashMap<&mut MapData, [u8; 16], [u64; ADMITTED_WORDS]> =
        map(ebpf, "ADMITTED")?.try_into()?;
    admitted.insert(key(ADMITTED_SOURCE), Admitted::words(u64::MAX), 0)?;
    let mut tracked: HashMap<&mut MapData, [u8; 16], [u64; TRACKED_WORDS]> =
        map(ebpf, "SOURCES")?.try_into()?;
    for source in (0..COLD_SOURCES).map(cold_source).chain([REFUSED_SOURCE]) {
        // All that it may send at once is used up, and it was over its rate before.
        tracked.insert(key(source), [u64::MAX / 2, 1, 1], 0)?;
    }
    Ok(())
}

fn key(source: [u8; 4]) -> [u8; 16] {
    SourceKey::of(Address::from_ipv4(source)).address().octets()
}

/// Ethernet, IPv4 and TCP without options.
fn frame(source: [u8; 4], flags: u8, port: u16) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[17] = 40;
    frame[22] = 64;
    frame[23] = 6;
    frame[26..30].copy_from_slice(&source);
    frame[30..34].copy_from_slice(&SERVER);
    frame[34..36].copy_from_slice(&40_000_u16.to_be_bytes());
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame[46] = 5 << 4;
    frame[47] = flags;
    frame
}
