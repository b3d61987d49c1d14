//! `gate simulate`: its arguments and what it prints.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use super::scenario::{Scenario, ScenarioError};
use super::{StrategyName, html, run, table};

/// Plays a world of data centers, gates and visitors, and compares ways to split one limit.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A built-in scenario (uneven-workers, spike-from-low, anywhere-128, flash-sale, follow-the-sun, counter-outage) or a
    /// TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub scenario: String,
    /// Only this strategy; without it, all on the same arrivals
    #[arg(long, value_enum)]
    pub strategy: Option<StrategyName>,
    /// Equal seeds give equal results
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the figures as JSON: one object with a strategy, else one object by strategy
    #[arg(long)]
    pub json: bool,
    /// Write a report with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Why nothing was simulated.
#[derive(Debug)]
pub enum SimulateError {
    /// The scenario cannot be played: a bad command line.
    Scenario(ScenarioError),
    Print(io::Error),
    Write {
        file: PathBuf,
        error: io::Error,
    },
}

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(error) => error.fmt(f),
            Self::Print(_) => f.write_str("the figures cannot be printed"),
            Self::Write { file, .. } => write!(f, "{}: cannot be written", file.display()),
        }
    }
}

impl std::error::Error for SimulateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Scenario(error) => error.source(),
            Self::Print(error) | Self::Write { error, .. } => Some(error),
        }
    }
}

/// Runs the command and prints to `out`.
pub fn execute(args: &Args, out: &mut impl Write) -> Result<(), SimulateError> {
    let scenario = Scenario::load(&args.scenario).map_err(SimulateError::Scenario)?;
    let strategies: Vec<StrategyName> = match args.strategy {
        Some(strategy) if args.html.is_none() => vec![strategy],
        Some(_) | None => StrategyName::ALL.to_vec(),
    };
    let mut runs = Vec::new();
    for strategy in strategies {
        runs.push(run(&scenario, strategy, args.seed).map_err(SimulateError::Scenario)?);
    }
    if let Some(file) = &args.html {
        std::fs::write(file, html::render(&scenario, args.seed, &runs)).map_err(|error| {
            SimulateError::Write {
                file: file.clone(),
                error,
            }
        })?;
    }
    let text = if args.json {
        json(args.strategy, &runs).map_err(|error| SimulateError::Print(error.into()))?
    } else {
        table::render(&scenario, args.seed, &runs)
    };
    writeln!(out, "{}", text.trim_end()).map_err(SimulateError::Print)
}

fn json(strategy: Option<StrategyName>, runs: &[super::Run]) -> Result<String, serde_json::Error> {
    let Some(strategy) = strategy else {
        let all: std::collections::BTreeMap<_, _> = runs
            .iter()
            .map(|run| (run.strategy, &run.outcome))
            .collect();
        return serde_json::to_string(&all);
    };
    let index = StrategyName::ALL.iter().position(|s| *s == strategy);
    let run = match runs {
        [only] => Some(only),
        all => index.and_then(|index| all.get(index)),
    };
    serde_json::to_string(&run.map(|run| &run.outcome))
}
