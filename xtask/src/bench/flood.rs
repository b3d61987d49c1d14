//! SYNs from one and from many sources: what one costs the receiving processor, and what the one admitted client notices,
//! with no filter, with nftables doing the same limit per source, and with the gate's own program.

use std::net::{SocketAddr, SocketAddrV4};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::gate::{Gate, GatePlan, Users, Xdp};
use super::lab::{Lab, Scope, progress};
use super::namespace::{
    self, CLIENT, Namespaces, SERVER, SERVER_ADDRESS, SERVER_INTERFACE, inside,
};
use super::nginx::Nginx;
use super::process::{Cpus, Process};
use super::report::{P50_MS, P99_MS, Ratio, Rounds, Sample, Spread, Suite};

const PORT: u16 = 8000;
const NANOSECONDS_PER_PACKET: &str = "cpu_nanoseconds_per_packet";
/// Visits of the admitted client while packets flow, in a second.
const VISITS_PER_SECOND: u32 = 50;
/// About what the sender reaches with its pauses.
const PACKETS_PER_SECOND: f64 = 150_000.0;
/// The gate's own default for a source without a session.
const SOURCE_RATE_PER_SECOND: u32 = 10;
const SOURCE_BURST: u32 = 120;

const RATIOS: [Ratio; 1] = [Ratio {
    figure: NANOSECONDS_PER_PACKET,
    to: "nftables",
    name: "cpu_ratio_to_nftables",
}];

/// What stands between the wire and the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Nothing,
    /// A dynamic set with a limit per source address, as early as a table of the `inet` family gets to see a packet.
    Nftables,
    /// The gate's program that passes everything.
    PassOnly,
    Gate,
}

impl Filter {
    const ALL: [Self; 4] = [Self::Nothing, Self::Nftables, Self::PassOnly, Self::Gate];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Nftables => "nftables",
            Self::PassOnly => "pass-only-xdp",
            Self::Gate => "gate",
        }
    }
}

/// # Errors
///
/// Where namespaces, programs or subjects do not come up.
pub(super) fn run(lab: &mut Lab) -> Result<Suite> {
    let cases: &[(&str, u32)] = match lab.effort.scope {
        Scope::Everything => &[
            ("1-source", 1),
            ("100-sources", 100),
            ("100000-sources", 100_000),
        ],
        Scope::Essentials => &[("1-source", 1), ("100-sources", 100)],
    };
    let count = match lab.effort.scope {
        Scope::Everything => lab.effort.rounds,
        Scope::Essentials => lab.effort.rounds.min(2),
    };
    let mut rounds = Rounds::default();
    let mut notes = Vec::new();
    let mut filters = Filter::ALL.to_vec();
    if lab.kernel_tool.is_none() {
        filters.retain(|filter| *filter != Filter::PassOnly);
        notes.push("The kernel part is not built.".to_owned());
    }
    for round in 0..count {
        for (case, sources) in cases {
            for filter in &filters {
                let name = filter.name();
                progress(&format!(
                    "flood: round {} of {count}: {case}, {name}",
                    round + 1
                ));
                let sample =
                    measure(lab, *filter, *sources).with_context(|| format!("{case}, {name}"))?;
                rounds.record(case, name, round, sample);
            }
            filters.rotate_left(1);
        }
    }
    notes.push(format!(
        "The limit is {SOURCE_RATE_PER_SECOND} SYNs/s per source with a burst of {SOURCE_BURST}. CPU is that of the receiving \
         interface's thread over the packets it took; a virtual cable copies each packet once more where a program is attached, \
         which the pass-only program shows. The admitted client makes {VISITS_PER_SECOND} connections/s."
    ));
    notes.push(lab.quiet_note());
    Ok(rounds.suite("flood", &RATIOS, notes))
}

fn measure(lab: &mut Lab, filter: Filter, sources: u32) -> Result<Sample> {
    let mut network = Namespaces::new()?;
    let dir = lab.fresh_dir("flood")?;
    let origin: SocketAddr = "127.0.0.1:8080".parse()?;
    let _origin = Nginx::origin_in(SERVER, origin, &dir)?;
    let target: SocketAddrV4 = format!("{SERVER_ADDRESS}:{PORT}").parse()?;
    let gate = Gate::start_with(
        lab,
        &GatePlan {
            name: "flood-gate",
            listen: SocketAddr::V4(target),
            origin,
            users: Users::ManyMore,
            cpus: Cpus::Subject,
            namespace: Some(SERVER),
            xdp: match filter {
                Filter::Gate => Xdp::Enforce(SERVER_INTERFACE),
                Filter::Nothing | Filter::Nftables | Filter::PassOnly => Xdp::Off,
            },
        },
    )?;
    let _attached = match filter {
        Filter::Nftables => {
            inside(SERVER, &["nft", &nftables_rules()])?;
            None
        }
        Filter::PassOnly => Some(attach_pass_only(lab)?),
        Filter::Nothing | Filter::Gate => None,
    };
    network.find_receive_thread()?;
    let cookie = visitor(target, None)?.output()?;
    ensure!(
        cookie.status.success(),
        "the visitor got no cookie: {}",
        String::from_utf8_lossy(&cookie.stderr)
    );
    let cookie = String::from_utf8_lossy(&cookie.stdout).trim().to_owned();
    lab.settle();

    let seconds = lab.effort.seconds.min(2.0);
    let packets = (PACKETS_PER_SECOND * seconds) as u64;
    let before = (
        network.receive_nanoseconds()?,
        network.packets_lost()?,
        network.segments_received()?,
    );
    let visits = visitor(
        target,
        Some((&cookie, (f64::from(VISITS_PER_SECOND) * seconds) as u32)),
    )?
    .stdout(Stdio::piped())
    .spawn()
    .context("cannot start the visitor")?;
    send(target, sources, packets)?;
    let after = (
        network.receive_nanoseconds()?,
        network.packets_lost()?,
        network.segments_received()?,
    );
    let visits = String::from_utf8_lossy(&visits.wait_with_output()?.stdout).into_owned();
    drop(gate);

    let received = packets.saturating_sub(after.1 - before.1);
    ensure!(received > 0, "no packet arrived");
    let mut sample = vec![
        (
            NANOSECONDS_PER_PACKET,
            (after.0 - before.0) as f64 / received as f64,
        ),
        ("packets_received", received as f64),
        (
            "passed_percent",
            100.0 * (after.2 - before.2) as f64 / received as f64,
        ),
    ];
    sample.extend(visitor_figures(&visits)?);
    Ok(sample)
}

fn nftables_rules() -> String {
    format!(
        "table inet guard {{ \
         set sources {{ type ipv4_addr; size 65536; flags dynamic,timeout; timeout 1m; }}; \
         chain early {{ type filter hook prerouting priority raw; policy accept; \
         tcp dport {PORT} tcp flags & (syn|ack) == syn \
         update @sources {{ ip saddr limit rate over {SOURCE_RATE_PER_SECOND}/second burst {SOURCE_BURST} packets }} drop; }}; }}"
    )
}

/// Keeps the pass-only program attached as long as the process lives.
fn attach_pass_only(lab: &Lab) -> Result<Process> {
    let Some(tool) = &lab.kernel_tool else {
        bail!("the kernel part is not built");
    };
    let mut command = namespace::command(SERVER, Cpus::Load, &tool.display().to_string());
    command.args(["attach-pass", SERVER_INTERFACE]);
    let mut process = Process::start("pass-only", command, &lab.dir.join("pass-only.log"))?;
    process.wait_for_log("attached")?;
    Ok(process)
}

/// This command again, as one of its hidden clients, in the clients' namespace.
fn client(cpus: Cpus, words: &[&str]) -> Result<Command> {
    let this = std::env::current_exe().context("no path to this command")?;
    let mut command = namespace::command(CLIENT, cpus, "chrt");
    // Ahead of the receive thread on the same processor: bursts arrive whole, and the thread then works in one go.
    let policy = match cpus {
        Cpus::Subject => ["--fifo", "1"],
        Cpus::Load | Cpus::LoadFirst | Cpus::Any => ["--other", "0"],
    };
    command
        .args(policy)
        .arg(this)
        .args(words)
        .stdin(Stdio::null());
    Ok(command)
}

fn send(target: SocketAddrV4, sources: u32, packets: u64) -> Result<()> {
    let (target, sources, packets) = (target.to_string(), sources.to_string(), packets.to_string());
    let words = [
        "bench-flood",
        "--target",
        &target,
        "--sources",
        &sources,
        "--packets",
        &packets,
    ];
    let output = client(Cpus::Subject, &words)?
        .output()
        .context("cannot start the flood")?;
    ensure!(
        output.status.success(),
        "the flood failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn visitor(target: SocketAddrV4, visits: Option<(&str, u32)>) -> Result<Command> {
    let target = target.to_string();
    let pause = (1000 / VISITS_PER_SECOND).to_string();
    let words = [
        "bench-visit",
        "--target",
        &target,
        "--pause-milliseconds",
        &pause,
    ];
    let mut command = client(Cpus::Load, &words)?;
    match visits {
        None => command.args(["--visits", "1"]),
        Some((cookie, count)) => command.args(["--cookie", cookie, "--visits", &count.to_string()]),
    };
    Ok(command)
}

fn visitor_figures(printed: &str) -> Result<Sample> {
    let all = printed.lines().count();
    let mut milliseconds: Vec<f64> = printed
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    ensure!(all > 0, "the visitor said nothing");
    milliseconds.sort_by(f64::total_cmp);
    let succeeded = 100.0 * milliseconds.len() as f64 / all as f64;
    let mut sample = vec![("visits_succeeded_percent", succeeded)];
    if let Some(spread) = Spread::of(&milliseconds) {
        let index = (milliseconds.len() * 99 / 100).min(milliseconds.len() - 1);
        sample.push((P50_MS, spread.median));
        sample.push((
            P99_MS,
            milliseconds.get(index).copied().unwrap_or(spread.max),
        ));
    }
    Ok(sample)
}
