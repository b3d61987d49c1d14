//! Session traffic: each request of an admitted visitor with its ticket opened, decided and renewed, against nginx and
//! HAProxy as plain reverse proxies in front of the same origin.

use anyhow::{Result, ensure};

use super::gate::{Gate, Users, first_cookie};
use super::haproxy::Haproxy;
use super::http;
use super::lab::{Case, Lab, Scope, Shape, Target};
use super::load::{Connections, Requests};
use super::nginx::Nginx;
use super::process::Cpus;
use super::report::{CPU_US_PER_REQUEST, P99_MS, Ratio, Suite};

/// Sessions that take turns.
const SESSIONS: u32 = 512;
/// Well below what any subject reaches, so that latency is not a queue.
const FIXED_RATE_REQUESTS_PER_SECOND: u32 = 5000;

const RATIOS: [Ratio; 3] = [
    Ratio {
        figure: CPU_US_PER_REQUEST,
        to: "nginx",
        name: "cpu_ratio_to_nginx",
    },
    Ratio {
        figure: CPU_US_PER_REQUEST,
        to: "haproxy",
        name: "cpu_ratio_to_haproxy",
    },
    Ratio {
        figure: P99_MS,
        to: "nginx",
        name: "p99_ratio_to_nginx",
    },
];

/// # Errors
///
/// Where a subject does not start or answers something else than the origin.
pub(super) fn run(lab: &mut Lab) -> Result<Suite> {
    let dir = lab.fresh_dir("proxy")?;
    let origin = Nginx::origin(&dir, Cpus::Load)?;
    let nginx = Nginx::proxy(&dir, origin.address, Cpus::Subject)?;
    let haproxy = Haproxy::proxy(&dir, origin.address, Cpus::Subject)?;
    let gate = Gate::start(
        "proxy-gate",
        lab,
        origin.address,
        Users::ManyMore,
        Cpus::Subject,
    )?;
    let cookies = gate.cookies("/1k", SESSIONS, &dir.join("cookies"))?;
    let cookie = first_cookie(&cookies)?;

    let mut subjects = vec![
        ("gate", gate.address, gate.process.ids()),
        ("nginx", nginx.address, nginx.process.ids()),
        ("haproxy", haproxy.address, haproxy.process.ids()),
    ];
    if lab.effort.scope == Scope::Everything {
        subjects.push(("origin", origin.address, origin.process.ids()));
    }
    let mut cases = Vec::new();
    for (name, path, shape) in shapes(lab.effort.scope) {
        let mut targets = Vec::new();
        for (subject, address, ids) in &subjects {
            let answer = http::get(*address, path, &[("Cookie", &cookie)])?;
            ensure!(
                answer.status == 200,
                "{subject} answered {} to {path}",
                answer.status
            );
            targets.push(Target {
                subject: (*subject).to_owned(),
                ids: ids.clone(),
                requests: Requests {
                    address: *address,
                    path: path.to_owned(),
                    headers: Vec::new(),
                    cookies: Some(cookies.clone()),
                    answer_bytes: answer.bytes_total,
                },
            });
        }
        cases.push(Case {
            name: name.to_owned(),
            shape,
            targets,
        });
    }
    let rounds = lab.run_cases(&cases)?;
    let quiet = lab.quiet_note();
    let note = "Every request carries a session cookie; the gate opens it, decides and renews it, nginx and HAProxy pass it on. \
        One worker each, on a processor of its own; origin and load share the other. Latency is comparable in the fixed-rate case only.";
    Ok(rounds.suite("proxy", &RATIOS, vec![note.to_owned(), quiet]))
}

fn shapes(scope: Scope) -> Vec<(&'static str, &'static str, Shape)> {
    let kept = |connections| Shape::ClosedLoop {
        kind: Connections::Kept,
        connections,
    };
    let fixed = Shape::FixedRate {
        requests_per_second: FIXED_RATE_REQUESTS_PER_SECOND,
        connections: 64,
    };
    let single = Shape::ClosedLoop {
        kind: Connections::OnePerRequest,
        connections: 64,
    };
    let mut shapes = vec![
        ("1KiB-64", "/1k", kept(64)),
        ("64KiB-64", "/64k", kept(64)),
        ("1KiB-fixed-rate", "/1k", fixed),
    ];
    if scope == Scope::Everything {
        shapes.push(("1KiB-512", "/1k", kept(512)));
        shapes.push(("64KiB-512", "/64k", kept(512)));
        shapes.push(("1KiB-connection-per-request", "/1k", single));
    }
    shapes
}
