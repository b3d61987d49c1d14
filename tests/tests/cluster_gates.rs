//! Two data centers of two gates each, in network namespaces, with a Redis each; the second reaches the counter of all over a
//! relay that takes 30 ms each way. Real gates, real visitors, and every failure that a cluster has to live through.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![allow(clippy::print_stdout, reason = "says what was measured")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gate::simulate::{Scenario, StrategyName, arrivals, run};
use gate_tests::http::Visitor;
use gate_tests::process::Process;
use gate_tests::redis::Redis;
use gate_tests::relay::Relay;
use gate_tests::{DEADLINE, Need, Nginx, Stopwatch, need, until};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const NEEDS: [Need; 4] = [
    Need::Command("redis-server"),
    Need::Command("nginx"),
    Need::Command("ip"),
    Need::Root,
];
const HOST: &str = "shop.test";
const FAR: Duration = Duration::from_millis(30);

fn ip(words: &str) {
    let output = Command::new(need::command("ip").unwrap())
        .args(words.split(' '))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words}: {error}");
}

/// A namespace with one wire to the test's own.
struct Namespace {
    name: String,
    outside: Ipv4Addr,
    inside: Ipv4Addr,
}

impl Namespace {
    fn new(number: u8) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let id = std::process::id();
        let name = format!("gatetest{id}-{made}");
        let third = u8::try_from((id + made * 7) % 250).unwrap();
        let outside = Ipv4Addr::new(10, 213 + number, third, 1);
        let inside = Ipv4Addr::new(10, 213 + number, third, 2);
        let wire = format!("gt{}x{made}", id % 1_000_000);
        ip(&format!("netns add {name}"));
        ip(&format!(
            "link add {wire} type veth peer name inside netns {name}"
        ));
        ip(&format!("addr add {outside}/24 dev {wire}"));
        ip(&format!("link set {wire} up"));
        ip(&format!("-n {name} addr add {inside}/24 dev inside"));
        ip(&format!("-n {name} link set inside up"));
        ip(&format!("-n {name} link set lo up"));
        Self {
            name,
            outside,
            inside,
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The wire goes with it.
        ip(&format!("netns del {}", self.name));
    }
}

struct Gate {
    process: Process,
    address: SocketAddr,
    admin: SocketAddr,
}

/// Dropped in this order: gates first, namespaces last.
struct Cluster {
    gates: Vec<Gate>,
    /// Of the first data center; the counter of all; of the second.
    redis: Vec<Redis>,
    relay: Relay,
    _origins: Vec<Relay>,
    _nginx: Nginx,
    _folder: TempDir,
    _namespaces: Vec<Namespace>,
}

fn at(address: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(address), port)
}

impl Cluster {
    fn start(total: u32, per_minute: u32) -> Self {
        let nginx = Nginx::start();
        let namespaces = vec![Namespace::new(0), Namespace::new(1)];
        let near = namespaces[0].outside;
        let redis: Vec<Redis> = [near, near, namespaces[1].outside]
            .map(|address| {
                Redis::start_at(
                    at(address, gate_tests::ports::free()),
                    &["--protected-mode", "no"],
                )
            })
            .into();
        let relay = Relay::start(at(namespaces[1].outside, 0), redis[1].address(), FAR);
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        let mut gates = Vec::new();
        let mut origins = Vec::new();
        for (center, namespace) in namespaces.iter().enumerate() {
            let origin = Relay::start(at(namespace.outside, 0), nginx.address(), Duration::ZERO);
            let (local, global) = match center {
                0 => (redis[0].address(), redis[1].address()),
                _ => (redis[2].address(), relay.address()),
            };
            for number in 0..2_u16 {
                let address = at(namespace.inside, 8000 + number);
                let admin = at(namespace.inside, 9000 + number);
                let gate_number = center as u16 * 2 + number;
                let text = format!(
                    r#"
                    listen = ["{address}"]
                    admin = "{admin}"
                    origin = "http://{}"
                    key_file = "{}"
                    [cluster]
                    data_center = "dc{center}"
                    gate = "dc{center}-{number}"
                    gate_number = {gate_number}
                    gates_max = 4
                    redis_url = "redis://{global}"
                    data_center_redis_url = "redis://{local}"
                    publish_interval_ms = 250
                    counter_timeout_ms = 200
                    gate_absent_seconds = 1
                    [[rooms]]
                    name = "shop"
                    host = "{HOST}"
                    path = "/"
                    total_active_users = {total}
                    new_users_per_minute = {per_minute}
                    session_duration = 2
                    refresh_interval_seconds = 1
                    json_response_enabled = true
                    "#,
                    origin.address(),
                    keys.display(),
                );
                let file = folder.path().join(format!("gate-{gate_number}.toml"));
                std::fs::write(&file, text).unwrap();
                let file = file.display().to_string();
                let binary = gate_tests::gate::binary().display().to_string();
                let words = [
                    "netns",
                    "exec",
                    &namespace.name,
                    &binary,
                    "serve",
                    "--threads",
                    "1",
                    "--config",
                    &file,
                ];
                let process = Process::start(&need::command("ip").unwrap(), &words);
                gates.push(Gate {
                    process,
                    address,
                    admin,
                });
                if gate_number == 0 {
                    // It makes the keys that the others read.
                    until("the keys", DEADLINE, || keys.exists().then_some(()));
                }
            }
            origins.push(origin);
        }
        let mut cluster = Self {
            gates,
            redis,
            relay,
            _origins: origins,
            _nginx: nginx,
            _folder: folder,
            _namespaces: namespaces,
        };
        for gate in &mut cluster.gates {
            until("a gate accepts", DEADLINE, || {
                assert!(gate.process.is_running(), "{}", gate.process.log());
                std::net::TcpStream::connect(gate.address).ok()
            });
        }
        cluster
    }

    fn visitor(&self, gate: usize) -> Visitor {
        Visitor::new(self.gates[gate].address, HOST).json()
    }

    /// Active users as each gate believes.
    fn believed(&self, gate: usize) -> Option<u64> {
        let admin = self.gates[gate].admin;
        let response = Visitor::new(admin, "admin")
            .request("GET", "/status", b"")
            .ok()?;
        let status: Value = response.json();
        let text = status.to_string();
        let key = "\"active_users\":";
        let from = text.find(key)? + key.len();
        let digits: String = text[from..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().ok()
    }

    fn believes(&self, gates: &[usize], users: u64) {
        until(&format!("gates {gates:?} count {users}"), DEADLINE, || {
            let counts: Vec<_> = gates.iter().map(|gate| self.believed(*gate)).collect();
            counts
                .iter()
                .all(|count| *count == Some(users))
                .then_some(())
        });
    }
}

/// One request: whether the visitor is in. Anything but the origin's page or the line is a failure.
#[track_caller]
fn is_in(visitor: &mut Visitor) -> bool {
    let begun = Stopwatch::start();
    let response = visitor.get("/");
    assert_eq!(response.status, 200, "{}", response.text());
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    let text = response.text();
    let waits = text.contains("cfWaitingRoom");
    assert!(waits || text.contains("the origin"), "{text}");
    !waits
}

/// New visitors at these gates in turn: how many got in.
#[track_caller]
fn newcomers(cluster: &Cluster, gates: &[usize], count: usize) -> usize {
    (0..count)
        .filter(|number| is_in(&mut cluster.visitor(gates[number % gates.len()])))
        .count()
}

#[test]
fn real_gates_do_as_the_simulated_ones() {
    if !need::all(&NEEDS) {
        return;
    }
    const SEED: u64 = 5;
    let text = r#"
        name = "replay"
        total_active_users = 60
        new_users_per_minute = 60
        session_duration_seconds = 120
        duration_seconds = 25
        refresh_interval_seconds = 1
        publish_interval_ms = 250
        [[data_centers]]
        name = "dc0"
        gates = 2
        gate_weights = [3.0, 1.0]
        [[data_centers]]
        name = "dc1"
        gates = 2
        gate_weights = [1.0, 2.0]
        anywhere_ms = 60.0
        [[traffic]]
        shape = "steady"
        data_center = "dc0"
        visitors = 50
        to_seconds = 20
        [[traffic]]
        shape = "steady"
        data_center = "dc1"
        visitors = 40
        to_seconds = 20
    "#;
    let scenario = Scenario::parse(text, "replay", std::path::Path::new(".")).unwrap();
    let simulated = run(&scenario, StrategyName::Counter, SEED).unwrap().outcome;
    let cluster = Cluster::start(60, 60);
    let begun = Stopwatch::start();
    let visits: Vec<_> = arrivals::of(&scenario, SEED)
        .unwrap()
        .into_iter()
        .map(|arrival| {
            let gate = usize::from(arrival.data_center * 2 + arrival.gate);
            let mut visitor = cluster.visitor(gate);
            thread::spawn(move || {
                let at = Duration::from_millis(arrival.at_ms);
                thread::sleep(at.saturating_sub(begun.elapsed()));
                let asked = Stopwatch::start();
                (is_in(&mut visitor), asked.elapsed())
            })
        })
        .collect();
    let visits: Vec<_> = visits
        .into_iter()
        .map(|visit| visit.join().unwrap())
        .collect();
    let admitted = visits.iter().filter(|(is_in, _)| *is_in).count() as u64;
    let queued = visits.len() as u64 - admitted;
    println!("simulated {simulated:?}; real: {admitted} admitted, {queued} queued");
    assert_eq!(simulated.admitted, 60, "seed {SEED}");
    assert!(admitted <= 60, "above the limit: {admitted}");
    assert!(
        admitted.abs_diff(simulated.admitted) <= 1,
        "seed {SEED}: {admitted}"
    );
    assert!(
        queued.abs_diff(simulated.queued) <= 1,
        "seed {SEED}: {queued}"
    );
    cluster.believes(&[0, 1, 2, 3], admitted);
}

#[test]
fn a_place_holds_at_every_gate_and_the_order_is_that_of_arrival() {
    if !need::all(&NEEDS) {
        return;
    }
    let cluster = Cluster::start(4, 4);
    assert_eq!(newcomers(&cluster, &[0, 1, 2, 3], 4), 4, "one at each gate");
    let mut line = Vec::new();
    for gate in [3, 0, 2, 1] {
        let mut visitor = cluster.visitor(gate);
        assert!(!is_in(&mut visitor));
        line.push(visitor);
        // The order is to the second.
        thread::sleep(Duration::from_millis(1300));
    }
    // Each at another gate than the one it came to.
    for (expected, (visitor, gate)) in line.iter().zip([0, 1, 3, 2]).enumerate() {
        let mut moved = cluster.visitor(gate);
        *moved.cookies_mut() = visitor.cookies().clone();
        let position = until("its position", DEADLINE, || {
            let position = moved.get("/").position();
            thread::sleep(Duration::from_millis(300));
            (position == Some(expected as u64 + 1)).then_some(position)
        });
        println!("{expected}: {position:?}");
    }
    // Somebody who is in is in everywhere, and counts once.
    cluster.believes(&[0, 1, 2, 3], 4);
}

#[test]
fn limits_hold_through_every_failure() {
    if !need::all(&NEEDS) {
        return;
    }
    const LIMIT: usize = 100;
    let mut cluster = Cluster::start(LIMIT as u32, LIMIT as u32);
    let begun = Stopwatch::start();
    let all = [0, 1, 2, 3];
    let mut inside: Vec<Visitor> = Vec::new();
    for number in 0..20 {
        let mut visitor = cluster.visitor(number % 4);
        assert!(is_in(&mut visitor), "there are slots");
        inside.push(visitor);
    }
    let mut admitted = 20;
    cluster.believes(&all, 20);

    // The counter of all is slow for the second data center: no longer than the timeout, and no error.
    cluster.relay.set_delay(Duration::from_millis(700));
    admitted += newcomers(&cluster, &[2, 3], 6);
    admitted += newcomers(&cluster, &[0, 1], 4);
    cluster.relay.set_delay(FAR);

    // Cut off: active users do not notice, new ones get what the data center holds.
    cluster.relay.cut();
    admitted += newcomers(&cluster, &[2, 3], 6);
    admitted += newcomers(&cluster, &[0, 1], 4);
    for visitor in &mut inside {
        assert!(is_in(visitor), "an active user needs no counter");
    }
    cluster.relay.mend();
    until("the second data center admits again", DEADLINE, || {
        let more = newcomers(&cluster, &[2], 1);
        admitted += more;
        (more == 1).then_some(())
    });
    cluster.believes(&all, admitted as u64);
    println!(
        "{admitted} in after slow and cut off, {:?}",
        begun.elapsed()
    );

    // A frozen gate goes on where it was.
    cluster.gates[1].process.signal(Signal::STOP);
    thread::sleep(Duration::from_secs(3));
    admitted += newcomers(&cluster, &[0, 2, 3], 6);
    cluster.gates[1].process.signal(Signal::CONT);
    admitted += newcomers(&cluster, &[1], 2);
    cluster.believes(&all, admitted as u64);
    println!("{admitted} in after a freeze, {:?}", begun.elapsed());

    // Gone, then back and empty.
    let address = cluster.redis[1].address();
    cluster.redis[1].process().kill();
    admitted += newcomers(&cluster, &all, 12);
    for visitor in &mut inside {
        assert!(is_in(visitor), "an active user needs no counter");
    }
    cluster.redis[1] = Redis::start_at(address, &["--protected-mode", "no"]);
    cluster.believes(&all, admitted as u64);
    println!(
        "{admitted} in after the counter came back empty, {:?}",
        begun.elapsed()
    );

    // A gate dies; what it had is held for its visitors, who go on elsewhere.
    cluster.gates[3].process.kill();
    for visitor in &mut inside {
        let mut moved = cluster.visitor(0);
        *moved.cookies_mut() = visitor.cookies().clone();
        assert!(is_in(&mut moved), "a session holds at every gate");
    }
    let left = [0, 1, 2];
    cluster.believes(&left, admitted as u64);

    // Whatever is left of the limit can still be had, by those who wait for it, and not one more.
    let mut waiting: Vec<Visitor> = (0..64).map(|n| cluster.visitor(left[n % 3])).collect();
    let rest = Stopwatch::start();
    while admitted < LIMIT && rest.elapsed() < Duration::from_secs(12) {
        let before = waiting.len();
        waiting.retain_mut(|visitor| !is_in(visitor));
        admitted += before - waiting.len();
        thread::sleep(Duration::from_millis(900));
    }
    println!("{admitted} of {LIMIT} in at the end, {:?}", begun.elapsed());
    assert!(
        begun.elapsed() < Duration::from_secs(110),
        "nobody's session ended meanwhile"
    );
    assert!(admitted <= LIMIT, "{admitted} got in");
    // Leases are slots as well: one at each gate that is left.
    assert!(admitted >= LIMIT - 3, "{admitted} got in");
}
