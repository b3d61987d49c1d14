//! The kernel program on single frames, in the kernel: each reason, each verdict, the same as the host's own run of the same code.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![allow(clippy::print_stdout, reason = "says what was measured")]

use gate_common::config::{Mode, Parameters, PrefixLookup};
use gate_common::judge::judge;
use gate_common::model::Model;
use gate_common::reason::{Action, Reason};
use gate_common::source::{Address, ListenerKey, SourceKey};
use gate_common::tables::{Admitted, PrefixClass};
use gate_common::walk::walk;
use gate_tests::frames::{
    ACK, ARP, CWR, DESTINATION, ECE, FIN, Frame, HOP_BY_HOP, IPV4, IPV6, PSH, ROUTING, RST, SYN,
    UDP, VLAN, VLAN_SERVICE,
};
use gate_tests::program::{HOUR_NS, Outcome, Program, address, timeless};
use gate_tests::{Need, need};

const GATE4: &str = "192.0.2.1:443";
const GATE6: &str = "[2001:db8::1]:443";
const CLIENT4: &str = "198.51.100.7:40000";
const CLIENT6: &str = "[2001:db8:77::7]:40000";
/// The kernel runs no test on less than an Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Instructions the verifier may look at for one load. It gives up at a million; growth beyond this needs a reason.
const VERIFIED_INSTRUCTIONS_MAX: u32 = 20_000;

fn can_run() -> bool {
    need::all(&[Need::Root, Need::KernelObject])
}

fn program(parameters: &Parameters) -> Program {
    let mut program = Program::load(parameters);
    program.guard("192.0.2.1", 443);
    program.guard("2001:db8::1", 443);
    program
}

fn syn4() -> Frame {
    Frame::syn(CLIENT4, GATE4)
}

fn syn6() -> Frame {
    Frame::syn(CLIENT6, GATE6)
}

/// Frames by name, and the reason under which a fresh program counts each.
fn fixtures() -> Vec<(&'static str, Vec<u8>, Reason)> {
    use Reason::{
        BadHeader, ExtensionsTooMany, LaterFragment, Light, NotGuarded, NotIp, NotOpening, NotTcp,
        Truncated, VlanTooDeep,
    };
    let cases: Vec<(&str, Frame, Reason)> = vec![
        ("ipv4", syn4(), Light),
        ("ipv4, shortest options", syn4().ipv4_options(1), Light),
        ("ipv4, longest options", syn4().ipv4_options(10), Light),
        ("ipv4, don't fragment", syn4().ipv4_fragment(0x4000), Light),
        ("ipv4, first fragment", syn4().ipv4_fragment(0x2000), Light),
        (
            "ipv4, later fragment",
            syn4().ipv4_fragment(0x2001),
            LaterFragment,
        ),
        (
            "ipv4, last fragment",
            syn4().ipv4_fragment(0x00b9),
            LaterFragment,
        ),
        ("ipv4, header too short", syn4().first_byte(0x44), BadHeader),
        ("ipv4, wrong version", syn4().first_byte(0x65), BadHeader),
        ("ipv4, udp", syn4().protocol(UDP), NotTcp),
        ("ipv4, jumbo", syn4().padding(8_900), Light),
        ("ipv4, one tag", syn4().vlan(VLAN), Light),
        (
            "ipv4, two tags",
            syn4().vlan(VLAN_SERVICE).vlan(VLAN),
            Light,
        ),
        (
            "ipv4, three tags",
            syn4().vlan(VLAN_SERVICE).vlan(VLAN).vlan(VLAN),
            VlanTooDeep,
        ),
        ("arp", syn4().ethertype(ARP), NotIp),
        (
            "ipv4 that claims to be ipv6",
            syn4().padding(40).ethertype(IPV6),
            BadHeader,
        ),
        (
            "ipv6 that claims to be ipv4",
            syn6().ethertype(IPV4),
            BadHeader,
        ),
        ("syn with ecn", syn4().flags(SYN | ECE | CWR), Light),
        ("syn with push", syn4().flags(SYN | PSH), Light),
        ("syn-ack", syn4().flags(SYN | ACK), NotOpening),
        ("syn-fin", syn4().flags(SYN | FIN), NotOpening),
        ("syn-rst", syn4().flags(SYN | RST), NotOpening),
        ("ack", syn4().flags(ACK), NotOpening),
        ("data", syn4().flags(ACK | PSH).padding(100), NotOpening),
        ("reset", syn4().flags(RST), NotOpening),
        ("no flags", syn4().flags(0), NotOpening),
        (
            "another port",
            Frame::syn(CLIENT4, "192.0.2.1:80"),
            NotGuarded,
        ),
        (
            "another address",
            Frame::syn(CLIENT4, "192.0.2.2:443"),
            NotGuarded,
        ),
        (
            "another port, data",
            Frame::syn(CLIENT4, "192.0.2.1:80").flags(ACK),
            NotGuarded,
        ),
        ("ipv6", syn6(), Light),
        (
            "ipv6, another port",
            Frame::syn(CLIENT6, "[2001:db8::1]:80"),
            NotGuarded,
        ),
        ("ipv6, wrong version", syn6().first_byte(0x45), BadHeader),
        ("ipv6, udp", syn6().protocol(UDP), NotTcp),
        (
            "ipv6, two tags",
            syn6().vlan(VLAN_SERVICE).vlan(VLAN),
            Light,
        ),
        (
            "ipv6, one extension",
            syn6().extension(HOP_BY_HOP, 1),
            Light,
        ),
        (
            "ipv6, longest extension",
            syn6().extension(DESTINATION, 255),
            Light,
        ),
        (
            "ipv6, four extensions",
            syn6()
                .extension(HOP_BY_HOP, 1)
                .extension(ROUTING, 3)
                .ipv6_fragment(1)
                .extension(DESTINATION, 2),
            Light,
        ),
        (
            "ipv6, five extensions",
            (0..5).fold(syn6(), |frame, _| frame.extension(DESTINATION, 1)),
            ExtensionsTooMany,
        ),
        (
            "ipv6, four extensions to udp",
            {
                let frame = (0..4).fold(syn6(), |frame, _| frame.extension(DESTINATION, 1));
                frame.protocol(UDP)
            },
            NotTcp,
        ),
        ("ipv6, first fragment", syn6().ipv6_fragment(1), Light),
        (
            "ipv6, later fragment",
            syn6().ipv6_fragment(8),
            LaterFragment,
        ),
        ("ipv6, unknown header", syn6().protocol(51), NotTcp),
    ];
    let mut fixtures: Vec<_> = cases
        .into_iter()
        .map(|(name, frame, reason)| (name, frame.bytes(), reason))
        .collect();
    fixtures.push((
        "nothing but ethernet",
        syn4().bytes()[..14].to_vec(),
        Truncated,
    ));
    fixtures
}

/// The host's tables for the same listeners.
fn model(parameters: &Parameters) -> Model {
    let mut model = Model::new(parameters, 1_000 * HOUR_NS);
    for ip in ["192.0.2.1", "2001:db8::1"] {
        model.listeners.insert(ListenerKey::new(address(ip), 443));
    }
    model
}

#[test]
fn every_kind_of_frame_has_its_reason() {
    if !can_run() {
        return;
    }
    for (name, frame, expected) in fixtures() {
        let outcome = program(&timeless()).judge(&frame);
        assert_eq!(outcome.reason, expected, "{name}");
        assert_eq!(outcome.action, Action::Pass, "{name}");
    }
}

#[test]
fn host_and_kernel_agree_on_every_frame_cut_at_every_length() {
    if !can_run() {
        return;
    }
    let mut parameters = timeless();
    // Nothing is ever promoted, so that no frame changes what the next one meets.
    parameters.promote_threshold = u64::MAX;
    let mut program = program(&parameters);
    let mut compared = 0;
    for (name, frame, _) in fixtures() {
        // Behind the headers every length is the same; the longest headers end before this.
        let lengths = (0..=frame.len()).filter(|length| *length < 2_300 || *length == frame.len());
        for length in lengths {
            let cut = &frame[..length];
            let mut model = model(&parameters);
            let host = judge(&cut, &mut model);
            if length < ETHERNET_BYTES {
                assert_eq!(host.reason, Reason::Truncated, "{name} cut at {length}");
                continue;
            }
            let kernel = program.judge(cut);
            assert_eq!(
                (kernel.reason, kernel.action),
                (host.reason, host.action),
                "{name} cut at {length}"
            );
            compared += 1;
        }
    }
    assert!(compared > 4_000, "only {compared} frames were compared");
}

/// The whole life of many sources, the kernel against the host: same reasons in the same order.
#[test]
fn host_and_kernel_agree_on_a_long_sequence() {
    if !can_run() {
        return;
    }
    use rand::{RngExt as _, SeedableRng as _};
    let seed = 0x5eed_0001;
    println!("seed {seed:#x}");
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let parameters = timeless();
    let (mut kernel, mut host) = (program(&parameters), model(&parameters));
    for (prefix, length, class) in [
        ("203.0.113.0", 96 + 24, PrefixClass::Denied),
        ("203.0.113.8", 96 + 29, PrefixClass::TrustedProxy),
        ("2001:db8:bad::", 48, PrefixClass::Denied),
    ] {
        kernel.prefix(prefix, length, class);
        let length = u8::try_from(length).unwrap();
        host.prefixes
            .push((address(prefix).octets(), length, class));
    }
    for ip in ["198.51.100.1", "2001:db8:ad::1"] {
        kernel.admit(ip, u64::MAX);
        let source = SourceKey::of(address(ip));
        let admitted = Admitted::from_words(Admitted::words(u64::MAX));
        host.admitted.insert(source, admitted);
    }
    let mut seen = std::collections::BTreeSet::new();
    for step in 0..4_000 {
        let from = match random.random_range(0..5) {
            0 => format!("198.51.100.{}:4000", random.random_range(1..40)),
            1 => format!("203.0.113.{}:4000", random.random_range(1..20)),
            2 => format!("[2001:db8:ad::{:x}]:4000", random.random_range(1..9)),
            3 => format!(
                "[2001:db8:{:x}::{:x}]:4000",
                random.random_range(1..9),
                step
            ),
            _ => "[2001:db8:bad:1::1]:4000".to_owned(),
        };
        let to = if from.starts_with('[') { GATE6 } else { GATE4 };
        let frame = Frame::syn(&from, to).bytes();
        let expected = judge(&frame.as_slice(), &mut host);
        let found = kernel.judge(&frame);
        assert_eq!(
            (found.reason, found.action),
            (expected.reason, expected.action),
            "step {step}, {from}, seed {seed:#x}"
        );
        seen.insert(found.reason);
    }
    for reason in [
        Reason::Admitted,
        Reason::AdmittedOver,
        Reason::TrustedProxy,
        Reason::Denied,
        Reason::Light,
        Reason::Learned,
        Reason::Within,
        Reason::Over,
    ] {
        assert!(seen.contains(&reason), "{reason:?} never occurred");
    }
}

fn repeat(program: &mut Program, frame: &Frame, times: usize) -> Vec<Reason> {
    let bytes = frame.bytes();
    (0..times).map(|_| program.judge(&bytes).reason).collect()
}

fn count(reasons: &[Reason], wanted: Reason) -> usize {
    reasons.iter().filter(|reason| **reason == wanted).count()
}

#[test]
fn a_stranger_gets_its_burst_exactly() {
    if !can_run() {
        return;
    }
    let mut program = program(&timeless());
    let reasons = repeat(&mut program, &syn4(), 20);
    assert_eq!(count(&reasons, Reason::Light), 3);
    assert_eq!(count(&reasons, Reason::Learned), 1);
    assert_eq!(count(&reasons, Reason::Within), 8);
    assert_eq!(
        reasons[12..],
        [Reason::Over; 8],
        "twelve pass, the rest does not"
    );
    let outcome = program.judge(&syn4().bytes());
    assert_eq!(outcome.action, Action::Drop);
    let neighbour = program.judge(&Frame::syn("198.51.100.8:1", GATE4).bytes());
    assert_eq!(neighbour.reason, Reason::Light, "others are not touched");
    let established = program.judge(&syn4().flags(ACK).bytes());
    assert_eq!(established.action, Action::Pass, "open connections go on");
}

#[test]
fn an_ipv6_network_is_one_source() {
    if !can_run() {
        return;
    }
    let mut program = program(&timeless());
    let mut dropped = 0;
    for host in 1..=20 {
        let from = format!("[2001:db8:77:1::{host:x}]:4000");
        let outcome = program.judge(&Frame::syn(&from, GATE6).bytes());
        dropped += usize::from(outcome.action == Action::Drop);
    }
    assert_eq!(dropped, 8);
    let next = program.judge(&Frame::syn("[2001:db8:77:2::1]:4000", GATE6).bytes());
    assert_eq!(next.reason, Reason::Light);
}

#[test]
fn monitor_counts_the_same_and_drops_nothing() {
    if !can_run() {
        return;
    }
    let mut parameters = timeless();
    parameters.mode = Mode::Monitor;
    let mut program = program(&parameters);
    program.prefix("203.0.113.0", 96 + 24, PrefixClass::Denied);
    let reasons = repeat(&mut program, &syn4(), 20);
    assert_eq!(count(&reasons, Reason::Over), 8);
    let over = program.judge(&syn4().bytes());
    assert_eq!((over.reason, over.action), (Reason::Over, Action::Pass));
    let denied = program.judge(&Frame::syn("203.0.113.9:1", GATE4).bytes());
    assert_eq!(
        (denied.reason, denied.action),
        (Reason::Denied, Action::Pass)
    );
}

#[test]
fn off_passes_everything_without_a_look() {
    if !can_run() {
        return;
    }
    let mut parameters = timeless();
    parameters.mode = Mode::Off;
    let mut program = program(&parameters);
    let reasons = repeat(&mut program, &syn4(), 20);
    assert_eq!(reasons, [Reason::Off; 20]);
}

#[test]
fn parameters_change_for_the_very_next_packet() {
    if !can_run() {
        return;
    }
    let mut parameters = timeless();
    let mut program = program(&parameters);
    repeat(&mut program, &syn4(), 12);
    assert_eq!(program.judge(&syn4().bytes()).action, Action::Drop);
    parameters.mode = Mode::Monitor;
    program.set(&parameters);
    assert_eq!(program.judge(&syn4().bytes()).action, Action::Pass);
    parameters.mode = Mode::Enforce;
    parameters.source.limit_ns = 15 * HOUR_NS;
    program.set(&parameters);
    let reasons = repeat(&mut program, &syn4(), 5);
    assert_eq!(
        count(&reasons, Reason::Within),
        3,
        "three more of the larger burst"
    );
    parameters.mode = Mode::Off;
    program.set(&parameters);
    assert_eq!(program.judge(&syn4().bytes()).reason, Reason::Off);
}

#[test]
fn a_source_with_a_session_passes_until_it_ends() {
    if !can_run() {
        return;
    }
    let mut program = program(&timeless());
    repeat(&mut program, &syn4(), 13);
    assert_eq!(program.judge(&syn4().bytes()).reason, Reason::Over);
    program.admit("198.51.100.7", u64::MAX);
    let reasons = repeat(&mut program, &syn4(), 50);
    assert_eq!(
        count(&reasons, Reason::Admitted),
        40,
        "its own, larger burst"
    );
    assert_eq!(count(&reasons, Reason::AdmittedOver), 10);
    assert_eq!(program.judge(&syn4().bytes()).action, Action::Drop);
    program.admit("198.51.100.7", 1);
    assert_eq!(
        program.judge(&syn4().bytes()).reason,
        Reason::Over,
        "an expired entry counts for nothing"
    );
}

#[test]
fn a_session_leaves_no_trace_among_strangers() {
    if !can_run() {
        return;
    }
    let mut program = program(&timeless());
    program.admit("198.51.100.7", u64::MAX);
    repeat(&mut program, &syn4(), 60);
    assert!(program.tracked().is_empty());
}

#[test]
fn the_longest_prefix_decides() {
    if !can_run() {
        return;
    }
    let mut program = program(&timeless());
    program.prefix("203.0.113.0", 96 + 24, PrefixClass::Denied);
    program.prefix("203.0.113.8", 96 + 32, PrefixClass::TrustedProxy);
    let mut reason = |from: &str| program.judge(&Frame::syn(from, GATE4).bytes()).reason;
    assert_eq!(reason("203.0.113.7:1"), Reason::Denied);
    for _ in 0..30 {
        assert_eq!(reason("203.0.113.8:1"), Reason::TrustedProxy);
    }
    assert_eq!(reason("203.0.114.7:1"), Reason::Light);
    let mut parameters = timeless();
    parameters.prefixes = PrefixLookup::Skip;
    program.set(&parameters);
    let skipped = program.judge(&Frame::syn("203.0.113.7:1", GATE4).bytes());
    assert_eq!(
        skipped.reason,
        Reason::Light,
        "an empty list is not even looked at"
    );
}

#[test]
fn going_over_the_rate_is_told_once_and_not_too_often() {
    if !can_run() {
        return;
    }
    let mut program = program(&timeless());
    let mut events = program.events();
    for host in 1..=5 {
        let frame = Frame::syn(&format!("198.51.100.{host}:1"), GATE4);
        repeat(&mut program, &frame, 20);
    }
    let mut told = Vec::new();
    while let Some(event) = events.next() {
        let octets: [u8; 16] = event[..16].try_into().unwrap();
        told.push(octets);
    }
    let expected: Vec<[u8; 16]> = (1..=3)
        .map(|host| Address::from_ipv4([198, 51, 100, host]).octets())
        .collect();
    assert_eq!(
        told, expected,
        "once per source, three at most by these parameters"
    );
}

#[test]
fn learning_stops_in_a_flood_and_known_abusers_stay_refused() {
    if !can_run() {
        return;
    }
    let mut parameters = timeless();
    parameters.learn_per_second_max = 2;
    let mut program = program(&parameters);
    repeat(&mut program, &syn4(), 13);
    assert_eq!(program.judge(&syn4().bytes()).reason, Reason::Over);
    let mut learned = 0;
    let mut unlearned = 0;
    for host in 1..=40 {
        let frame = Frame::syn(&format!("203.0.113.{host}:1"), GATE4);
        let reasons = repeat(&mut program, &frame, 4);
        learned += count(&reasons, Reason::Learned);
        unlearned += count(&reasons, Reason::FloodUnlearned);
    }
    assert!(unlearned > 20, "{unlearned} of 40 were not learned");
    assert!(learned + unlearned >= 40, "{learned} + {unlearned}");
    assert_eq!(program.judge(&syn4().bytes()).reason, Reason::Over);
}

/// A hundred thousand addresses, one connection each, against a table of 1024 sources.
#[test]
fn a_flood_of_spoofed_sources_evicts_no_session_and_fills_no_table() {
    if !can_run() {
        return;
    }
    let mut program = program(&timeless());
    program.admit("198.51.100.7", u64::MAX);
    let mut frame = syn4().bytes();
    for number in 0_u32..100_000 {
        frame[26..30].copy_from_slice(&(0x0a00_0000 | number).to_be_bytes());
        program.repeat(&frame, 1);
    }
    let outcome = program.judge_after(&syn4().bytes());
    assert_eq!(outcome.reason, Reason::Admitted);
    let tracked = program.tracked().len();
    assert!(tracked < 64, "{tracked} one-shot sources are tracked");
}

#[test]
fn a_full_table_of_strangers_forgets_and_refuses_nobody_new() {
    if !can_run() {
        return;
    }
    let mut program = Program::load_sized(&timeless(), 64, 64);
    program.guard("192.0.2.1", 443);
    for host in 0_u32..2_000 {
        let from = format!("10.0.{}.{}:1", host / 200, host % 200 + 1);
        let outcomes: Vec<Outcome> = (0..5)
            .map(|_| program.judge(&Frame::syn(&from, GATE4).bytes()))
            .collect();
        assert!(
            outcomes
                .iter()
                .all(|outcome| outcome.action == Action::Pass),
            "{from}: {outcomes:?}"
        );
    }
}

#[test]
fn the_verifier_has_little_to_do() {
    if !can_run() {
        return;
    }
    let instructions = Program::load(&timeless()).verified_instructions();
    println!("verified instructions: {instructions}");
    assert!(instructions <= VERIFIED_INSTRUCTIONS_MAX, "{instructions}");
}

#[test]
fn the_walk_reads_what_the_frame_says() {
    let frame = syn6().vlan(VLAN).extension(HOP_BY_HOP, 2).bytes();
    let segment = walk(&frame.as_slice()).unwrap();
    assert_eq!(segment.source, address("2001:db8:77::7"));
    assert_eq!(
        segment.destination,
        ListenerKey::new(address("2001:db8::1"), 443)
    );
    assert!(segment.opens_connection());
}
