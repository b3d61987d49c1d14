//! `cargo xtask bench`: the gate beside what people run today, on this machine, interleaved. Figures of different runs or
//! machines are not comparable; the ratios inside one run are what counts.

mod connections;
mod core;
mod flood;
mod gate;
mod haproxy;
mod http;
mod lab;
mod load;
mod measure;
mod namespace;
mod nginx;
pub(crate) mod packets;
mod process;
mod proxy;
mod report;
mod stampede;
mod waiting;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use lab::{Effort, Lab};
use report::Suite;

use crate::{run as command, setup};

/// What to measure and how.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Shorter and fewer measurements: all suites in less than three minutes, once everything is built
    #[arg(long)]
    quick: bool,
    /// Only this suite; may be given several times
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<SuiteName>,
    /// Prints JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Measures this executable instead of building one
    #[arg(long, value_name = "PATH")]
    gate: Option<PathBuf>,
    /// Rounds of each measurement
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SuiteName {
    /// Admitted visitors' requests, against nginx and HAProxy as plain reverse proxies
    Proxy,
    /// Waiting visitors' polls, against fixed answers and refusals of the same bytes
    Waiting,
    /// Admitted visitors' latency while newcomers storm a full room
    Stampede,
    /// SYNs from one and many sources, against nftables and no filter
    Flood,
    /// What a decision and a ticket cost without sockets
    Core,
    /// Memory of an idle connection
    Connections,
}

/// Installs what is missing, builds the gate, measures and prints.
///
/// # Errors
///
/// Where a program cannot be installed, built or started, or answers something else than what is to be measured.
pub(crate) fn run(root: &Path, args: &BenchArgs) -> Result<()> {
    setup::ensure(&setup::FOR_BENCH)?;
    let gate = match &args.gate {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("no gate at {}", path.display()))?,
        None => build_gate(root)?,
    };
    let mut effort = if args.quick {
        Effort::QUICK
    } else {
        Effort::FULL
    };
    effort.rounds = args.rounds.unwrap_or(effort.rounds);
    let dir = root.join("target").join("bench");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut lab = Lab::new(dir, effort, gate);

    let mut suites = Vec::new();
    for name in SuiteName::value_variants() {
        if !args.suites.is_empty() && !args.suites.contains(name) {
            continue;
        }
        let suite = run_suite(*name, &mut lab, root).with_context(|| format!("suite {name:?}"))?;
        if !args.json {
            write!(io::stdout(), "{}", report::table(&suite))?;
        }
        suites.push(suite);
    }
    if args.json {
        writeln!(io::stdout(), "{}", report::json(&suites))?;
    }
    Ok(())
}

fn run_suite(name: SuiteName, lab: &mut Lab, root: &Path) -> Result<Suite> {
    match name {
        SuiteName::Proxy => proxy::run(lab),
        SuiteName::Waiting => waiting::run(lab),
        SuiteName::Stampede => stampede::run(lab),
        SuiteName::Flood => flood::run(lab),
        SuiteName::Core => core::run(lab, root),
        SuiteName::Connections => connections::run(lab),
    }
}

/// The release build, which takes minutes the first time.
fn build_gate(root: &Path) -> Result<PathBuf> {
    command::checked(command::cargo(root).args(["build", "--release", "--package", "gate"]))?;
    Ok(root.join("target/release/gate"))
}
