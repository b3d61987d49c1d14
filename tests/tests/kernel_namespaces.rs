//! The kernel part on real interfaces, between network namespaces: attaching, limiting, admitting, expiring, going away.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![allow(clippy::print_stdout, reason = "says what was measured")]

use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use gate::clock::MonotonicNs;
use gate::kernel::settings::{GenericAttach, KernelMode, MapSizes, SourceRateLimit};
use gate::kernel::{
    Detached, InterfaceState, Kernel, KernelError, KernelSettings, KernelStatus, Severity,
};
use gate_tests::netns::{INTERFACE, Namespace, Pair};
use gate_tests::{DEADLINE, Need, Stopwatch, need, until};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

const GATE4: &str = "10.77.0.1:8443";
const GATE6: &str = "[fd77::1]:8443";
const BURST: usize = 8;

fn can_run() -> bool {
    need::all(&[Need::Root, Need::KernelObject, Need::Command("ip")])
}

/// One new connection an hour after a burst of eight, so that a test's own time does not matter.
fn settings(mode: KernelMode) -> KernelSettings {
    KernelSettings {
        mode,
        interfaces: vec![INTERFACE.parse().unwrap()],
        source_rate: SourceRateLimit::new(1, 8).unwrap(),
        admitted_rate: SourceRateLimit::new(60_000, 10_000).unwrap(),
        map_sizes: MapSizes::new(1024, 1024).unwrap(),
        ..KernelSettings::default()
    }
}

/// Starts the kernel part in a namespace; what is said about threads is expected in a test.
fn start(
    namespace: &Namespace,
    settings: &KernelSettings,
    listeners: &[&str],
) -> (Kernel, Vec<KernelError>) {
    let listeners: Vec<SocketAddr> = listeners.iter().map(|text| text.parse().unwrap()).collect();
    let (kernel, faults) = namespace.run(|| Kernel::start(settings, &listeners));
    let faults = faults
        .into_iter()
        .filter(|fault| !matches!(fault, KernelError::CapabilitiesKept { .. }))
        .collect();
    (kernel, faults)
}

/// The same where nothing may go wrong, with a listening socket at each address.
fn started(
    namespace: &Namespace,
    settings: &KernelSettings,
    listeners: &[&str],
) -> (Kernel, Vec<TcpListener>) {
    let sockets = listeners
        .iter()
        .map(|address| drain(namespace.listen(address)));
    let sockets = sockets.collect();
    let (kernel, faults) = start(namespace, settings, listeners);
    assert!(faults.is_empty(), "{faults:?}");
    (kernel, sockets)
}

/// Takes connections for as long as the socket is there, so that its queue is never full.
fn drain(listener: TcpListener) -> TcpListener {
    let taking = listener.try_clone().unwrap();
    thread::spawn(move || taking.incoming().for_each(drop));
    listener
}

fn packets(status: &KernelStatus, reason: &str) -> u64 {
    let found = status.reasons.iter().find(|found| found.reason == reason);
    found.map_or(0, |found| found.packets)
}

fn entries(kernel: &Kernel, map: &str) -> u32 {
    let status = kernel.status();
    let found = status.maps.iter().find(|found| found.name == map);
    found.expect("a map of this name").entries
}

fn state(kernel: &Kernel) -> InterfaceState {
    kernel.status().interfaces[0].state
}

fn to(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

fn admit(kernel: &Kernel, ip: &str, lifetime_seconds: u32) {
    let before = entries(kernel, "ADMITTED");
    kernel.admitted(MonotonicNs::now(), ip.parse().unwrap(), lifetime_seconds);
    until("the source is entered", DEADLINE, || {
        (entries(kernel, "ADMITTED") == before + 1).then_some(())
    });
}

#[test]
fn native_mode_drops_who_is_over_the_rate_and_nobody_else() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (kernel, _sockets) = started(&pair.gate, &settings(KernelMode::Enforce), &[GATE4]);
    assert_eq!(state(&kernel), InterfaceState::Native);
    assert!(pair.gate.carries_program(INTERFACE));
    assert_eq!(pair.client.connected("10.77.0.2", to(GATE4), BURST), BURST);
    assert_eq!(
        pair.client.connected("10.77.0.2", to(GATE4), 2),
        0,
        "over the rate"
    );
    assert!(
        pair.client.connects("10.77.0.3", to(GATE4)),
        "another source"
    );
    let status = kernel.status();
    assert!(packets(&status, "over_rate") >= 2, "{status:?}");
    assert_eq!(status.top_sources[0].source.to_string(), "10.77.0.2");
    assert!(status.top_sources[0].connections_refused >= 2);
    kernel.stop();
    assert!(!pair.gate.carries_program(INTERFACE), "stop detaches");
    assert!(pair.client.connects("10.77.0.2", to(GATE4)));
}

#[test]
fn other_ports_of_the_host_are_never_touched() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (_kernel, _sockets) = started(&pair.gate, &settings(KernelMode::Enforce), &[GATE4]);
    let _other = drain(pair.gate.listen("10.77.0.1:9000"));
    assert_eq!(
        pair.client.connected("10.77.0.2", to("10.77.0.1:9000"), 30),
        30
    );
}

#[test]
fn monitor_counts_and_passes() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (kernel, _sockets) = started(&pair.gate, &settings(KernelMode::Monitor), &[GATE4]);
    assert_eq!(pair.client.connected("10.77.0.2", to(GATE4), 20), 20);
    assert_eq!(packets(&kernel.status(), "over_rate"), 12);
    let restart = kernel
        .set_parameters(&settings(KernelMode::Enforce))
        .unwrap();
    assert!(restart.is_empty());
    assert!(
        !pair.client.connects("10.77.0.2", to(GATE4)),
        "enforced from now on"
    );
    kernel
        .set_parameters(&settings(KernelMode::Monitor))
        .unwrap();
    assert!(pair.client.connects("10.77.0.2", to(GATE4)));
}

#[test]
fn ipv6_is_limited_by_network() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let listeners = [GATE6, "[fd77:2::1]:8443"];
    let (kernel, _sockets) = started(&pair.gate, &settings(KernelMode::Enforce), &listeners);
    assert_eq!(pair.client.connected("fd77::2", to(GATE6), BURST), BURST);
    assert!(!pair.client.connects("fd77::2", to(GATE6)));
    assert!(pair.client.connects("fd77:2::2", to("[fd77:2::1]:8443")));
    // A session of anybody in the network opens it for all of it.
    admit(&kernel, "fd77::99", 60);
    assert_eq!(pair.client.connected("fd77::2", to(GATE6), 20), 20);
}

#[test]
fn generic_mode_serves_where_there_is_no_native_one() {
    if !can_run() {
        return;
    }
    let namespace = Namespace::new("gate");
    let mut loopback = settings(KernelMode::Enforce);
    loopback.interfaces = vec!["lo".parse().unwrap()];
    let (kernel, _sockets) = started(&namespace, &loopback, &["127.0.0.1:8443"]);
    assert_eq!(state(&kernel), InterfaceState::Generic);
    let gate = to("127.0.0.1:8443");
    assert_eq!(namespace.connected("127.0.0.1", gate, BURST), BURST);
    assert!(!namespace.connects("127.0.0.1", gate));
    assert!(namespace.connects("127.0.0.2", gate));
    kernel.stop();
    loopback.generic = GenericAttach::Refused;
    let (kernel, faults) = start(&namespace, &loopback, &["127.0.0.1:8443"]);
    assert!(
        matches!(faults[..], [KernelError::Attach { generic: None, .. }]),
        "{faults:?}"
    );
    assert_eq!(state(&kernel), InterfaceState::NotAttached);
}

#[test]
fn a_driver_that_refuses_native_mode_gets_generic() {
    if !can_run() {
        return;
    }
    let pair = Pair::with_queues(1, 4);
    let (kernel, _sockets) = started(&pair.gate, &settings(KernelMode::Enforce), &[GATE4]);
    assert_eq!(state(&kernel), InterfaceState::Generic);
    assert_eq!(
        pair.client.connected("10.77.0.2", to(GATE4), BURST + 1),
        BURST
    );
}

#[test]
fn a_foreign_program_stays_and_is_named() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let first = settings(KernelMode::Monitor);
    let (other, _sockets) = started(&pair.gate, &first, &[GATE4]);
    let (kernel, faults) = start(&pair.gate, &settings(KernelMode::Enforce), &[GATE4]);
    let [fault @ KernelError::ForeignProgram { name, .. }] = &faults[..] else {
        panic!("{faults:?}");
    };
    assert_eq!(name.as_deref(), Some("gate_xdp"));
    assert_eq!(fault.severity(), Severity::Degraded);
    assert_eq!(state(&kernel), InterfaceState::NotAttached);
    assert_eq!(state(&other), InterfaceState::Native, "the first one stays");
    assert_eq!(pair.client.connected("10.77.0.2", to(GATE4), 20), 20);
    // Ending the one that never was attached takes nothing away from the other.
    kernel.stop();
    assert!(pair.gate.carries_program(INTERFACE));
    assert!(packets(&other.status(), "over_rate") > 0);
}

#[test]
fn an_interface_that_is_not_there_is_a_fault_of_the_configuration() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let mut wrong = settings(KernelMode::Enforce);
    wrong.interfaces = vec!["nowhere0".parse().unwrap(), INTERFACE.parse().unwrap()];
    let (kernel, faults) = start(&pair.gate, &wrong, &[GATE4]);
    let [fault] = &faults[..] else {
        panic!("{faults:?}");
    };
    assert_eq!(fault.severity(), Severity::Configuration);
    let text = fault.to_string();
    assert!(
        text.contains("nowhere0") && text.contains(INTERFACE),
        "{text}"
    );
    let states: Vec<_> = kernel
        .status()
        .interfaces
        .iter()
        .map(|found| found.state)
        .collect();
    assert_eq!(
        states,
        [InterfaceState::NotAttached, InterfaceState::Native]
    );
}

#[test]
fn an_interface_that_goes_away_is_noticed() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (kernel, _sockets) = started(&pair.gate, &settings(KernelMode::Enforce), &[GATE4]);
    pair.gate.ip(&["link", "del", INTERFACE]);
    until("the interface is missed", DEADLINE, || {
        (state(&kernel) == InterfaceState::Gone).then_some(())
    });
    let faults = kernel.status().faults;
    assert!(
        faults.iter().any(|fault| fault.contains("is gone")),
        "{faults:?}"
    );
    kernel.admitted(MonotonicNs::now(), "10.77.0.2".parse().unwrap(), 60);
    kernel.stop();
}

#[test]
fn a_dropped_kernel_part_leaves_the_interface_clean() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (kernel, _sockets) = started(&pair.gate, &settings(KernelMode::Enforce), &[GATE4]);
    assert!(pair.gate.carries_program(INTERFACE));
    drop(kernel);
    until("the program is gone", DEADLINE, || {
        (!pair.gate.carries_program(INTERFACE)).then_some(())
    });
}

/// One connection of the admitted client, and a pause: its own rate is generous, not endless.
#[track_caller]
fn connects_once_more(pair: &Pair, began: Stopwatch) {
    assert!(
        pair.client.connects("10.77.0.2", to(GATE4)),
        "{:?}",
        began.elapsed()
    );
    thread::sleep(Duration::from_millis(20));
}

#[test]
fn a_session_ends_on_time_in_the_kernel() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (kernel, _sockets) = started(&pair.gate, &settings(KernelMode::Enforce), &[GATE4]);
    assert_eq!(
        pair.client.connected("10.77.0.2", to(GATE4), BURST + 1),
        BURST
    );
    let began = Stopwatch::start();
    admit(&kernel, "10.77.0.2", 3);
    while began.elapsed() < Duration::from_millis(2_000) {
        connects_once_more(&pair, began);
    }
    until("the source is taken out", DEADLINE, || {
        (kernel.status().admitted.expired == 1).then_some(())
    });
    let lasted = began.elapsed();
    assert!(
        lasted >= Duration::from_millis(2_900),
        "too early: {lasted:?}"
    );
    assert_eq!(entries(&kernel, "ADMITTED"), 0);
    assert!(
        !pair.client.connects("10.77.0.2", to(GATE4)),
        "a stranger again"
    );
    // A new session of the same source is entered anew.
    admit(&kernel, "10.77.0.2", 60);
    assert!(pair.client.connects("10.77.0.2", to(GATE4)));
}

#[test]
fn an_extended_session_does_not_end_with_the_first_one() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (kernel, _sockets) = started(&pair.gate, &settings(KernelMode::Enforce), &[GATE4]);
    assert_eq!(pair.client.connected("10.77.0.2", to(GATE4), BURST), BURST);
    let began = Stopwatch::start();
    admit(&kernel, "10.77.0.2", 1);
    kernel.admitted(MonotonicNs::now(), "10.77.0.2".parse().unwrap(), 60);
    while began.elapsed() < Duration::from_millis(2_500) {
        connects_once_more(&pair, began);
    }
    assert_eq!(kernel.status().admitted.expired, 0);
}

#[test]
fn an_admitted_client_loses_nothing_in_a_flood() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let mut settings = settings(KernelMode::Enforce);
    settings.map_sizes = MapSizes::default();
    let (kernel, _sockets) = started(&pair.gate, &settings, &[GATE4]);
    admit(&kernel, "10.77.0.2", 600);
    let connected = thread::scope(|scope| {
        // A quarter of a million sources with one packet each, then one source with fifty thousand.
        scope.spawn(|| {
            pair.client.flood(to(GATE4), 250_000, |number| {
                let [_, a, b, c] = number.to_be_bytes();
                [11, a, b, c]
            });
            pair.client.flood(to(GATE4), 50_000, |_| [10, 77, 9, 9]);
        });
        let clients = scope.spawn(|| pair.client.connected("10.77.0.2", to(GATE4), 300));
        clients.join().unwrap()
    });
    let status = kernel.status();
    assert_eq!(connected, 300);
    assert_eq!(packets(&status, "admitted"), 300, "{status:?}");
    assert_eq!(packets(&status, "admitted_over_rate"), 0);
    assert!(packets(&status, "over_rate") > 49_000, "{status:?}");
    assert_eq!(entries(&kernel, "ADMITTED"), 1, "nobody was evicted");
    let tracked = entries(&kernel, "SOURCES");
    assert!(
        tracked < 1_000,
        "{tracked} of a quarter of a million one-shot sources are tracked"
    );
    assert_eq!(status.top_sources[0].source.to_string(), "10.77.9.9");
}

#[test]
fn denied_and_trusted_prefixes_can_change_at_any_time() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let mut settings = settings(KernelMode::Enforce);
    let (kernel, _sockets) = started(&pair.gate, &settings, &[GATE4]);
    admit(&kernel, "10.77.0.2", 600);
    assert!(pair.client.connects("10.77.0.2", to(GATE4)));
    settings.deny = vec!["10.77.0.2/31".parse().unwrap()];
    settings.trusted_proxies = vec!["10.77.0.4".parse().unwrap()];
    kernel.set_parameters(&settings).unwrap();
    until("the denied source has lost its entry", DEADLINE, || {
        (entries(&kernel, "ADMITTED") == 0).then_some(())
    });
    assert!(!pair.client.connects("10.77.0.2", to(GATE4)));
    assert!(!pair.client.connects("10.77.0.3", to(GATE4)));
    assert_eq!(
        pair.client.connected("10.77.0.4", to(GATE4), 30),
        30,
        "trusted"
    );
    kernel.admitted(MonotonicNs::now(), "10.77.0.2".parse().unwrap(), 600);
    until("a denied source is not entered", DEADLINE, || {
        (kernel.status().admitted.denied == 2).then_some(())
    });
    settings.deny.clear();
    kernel.set_parameters(&settings).unwrap();
    assert!(pair.client.connects("10.77.0.3", to(GATE4)));
}

#[test]
fn a_listener_on_all_addresses_guards_those_the_host_has_and_gets() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let _socket = drain(pair.gate.listen("[::]:8443"));
    let (kernel, faults) = start(&pair.gate, &settings(KernelMode::Enforce), &["[::]:8443"]);
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(
        pair.client.connected("10.77.0.2", to(GATE4), BURST + 1),
        BURST
    );
    assert_eq!(
        pair.client.connected("fd77::2", to(GATE6), BURST + 1),
        BURST
    );
    let before = entries(&kernel, "LISTENERS");
    pair.gate
        .ip(&["address", "add", "10.77.1.1/16", "dev", INTERFACE]);
    until("the new address is guarded", DEADLINE, || {
        (entries(&kernel, "LISTENERS") == before + 1).then_some(())
    });
    let added = to("10.77.1.1:8443");
    assert_eq!(pair.client.connected("10.77.0.3", added, BURST + 1), BURST);
    pair.gate
        .ip(&["address", "del", "10.77.1.1/16", "dev", INTERFACE]);
    until("the old address is forgotten", DEADLINE, || {
        (entries(&kernel, "LISTENERS") == before).then_some(())
    });
}

#[test]
fn status_and_detach_reach_a_running_gate() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (kernel, _sockets) = started(&pair.gate, &settings(KernelMode::Enforce), &[GATE4]);
    pair.client.connected("10.77.0.2", to(GATE4), BURST + 1);
    let found = pair.gate.run(gate::kernel::status).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].status.mode, "enforce");
    assert_eq!(found[0].status.interfaces[0].state, InterfaceState::Native);
    assert!(packets(&found[0].status, "over_rate") > 0);
    assert!(
        pair.client.run(gate::kernel::status).is_err(),
        "not from elsewhere"
    );
    let done = pair.gate.run(gate::kernel::detach).unwrap();
    assert!(matches!(done[..], [Detached::ByGate { .. }]), "{done:?}");
    assert!(!pair.gate.carries_program(INTERFACE));
    assert!(pair.client.connects("10.77.0.2", to(GATE4)));
    assert_eq!(state(&kernel), InterfaceState::Detached);
    assert!(
        pair.gate.run(gate::kernel::status).is_ok(),
        "it goes on answering"
    );
}

#[test]
fn missing_capabilities_are_named_and_nothing_else_is_lost() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let settings = settings(KernelMode::Enforce);
    let (kernel, faults) = pair.gate.run(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective = CapabilitySet::empty();
        sets.permitted = CapabilitySet::empty();
        sets.inheritable = CapabilitySet::empty();
        set_capabilities(None, sets).unwrap();
        Kernel::start(&settings, &[to(GATE4)])
    });
    let [fault @ KernelError::MissingCapabilities { missing, .. }] = &faults[..] else {
        panic!("{faults:?}");
    };
    assert_eq!(missing, &["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"]);
    assert_eq!(fault.severity(), Severity::Degraded);
    let status = kernel.status();
    assert!(!status.loaded);
    assert_eq!(status.interfaces[0].state, InterfaceState::NotAttached);
    assert!(status.faults[0].contains("CAP_BPF"), "{:?}", status.faults);
    // The rate on requests works without the kernel.
    let now = MonotonicNs::now();
    let ip = "10.77.0.2".parse().unwrap();
    let allowed = (0..20)
        .filter(|_| kernel.source_rate().charge(now, ip) == gate::kernel::SourceCharge::Allowed)
        .count();
    assert_eq!(allowed, BURST);
}

#[test]
fn off_loads_nothing() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (kernel, faults) = start(&pair.gate, &settings(KernelMode::Off), &[GATE4]);
    assert!(faults.is_empty(), "{faults:?}");
    assert!(!pair.gate.carries_program(INTERFACE));
    kernel.admitted(MonotonicNs::now(), "10.77.0.2".parse().unwrap(), 60);
    assert!(!kernel.status().loaded);
    assert!(pair.gate.run(gate::kernel::status).is_err());
    kernel.stop();
}

#[test]
fn a_full_map_of_sessions_takes_nobody_and_loses_nobody() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let mut settings = settings(KernelMode::Enforce);
    settings.map_sizes = MapSizes::new(64, 64).unwrap();
    let (kernel, _sockets) = started(&pair.gate, &settings, &[GATE4]);
    admit(&kernel, "10.77.0.2", 600);
    for host in 0_u8..200 {
        kernel.admitted(MonotonicNs::now(), [10, 99, 0, host].into(), 600);
    }
    until("the rest is counted", DEADLINE, || {
        (kernel.status().admitted.full == 137).then_some(())
    });
    assert_eq!(entries(&kernel, "ADMITTED"), 64);
    assert_eq!(pair.client.connected("10.77.0.2", to(GATE4), 30), 30);
}
