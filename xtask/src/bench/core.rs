//! What a decision and a ticket cost without sockets: runs the gate's example `core_bench`.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::lab::{Lab, Scope, progress};
use super::process::{Cpus, run as run_to_end};
use super::report::{Rounds, Suite};
use crate::run;

/// The figures the example prints.
const FIGURES: [&str; 3] = ["nanoseconds", "bytes", "decisions_per_second"];

/// # Errors
///
/// Where the example does not build or fails.
pub(super) fn run(lab: &mut Lab, root: &Path) -> Result<Suite> {
    run::checked(run::cargo(root).args([
        "build",
        "--release",
        "--package",
        "gate",
        "--example",
        "core_bench",
    ]))?;
    let example = root.join("target/release/examples/core_bench");
    let (rounds, operations) = match lab.effort.scope {
        Scope::Everything => (lab.effort.rounds, "1000000"),
        Scope::Essentials => (lab.effort.rounds.min(2), "200000"),
    };
    let mut collected = Rounds::default();
    for round in 0..rounds {
        for what in ["time", "session-bytes", "waiter-bytes"] {
            progress(&format!("core: round {} of {rounds}: {what}", round + 1));
            lab.settle();
            let mut command = Cpus::Any.command(&example.display().to_string());
            let printed = run_to_end(command.args([what, &round.to_string(), operations]))?;
            for line in printed.lines() {
                record(&mut collected, line)
                    .with_context(|| format!("core_bench printed {line:?}"))?;
            }
        }
    }
    let note = "Every check-in counts and comes from another visitor, 50,000 a second of simulated time. Bytes are resident memory.";
    let quiet = lab.quiet_note();
    Ok(collected.suite("core", &[], vec![note.to_owned(), quiet]))
}

fn record(rounds: &mut Rounds, line: &str) -> Result<()> {
    let value: Value = serde_json::from_str(line)?;
    let text = |key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .with_context(|| format!("no {key}"))
    };
    let round = value
        .get("round")
        .and_then(Value::as_u64)
        .context("no round")?;
    let measured = value
        .get("value")
        .and_then(Value::as_f64)
        .context("no value")?;
    let name = text("figure")?;
    let name = FIGURES
        .into_iter()
        .find(|known| *known == name)
        .context("unknown figure")?;
    rounds.record(
        text("case")?,
        "gate",
        u32::try_from(round)?,
        vec![(name, measured)],
    );
    Ok(())
}
