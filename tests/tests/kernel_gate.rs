//! The whole gate with its kernel part, as a process in a namespace of its own, nginx behind it and clients in another namespace.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::net::SocketAddr;
use std::path::Path;

use gate_tests::gate::binary;
use gate_tests::http::{Connection, Response, Visitor};
use gate_tests::netns::{INTERFACE, Namespace, Pair};
use gate_tests::{DEADLINE, Need, Nginx, Process, need, until};
use serde_json::Value;
use tempfile::TempDir;

const NEEDS: [Need; 5] = [
    Need::Root,
    Need::KernelObject,
    Need::Command("ip"),
    Need::Command("nginx"),
    Need::Command("setpriv"),
];
const HOST: &str = "shop.test";
const BURST: usize = 8;

fn gate_address() -> SocketAddr {
    SocketAddr::from(([10, 77, 0, 1], 8443))
}

fn admin_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9000))
}

/// A gate in a namespace. It ends with this.
struct Gate<'a> {
    namespace: &'a Namespace,
    process: Process,
    folder: TempDir,
}

/// Three visitors at once, and after a burst of eight one new user per source and minute.
fn configuration(kernel: &str) -> String {
    format!(
        "listen = [\"0.0.0.0:8443\"]
origin = \"http://127.0.0.1:8080\"
admin = \"127.0.0.1:9000\"

[kernel]
source_rate_per_minute = 1
source_burst = {BURST}
{kernel}

[[rooms]]
name = \"shop\"
host = \"{HOST}\"
total_active_users = 3
new_users_per_minute = 3
json_response_enabled = true
"
    )
}

fn on_wire(mode: &str) -> String {
    configuration(&format!(
        "mode = \"{mode}\"\ninterfaces = [\"{INTERFACE}\"]"
    ))
}

impl<'a> Gate<'a> {
    fn start(namespace: &'a Namespace, configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("gate.toml"), configuration).unwrap();
        let mut gate = Self {
            namespace,
            process: spawn(namespace, folder.path()),
            folder,
        };
        gate.serves();
        gate
    }

    /// Started after a kill, in the same folder.
    fn start_again(&mut self) {
        self.process = spawn(self.namespace, self.folder.path());
        self.serves();
    }

    fn serves(&mut self) {
        self.process.line("it listens", |line| {
            line.contains("listening on").then_some(())
        });
    }

    fn status(&self) -> Value {
        let (code, out, error) = gate_kernel(self.namespace, &["status", "--json"]);
        assert_eq!(code, 0, "{error}");
        serde_json::from_str(out.lines().next().unwrap()).unwrap()
    }
}

fn spawn(namespace: &Namespace, folder: &Path) -> Process {
    let ip = need::command("ip").unwrap();
    let gate = binary().display().to_string();
    let words = [
        "netns",
        "exec",
        namespace.name(),
        &gate,
        "serve",
        "--config",
        "gate.toml",
    ];
    Process::start_with(&ip, &words, |command| {
        command.current_dir(folder);
    })
}

/// Runs `gate kernel` in a namespace.
fn gate_kernel(namespace: &Namespace, words: &[&str]) -> (i32, String, String) {
    let output = std::process::Command::new("ip")
        .args(["netns", "exec", namespace.name()])
        .arg(binary())
        .arg("kernel")
        .args(words)
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn admitted_entries(status: &Value) -> u64 {
    let maps = status["maps"].as_array().unwrap();
    let found = maps.iter().find(|map| map["name"] == "ADMITTED").unwrap();
    found["entries"].as_u64().unwrap()
}

fn packets(status: &Value, reason: &str) -> u64 {
    let reasons = status["reasons"].as_array().unwrap();
    let found = reasons.iter().find(|found| found["reason"] == reason);
    found.map_or(0, |found| found["packets"].as_u64().unwrap())
}

/// The sample of a metric by its name and labels, as the admin endpoint inside tells it.
fn sample(namespace: &Namespace, name: &str) -> Option<u64> {
    let text = namespace.run(|| {
        Visitor::new(admin_address(), "admin")
            .get("/metrics")
            .text()
    });
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

/// A request without a cookie on a connection that stays open.
fn ask_without_ticket(connection: &mut Connection) -> Response {
    let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nAccept: application/json\r\n\r\n");
    connection.send(request.as_bytes()).unwrap();
    connection.receive().unwrap()
}

#[test]
fn who_holds_a_session_connects_freely_and_who_floods_does_not() {
    if !need::all(&NEEDS) {
        return;
    }
    let pair = Pair::new();
    let _origin = Nginx::start_in(&pair.gate);
    let gate = Gate::start(&pair.gate, &on_wire("enforce"));
    assert_eq!(gate.status()["interfaces"][0]["state"], "native");
    let mut visitor = Visitor::new(gate_address(), HOST);
    let first = pair.client.run(|| visitor.get("/"));
    assert_eq!((first.status, first.text().as_str()), (200, "the origin"));
    until("the visitor's source is known", DEADLINE, || {
        (admitted_entries(&gate.status()) == 1).then_some(())
    });
    // Far more connections than a stranger has, each with the session's cookie.
    pair.client.run(|| {
        for _ in 0..40 {
            assert_eq!(visitor.get("/").status, 200);
        }
    });
    assert_eq!(
        pair.client
            .connected("10.77.0.3", gate_address(), BURST + 2),
        BURST
    );
    assert_eq!(pair.client.connected("10.77.0.2", gate_address(), 20), 20);
    let status = gate.status();
    assert!(packets(&status, "admitted") >= 60, "{status}");
    assert_eq!(status["top_sources"][0]["source"], "10.77.0.3");
}

#[test]
fn metrics_count_packets_by_reason_and_say_how_interfaces_are_guarded() {
    if !need::all(&NEEDS) {
        return;
    }
    let pair = Pair::new();
    let _origin = Nginx::start_in(&pair.gate);
    let gate = Gate::start(
        &pair.gate,
        &on_wire("enforce").replace("[kernel]", "[kernel]\ndeny = [\"10.77.0.4\"]"),
    );
    let mut visitor = Visitor::new(gate_address(), HOST);
    assert_eq!(pair.client.run(|| visitor.get("/")).status, 200);
    until("the visitor's source is known", DEADLINE, || {
        (admitted_entries(&gate.status()) == 1).then_some(())
    });
    assert_eq!(pair.client.connected("10.77.0.2", gate_address(), 3), 3);
    let stranger = pair
        .client
        .connected("10.77.0.3", gate_address(), BURST + 1);
    assert_eq!(stranger, BURST);
    assert!(!pair.client.connects("10.77.0.4", gate_address()));
    let sample = |name: &str| sample(&pair.gate, name).unwrap_or_else(|| panic!("no {name}"));
    let packets = |reason: &str, verdict: &str| {
        sample(&format!(
            "gate_kernel_packets_total{{reason=\"{reason}\",verdict=\"{verdict}\"}}"
        ))
    };
    assert_eq!(packets("admitted", "pass"), 3);
    // The last of the stranger's, and what the denied one sent; a client gives up before it sends one again.
    assert_eq!(packets("over_rate", "refuse"), 1);
    assert_eq!(packets("denied", "refuse"), 1);
    assert_eq!(packets("learned", "pass"), 1);
    assert_eq!(packets("map_failed", "pass"), 0);
    for (name, expected) in [
        ("gate_kernel_mode{mode=\"enforce\"}", 1),
        ("gate_kernel_mode{mode=\"monitor\"}", 0),
        (
            "gate_kernel_interface_mode{interface=\"veth0\",mode=\"native\"}",
            1,
        ),
        (
            "gate_kernel_interface_mode{interface=\"veth0\",mode=\"gone\"}",
            0,
        ),
        ("gate_kernel_map_entries{map=\"ADMITTED\"}", 1),
        ("gate_kernel_map_entries{map=\"SOURCES\"}", 1),
        ("gate_kernel_map_entries{map=\"PREFIXES\"}", 1),
        ("gate_kernel_map_entries_limit{map=\"SOURCES\"}", 65_536),
        ("gate_kernel_admitted_unknown_total{cause=\"map_full\"}", 0),
        ("gate_kernel_requests_over_total", 0),
    ] {
        assert_eq!(sample(name), expected, "{name}");
    }
}

#[test]
fn metrics_of_the_kernel_part_are_empty_where_it_is_off() {
    if !need::all(&NEEDS) {
        return;
    }
    let namespace = Namespace::new("gate");
    let _gate = Gate::start(&namespace, &configuration("mode = \"off\""));
    assert_eq!(sample(&namespace, "gate_connections"), Some(0));
    assert_eq!(
        sample(&namespace, "gate_kernel_mode{mode=\"monitor\"}"),
        None
    );
}

#[test]
fn one_open_connection_mints_no_places() {
    if !need::all(&NEEDS) {
        return;
    }
    let pair = Pair::new();
    let _origin = Nginx::start_in(&pair.gate);
    let gate = Gate::start(&pair.gate, &on_wire("enforce"));
    let answers: Vec<Response> = pair.client.run(|| {
        let mut connection = Connection::open(gate_address()).unwrap();
        (0..20)
            .map(|_| ask_without_ticket(&mut connection))
            .collect()
    });
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses[..BURST], [200; BURST]);
    assert_eq!(statuses[BURST..], [429; 20 - BURST]);
    let refused = answers.last().unwrap();
    let seconds: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(refused.header("set-cookie"), None, "no place, no cookie");
    // Three entered and five wait: whoever comes from elsewhere is the sixth, not the eighteenth.
    let mut other = Visitor::new(gate_address(), HOST).json();
    let answer = pair.gate.run(|| other.get("/"));
    assert_eq!(answer.position(), Some(6), "{}", answer.text());
    assert_eq!(gate.status()["requests"]["refused"], 12);
}

#[test]
fn a_room_that_lets_all_pass_refuses_nobody() {
    if !need::all(&NEEDS) {
        return;
    }
    for keys in ["suspended = true", "queueing_method = \"passthrough\""] {
        let pair = Pair::new();
        let _origin = Nginx::start_in(&pair.gate);
        let configuration = format!("{}{keys}\n", on_wire("enforce"));
        let gate = Gate::start(&pair.gate, &configuration);
        let statuses: Vec<u16> = pair.client.run(|| {
            let mut connection = Connection::open(gate_address()).unwrap();
            let asked = (0..20).map(|_| ask_without_ticket(&mut connection).status);
            asked.collect()
        });
        assert_eq!(statuses, [200; 20], "{keys}");
        assert_eq!(gate.status()["requests"]["refused"], 0, "{keys}");
    }
}

#[test]
fn monitor_refuses_nobody() {
    if !need::all(&NEEDS) {
        return;
    }
    let pair = Pair::new();
    let _origin = Nginx::start_in(&pair.gate);
    let gate = Gate::start(&pair.gate, &on_wire("monitor"));
    let statuses: Vec<u16> = pair.client.run(|| {
        let mut connection = Connection::open(gate_address()).unwrap();
        let asked = (0..20).map(|_| ask_without_ticket(&mut connection).status);
        asked.collect()
    });
    assert_eq!(statuses, [200; 20]);
    assert_eq!(pair.client.connected("10.77.0.3", gate_address(), 20), 20);
    let status = gate.status();
    assert_eq!(status["requests"]["over"], 12);
    assert_eq!(status["requests"]["refused"], 0);
    assert_eq!(packets(&status, "over_rate"), 12);
}

/// What visitors get to see, without what differs from run to run.
fn conversation(pair: &Pair) -> Vec<String> {
    pair.client.run(|| {
        let mut seen = Vec::new();
        let mut visitors: Vec<Visitor> = (0..5)
            .map(|number| {
                let visitor = Visitor::new(gate_address(), HOST);
                if number % 2 == 0 {
                    visitor
                } else {
                    visitor.json()
                }
            })
            .collect();
        for round in 0..3 {
            for (number, visitor) in visitors.iter_mut().enumerate() {
                let answer = visitor.get("/some/path");
                let names: Vec<&str> = answer
                    .headers
                    .iter()
                    .map(|(name, _)| name.as_str())
                    .collect();
                let position = match answer.header("content-type") {
                    Some(kind) if kind.contains("json") => answer.position(),
                    _ => None,
                };
                seen.push(format!(
                    "{round} {number}: {} {position:?} {names:?} {:?}",
                    answer.status,
                    visitor.cookies().keys().collect::<Vec<_>>()
                ));
            }
        }
        let mut outside = Visitor::new(gate_address(), "elsewhere.test");
        let answer = outside.get("/");
        seen.push(format!("{} {}", answer.status, answer.text()));
        seen
    })
}

#[test]
fn visitors_see_no_difference_between_the_modes() {
    if !need::all(&NEEDS) {
        return;
    }
    let mut seen = Vec::new();
    for kernel in [
        "mode = \"off\"".to_owned(),
        "mode = \"enforce\"".to_owned(),
        format!("mode = \"monitor\"\ninterfaces = [\"{INTERFACE}\"]"),
        format!("mode = \"enforce\"\ninterfaces = [\"{INTERFACE}\"]\ndeny = [\"203.0.113.0/24\"]"),
    ] {
        let pair = Pair::new();
        let _origin = Nginx::start_in(&pair.gate);
        let _gate = Gate::start(&pair.gate, &configuration(&kernel));
        seen.push(conversation(&pair));
    }
    for other in &seen[1..] {
        assert_eq!(other, &seen[0]);
    }
}

#[test]
fn a_killed_gate_leaves_the_interface_clean_and_the_next_one_takes_over() {
    if !need::all(&NEEDS) {
        return;
    }
    let pair = Pair::new();
    let mut gate = Gate::start(&pair.gate, &on_wire("enforce"));
    assert!(pair.gate.carries_program(INTERFACE));
    gate.process.kill();
    until("the program is gone", DEADLINE, || {
        (!pair.gate.carries_program(INTERFACE)).then_some(())
    });
    gate.start_again();
    assert!(pair.gate.carries_program(INTERFACE));
    assert_eq!(gate.status()["interfaces"][0]["state"], "native");
    let ended = gate.process.stop();
    assert!(ended.success(), "{ended}");
    assert!(
        !pair.gate.carries_program(INTERFACE),
        "a stopped one as well"
    );
}

#[test]
fn without_privileges_it_says_what_is_missing_and_serves() {
    if !need::all(&NEEDS) {
        return;
    }
    let pair = Pair::new();
    let _origin = Nginx::start_in(&pair.gate);
    let ip = need::command("ip").unwrap();
    // Nobody may not be able to look into the folder of the build.
    let folder = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let copy = folder.path().join("gate");
    std::fs::copy(binary(), &copy).unwrap();
    let gate = copy.display().to_string();
    let words = [
        "netns",
        "exec",
        pair.gate.name(),
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        &gate,
        "serve",
        "--listen",
        "10.77.0.1:8443",
        "--origin",
        "http://127.0.0.1:8080",
        "--total-active-users",
        "5",
        "--new-users-per-minute",
        "5",
        "--interface",
        INTERFACE,
        "--xdp",
        "enforce",
    ];
    let mut process = Process::start_with(&ip, &words, |command| {
        command.current_dir("/");
    });
    process.line("it listens", |line| {
        line.contains("listening on").then_some(())
    });
    let log = process.log();
    for name in ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"] {
        assert!(log.contains(name), "{log}");
    }
    assert!(!pair.gate.carries_program(INTERFACE));
    let answer = pair
        .client
        .run(|| Visitor::new(gate_address(), HOST).get("/"));
    assert_eq!((answer.status, answer.text().as_str()), (200, "the origin"));
}

#[test]
fn the_running_gate_holds_no_capability_it_does_not_need() {
    if !need::all(&NEEDS) {
        return;
    }
    const NET_ADMIN: u64 = 1 << 12;
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON: u64 = 1 << 38;
    const BPF: u64 = 1 << 39;
    let pair = Pair::new();
    let _origin = Nginx::start_in(&pair.gate);
    let gate = Gate::start(&pair.gate, &on_wire("enforce"));
    let tasks = format!("/proc/{}/task", gate.process.id());
    let mut threads = 0;
    for task in std::fs::read_dir(tasks).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        for set in ["CapEff:", "CapPrm:", "CapBnd:", "CapInh:"] {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(set))
                .unwrap();
            let held = u64::from_str_radix(line.trim(), 16).unwrap();
            let left = held & (NET_ADMIN | SYS_ADMIN | PERFMON | BPF);
            assert_eq!(left, 0, "{set} {held:x}");
        }
        threads += 1;
    }
    assert!(threads >= 3, "{threads}");
    // And the maps are still written: a session is entered.
    assert_eq!(
        pair.client
            .run(|| Visitor::new(gate_address(), HOST).get("/"))
            .status,
        200
    );
    until("the visitor's source is known", DEADLINE, || {
        (admitted_entries(&gate.status()) == 1).then_some(())
    });
}

#[test]
fn an_interface_that_does_not_exist_is_refused_at_start() {
    if !need::all(&NEEDS) {
        return;
    }
    let namespace = Namespace::new("gate");
    let folder = tempfile::tempdir().unwrap();
    let text = configuration("mode = \"monitor\"\ninterfaces = [\"nowhere0\"]");
    std::fs::write(folder.path().join("gate.toml"), text).unwrap();
    let mut process = spawn(&namespace, folder.path());
    let ended = process.wait(DEADLINE);
    assert_eq!(ended.code(), Some(2), "{}", process.log());
    assert!(process.log().contains("nowhere0"), "{}", process.log());
}

#[test]
fn an_interface_that_goes_away_takes_nothing_with_it() {
    if !need::all(&NEEDS) {
        return;
    }
    let pair = Pair::new();
    let _origin = Nginx::start_in(&pair.gate);
    let gate = Gate::start(&pair.gate, &on_wire("enforce"));
    pair.gate.ip(&["link", "del", INTERFACE]);
    until("it is missed", DEADLINE, || {
        (gate.status()["interfaces"][0]["state"] == "gone").then_some(())
    });
    let local = SocketAddr::from(([127, 0, 0, 1], 8443));
    let answer = pair.gate.run(|| Visitor::new(local, HOST).get("/"));
    assert_eq!(answer.status, 200);
}

#[test]
fn status_and_detach_work_from_the_command_line() {
    if !need::all(&NEEDS) {
        return;
    }
    let pair = Pair::new();
    let _origin = Nginx::start_in(&pair.gate);
    let (code, _, error) = gate_kernel(&pair.gate, &["status"]);
    assert_ne!(code, 0);
    assert!(error.contains("no gate"), "{error}");
    let _gate = Gate::start(&pair.gate, &on_wire("enforce"));
    let (code, text, _) = gate_kernel(&pair.gate, &["status"]);
    assert_eq!(code, 0);
    for part in ["enforce", "veth0 native", "ADMITTED", "SOURCES"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let (code, _, error) = gate_kernel(&pair.gate, &["detach"]);
    assert_eq!(code, 0, "{error}");
    assert!(!pair.gate.carries_program(INTERFACE));
    assert_eq!(pair.client.connected("10.77.0.3", gate_address(), 20), 20);
    assert_eq!(
        pair.client
            .run(|| Visitor::new(gate_address(), HOST).get("/"))
            .status,
        200
    );
    // A second time there is nothing left to do.
    let (code, _, _) = gate_kernel(&pair.gate, &["detach"]);
    assert_eq!(code, 0);
}

#[test]
fn a_reload_changes_rates_and_prefixes_without_a_gap() {
    if !need::all(&NEEDS) {
        return;
    }
    let pair = Pair::new();
    let _origin = Nginx::start_in(&pair.gate);
    let gate = Gate::start(&pair.gate, &on_wire("enforce"));
    assert_eq!(
        pair.client
            .connected("10.77.0.3", gate_address(), BURST + 1),
        BURST
    );
    let changed = on_wire("monitor").replace("[kernel]", "[kernel]\ndeny = [\"203.0.113.0/24\"]");
    std::fs::write(gate.folder.path().join("gate.toml"), changed).unwrap();
    gate.process.signal(rustix::process::Signal::HUP);
    until("the mode has changed", DEADLINE, || {
        (gate.status()["mode"] == "monitor").then_some(())
    });
    assert!(pair.gate.carries_program(INTERFACE));
    assert_eq!(pair.client.connected("10.77.0.3", gate_address(), 5), 5);
}
