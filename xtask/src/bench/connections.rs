//! Memory of an idle kept-alive connection: the process's share of memory with and without many of them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::gate::{Gate, Users, first_cookie};
use super::haproxy::Haproxy;
use super::http::Client;
use super::lab::{Lab, Scope, progress};
use super::measure::pss_kib;
use super::nginx::Nginx;
use super::process::Cpus;
use super::report::{Rounds, Suite};

const CONNECTIONS_MAX: u64 = 10_000;
/// Files the benchmark needs beside its connections.
const OTHER_FILES: u64 = 200;
/// After the last request: what a subject gives back once a connection has been idle for a while, it has given back.
const IDLE: Duration = Duration::from_secs(4);
/// In the full benchmark; one connection after the other takes its time.
const ROUNDS_MAX: u32 = 3;

/// # Errors
///
/// Where a subject does not start, or does not answer or keep a connection.
pub(super) fn run(lab: &mut Lab) -> Result<Suite> {
    let dir = lab.fresh_dir("connections")?;
    let origin = Nginx::origin(&dir, Cpus::Load)?;
    let count = connections()?;
    let rounds_max = match lab.effort.scope {
        Scope::Everything => ROUNDS_MAX,
        Scope::Essentials => 1,
    };
    let mut rounds = Rounds::default();
    for round in 0..rounds_max {
        // A subject that has served before has memory to reuse, so each round has new ones.
        progress(&format!("connections: round {} of {rounds_max}", round + 1));
        let gate = Gate::start(
            "connections-gate",
            lab,
            origin.address,
            Users::AtMost(1),
            Cpus::Subject,
        )?;
        let cookies = gate.cookies("/1k", 1, &dir.join("cookies"))?;
        let cookie = first_cookie(&cookies)?;
        let waiting = Gate::start(
            "connections-waiting",
            lab,
            origin.address,
            Users::AtMost(1),
            Cpus::Subject,
        )?;
        waiting.cookies("/1k", 1, &dir.join("cookies"))?;
        let waiter = first_cookie(&waiting.cookies("/1k", 1, &dir.join("cookies"))?)?;
        let nginx = Nginx::proxy(&dir, origin.address, Cpus::Subject)?;
        let haproxy = Haproxy::proxy(&dir, origin.address, Cpus::Subject)?;
        for (case, subject, address, ids, cookie) in [
            ("proxied", "gate", gate.address, gate.process.ids(), &cookie),
            (
                "proxied",
                "nginx",
                nginx.address,
                nginx.process.ids(),
                &cookie,
            ),
            (
                "proxied",
                "haproxy",
                haproxy.address,
                haproxy.process.ids(),
                &cookie,
            ),
            (
                "waiting",
                "gate",
                waiting.address,
                waiting.process.ids(),
                &waiter,
            ),
        ] {
            let start = pss_kib(&ids);
            let held = hold(address, cookie, count)
                .with_context(|| format!("{subject} with {count} connections"))?;
            std::thread::sleep(IDLE);
            let full = pss_kib(&ids);
            drop(held);
            let bytes = full.saturating_sub(start) as f64 * 1024.0 / count as f64;
            let sample = vec![
                ("connections", count as f64),
                ("bytes_per_connection", bytes),
                ("pss_without_kib", start as f64),
                ("pss_with_kib", full as f64),
            ];
            rounds.record(case, subject, round, sample);
        }
    }
    let note = "One request on each connection, one after the other; then all are idle for four seconds. The kernel's own memory is not in it.";
    Ok(rounds.suite("connections", &[], vec![note.to_owned()]))
}

/// As many as this process may open, once its own limit is as high as it can be.
fn connections() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let highest = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, highest).context("cannot raise the limit of open files")?;
    let files = limit.maximum.unwrap_or(u64::MAX);
    let count = CONNECTIONS_MAX.min(files.saturating_sub(OTHER_FILES));
    ensure!(count > 0, "only {files} open files are allowed");
    Ok(count)
}

fn hold(address: SocketAddr, cookie: &str, count: u64) -> Result<Vec<Client>> {
    (0..count)
        .map(|_| {
            let mut client = Client::connect(address)?;
            let answer = client.get("/1k", &[("Cookie", cookie), ("Accept", "text/html")])?;
            ensure!(answer.status == 200, "answered {}", answer.status);
            Ok(client)
        })
        .collect()
}
