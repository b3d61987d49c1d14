//! Waiters that poll a full room, each with its ticket opened, decided and sealed anew, against the cheapest ways to answer
//! the same bytes (nginx `return 200`, HAProxy `http-request return`) and to refuse a visitor with them (nginx `limit_req`,
//! HAProxy with a stick table).

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::gate::{Gate, Users, first_cookie};
use super::haproxy::Haproxy;
use super::http;
use super::lab::{Case, Lab, Scope, Shape, Target};
use super::load::{Connections, Requests};
use super::nginx::{Nginx, Page};
use super::process::Cpus;
use super::report::{CPU_US_PER_REQUEST, Ratio, Suite};

/// Waiting visitors that take turns.
const WAITERS: u32 = 4096;
const FIXED_RATE_REQUESTS_PER_SECOND: u32 = 5000;

const RATIOS: [Ratio; 4] = [
    Ratio {
        figure: CPU_US_PER_REQUEST,
        to: "nginx-return",
        name: "cpu_ratio_to_nginx_return",
    },
    Ratio {
        figure: CPU_US_PER_REQUEST,
        to: "nginx-limit-req",
        name: "cpu_ratio_to_nginx_limit_req",
    },
    Ratio {
        figure: CPU_US_PER_REQUEST,
        to: "haproxy-return",
        name: "cpu_ratio_to_haproxy_return",
    },
    Ratio {
        figure: CPU_US_PER_REQUEST,
        to: "haproxy-stick-table",
        name: "cpu_ratio_to_haproxy_stick_table",
    },
];

/// One kind of answer.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    accept: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "page",
        accept: "text/html",
    },
    Kind {
        name: "json",
        accept: "application/json",
    },
];

/// # Errors
///
/// Where a subject does not start or does not answer the same bytes.
pub(super) fn run(lab: &mut Lab) -> Result<Suite> {
    let dir = lab.fresh_dir("waiting")?;
    let origin = Nginx::origin(&dir, Cpus::Load)?;
    let gate = Gate::start(
        "waiting-gate",
        lab,
        origin.address,
        Users::AtMost(1),
        Cpus::Subject,
    )?;
    // The first visitor fills the room; everyone after it waits.
    gate.cookies("/1k", 1, &dir.join("admitted"))?;
    let cookies = gate.cookies("/1k", WAITERS, &dir.join("cookies"))?;

    let mut cases = Vec::new();
    // Subjects live until the last case has run.
    let mut running = Vec::new();
    let mut notes = Vec::new();
    for kind in KINDS {
        let (rivals, bytes) = Rivals::start(kind, &dir, gate.address, &cookies)?;
        notes.push(format!("One {} answer is {bytes} bytes.", kind.name));
        for (name, shape) in shapes(kind, lab.effort.scope) {
            let requests = |address: SocketAddr, path: &str| Requests {
                address,
                path: path.to_owned(),
                headers: vec![("Accept".to_owned(), kind.accept.to_owned())],
                cookies: Some(cookies.clone()),
                answer_bytes: bytes,
            };
            let target = |subject: &str, ids: Vec<u32>, requests: Requests| Target {
                subject: subject.to_owned(),
                ids,
                requests,
            };
            let (nginx, haproxy) = (&rivals.nginx, &rivals.haproxy);
            cases.push(Case {
                name,
                shape,
                targets: vec![
                    target("gate", gate.process.ids(), requests(gate.address, "/1k")),
                    target(
                        "nginx-return",
                        nginx.process.ids(),
                        requests(nginx.address, "/page"),
                    ),
                    target(
                        "nginx-limit-req",
                        nginx.process.ids(),
                        requests(nginx.address, "/refuse"),
                    ),
                    target(
                        "haproxy-return",
                        haproxy.process.ids(),
                        requests(haproxy.address, "/page"),
                    ),
                    target(
                        "haproxy-stick-table",
                        haproxy.process.ids(),
                        requests(haproxy.address, "/refuse"),
                    ),
                ],
            });
        }
        running.push(rivals);
    }
    let rounds = lab.run_cases(&cases)?;
    notes.push(lab.quiet_note());
    Ok(rounds.suite("waiting", &RATIOS, notes))
}

fn shapes(kind: Kind, scope: Scope) -> Vec<(String, Shape)> {
    let name = |suffix: &str| format!("{}-{suffix}", kind.name);
    let kept = |connections| Shape::ClosedLoop {
        kind: Connections::Kept,
        connections,
    };
    let mut shapes = vec![(name("64"), kept(64))];
    if scope == Scope::Everything {
        shapes.push((name("512"), kept(512)));
        shapes.push((
            name("fixed-rate"),
            Shape::FixedRate {
                requests_per_second: FIXED_RATE_REQUESTS_PER_SECOND,
                connections: 64,
            },
        ));
        shapes.push((
            name("connection-per-request"),
            Shape::ClosedLoop {
                kind: Connections::OnePerRequest,
                connections: 64,
            },
        ));
    }
    shapes
}

/// nginx and HAProxy with an answer of the same length as the gate's.
#[derive(Debug)]
struct Rivals {
    nginx: Nginx,
    haproxy: Haproxy,
}

impl Rivals {
    /// Starts them once to see how long their head is, then again with a cookie that makes up the difference.
    fn start(kind: Kind, dir: &Path, gate: SocketAddr, cookies: &Path) -> Result<(Self, usize)> {
        let cookie = first_cookie(cookies)?;
        let (cookie_name, _) = cookie.split_once('=').context("a cookie without a name")?;
        let headers = [("Accept", kind.accept), ("Cookie", cookie.as_str())];
        let ours = http::get(gate, "/1k", &headers)?;
        ensure!(
            ours.header("set-cookie").is_some(),
            "the gate sealed no ticket for a waiting visitor"
        );
        let content_type = ours
            .header("content-type")
            .context("an answer without a type")?;
        ensure!(
            content_type.starts_with(kind.accept),
            "the gate answered {content_type} where {} was asked for",
            kind.accept
        );
        let body: Vec<u8> = ours.body.iter().map(|&byte| harmless(byte)).collect();
        let mut page = Page {
            body: &body,
            content_type,
            cookie_bytes: 1,
            cookie_name,
        };
        let bytes = ours.bytes_total;

        let nginx_head = http::get(
            Nginx::pages("nginx-probe", dir, &page)?.address,
            "/page",
            &headers,
        )?
        .bytes_total;
        let haproxy_probe = Haproxy::pages("haproxy-probe", dir, &page)?;
        let haproxy_head = http::get(haproxy_probe.address, "/page", &headers)?.bytes_total;
        drop(haproxy_probe);

        page.cookie_bytes = 1 + bytes.saturating_sub(nginx_head);
        let nginx = Nginx::pages(&format!("nginx-{}", kind.name), dir, &page)?;
        page.cookie_bytes = 1 + bytes.saturating_sub(haproxy_head);
        let haproxy = Haproxy::pages(&format!("haproxy-{}", kind.name), dir, &page)?;
        // nginx lets each cookie through once.
        http::get(nginx.address, "/refuse", &headers)?;
        for (address, path) in [
            (nginx.address, "/refuse"),
            (nginx.address, "/page"),
            (haproxy.address, "/refuse"),
            (haproxy.address, "/page"),
        ] {
            let theirs = http::get(address, path, &headers)?;
            ensure!(
                theirs.status == 200 && theirs.bytes_total == bytes,
                "{path} answered {} with {} bytes, not {bytes}",
                theirs.status,
                theirs.bytes_total
            );
        }
        Ok((Self { nginx, haproxy }, bytes))
    }
}

/// What no configuration language reads; the length stays.
fn harmless(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() || byte == b' ' {
        byte
    } else {
        b'.'
    }
}
