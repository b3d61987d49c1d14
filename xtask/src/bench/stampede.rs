//! Newcomers by the thousand at a full room: what admitted visitors notice. One request in ten is an admitted visitor's, at a
//! rate of its own, so that its latency is not the load's own queue.

use anyhow::Result;

use super::gate::{Gate, Users, first_cookie};
use super::http;
use super::lab::{Lab, progress};
use super::load::{Background, Connections, Outcome, Rate, Requests, fixed_rate};
use super::measure;
use super::nginx::Nginx;
use super::process::Cpus;
use super::report::{P50_MS, P99_MS, Ratio, Rounds, Sample, Suite};

const ADMITTED_USERS: u32 = 64;
const ADMITTED_REQUESTS_PER_SECOND: u32 = 2000;
const NEWCOMERS_REQUESTS_PER_SECOND: u32 = 9 * ADMITTED_REQUESTS_PER_SECOND;
/// Of newcomers at once where they come as fast as they can.
const NEWCOMERS: u32 = 256;
/// The admitted visitors' load goes first on the processor that all load shares: what is measured is the gate.
const ADMITTED_NICENESS: i32 = -15;
/// Newcomers start before the measurement and end after it.
const LEAD_SECONDS: f64 = 3.0;

const RATIOS: [Ratio; 1] = [Ratio {
    figure: P99_MS,
    to: "gate",
    name: "p99_ratio_to_no_newcomers",
}];

/// Who else comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crowd {
    Nobody,
    /// Nine requests of newcomers for each of an admitted visitor.
    NineInTen,
    /// As many as the processor carries, each on a connection of its own.
    Saturating,
}

/// # Errors
///
/// Where the gate does not start or does not answer as expected.
pub(super) fn run(lab: &mut Lab) -> Result<Suite> {
    let dir = lab.fresh_dir("stampede")?;
    let origin = Nginx::origin(&dir, Cpus::LoadFirst)?;
    let gate = Gate::start(
        "stampede-gate",
        lab,
        origin.address,
        Users::AtMost(ADMITTED_USERS),
        Cpus::Subject,
    )?;
    let cookies = gate.cookies("/1k", ADMITTED_USERS, &dir.join("cookies"))?;
    let cookie = first_cookie(&cookies)?;
    let admitted = http::get(gate.address, "/1k", &[("Cookie", &cookie)])?;
    let queued = http::get(gate.address, "/1k", &[])?;
    let requests = |cookies, answer_bytes| Requests {
        address: gate.address,
        path: "/1k".to_owned(),
        headers: vec![("Accept".to_owned(), "text/html".to_owned())],
        cookies,
        answer_bytes,
    };
    let admitted = requests(Some(cookies), admitted.bytes_total);
    let newcomers = requests(None, queued.bytes_total);

    let mut rounds = Rounds::default();
    for round in 0..lab.effort.rounds {
        for (subject, crowd) in [
            ("gate", Crowd::Nobody),
            ("gate+newcomers", Crowd::NineInTen),
            ("gate+saturating-newcomers", Crowd::Saturating),
        ] {
            progress(&format!(
                "stampede: round {} of {}: {subject}",
                round + 1,
                lab.effort.rounds
            ));
            lab.settle();
            let sample = measure_admitted(lab, &gate, &admitted, &newcomers, crowd)?;
            rounds.record("admitted-p99", subject, round, sample);
        }
    }
    let note = format!(
        "Admitted visitors: {ADMITTED_USERS} connections, {ADMITTED_REQUESTS_PER_SECOND} requests/s. Newcomers: {NEWCOMERS_REQUESTS_PER_SECOND} \
         requests/s, or {NEWCOMERS} at once, each request on a connection of its own. The gate has one processor."
    );
    let quiet = lab.quiet_note();
    Ok(rounds.suite("stampede", &RATIOS, vec![note, quiet]))
}

fn measure_admitted(
    lab: &Lab,
    gate: &Gate,
    admitted: &Requests,
    newcomers: &Requests,
    crowd: Crowd,
) -> Result<Sample> {
    let seconds = lab.effort.seconds;
    let crowd_seconds = seconds + LEAD_SECONDS;
    let background = match crowd {
        Crowd::Nobody => None,
        Crowd::NineInTen => {
            let rate = Rate {
                requests_per_second: NEWCOMERS_REQUESTS_PER_SECOND,
                connections: NEWCOMERS,
                seconds: crowd_seconds,
                niceness: 0,
            };
            Some(Background::fixed_rate(newcomers, rate, &lab.dir)?)
        }
        Crowd::Saturating => {
            let one = Connections::OnePerRequest;
            Some(Background::closed_loop(
                newcomers,
                one,
                NEWCOMERS,
                crowd_seconds,
                &lab.dir,
            )?)
        }
    };
    if background.is_some() {
        // Connections of the crowd are staggered; they are all there after this.
        std::thread::sleep(std::time::Duration::from_secs_f64(LEAD_SECONDS - 0.3));
    }
    let ids = gate.process.ids();
    let busy_before = measure::cpu_nanoseconds(&ids)?;
    let begun = std::time::Instant::now();
    let rate = Rate {
        requests_per_second: ADMITTED_REQUESTS_PER_SECOND,
        connections: ADMITTED_USERS,
        seconds,
        niceness: ADMITTED_NICENESS,
    };
    let outcome: Outcome = fixed_rate(admitted, rate, &lab.dir)?;
    let busy = measure::cpu_nanoseconds(&ids)? - busy_before;
    Ok(vec![
        (P50_MS, outcome.p50_milliseconds),
        (P99_MS, outcome.p99_milliseconds),
        ("admitted_requests", outcome.requests as f64),
        ("failed_requests", outcome.failed as f64),
        (
            "gate_busy_percent",
            busy as f64 / 1e7 / begun.elapsed().as_secs_f64(),
        ),
    ])
}
