//! What all suites share: the folder they write into, how much time they take, and the measurement of one HTTP subject.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::load::{self, Connections, Outcome, Rate, Requests};
use super::measure::{self, OtherLoad};
use super::report::{
    CPU_US_PER_REQUEST, P50_MS, P99_MS, REQUESTS_PER_SECOND, RSS_KIB, Rounds, Sample,
};

/// How long a suite measures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub rounds: u32,
    /// Of one measurement.
    pub seconds: f64,
    /// How long a measurement waits for other work on the machine to end.
    pub quiet_seconds_max: u32,
    /// Whether cases that only add detail are left out.
    pub scope: Scope,
}

/// Which cases run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Everything,
    Essentials,
}

impl Effort {
    pub(super) const FULL: Self = Self {
        rounds: 5,
        seconds: 4.0,
        quiet_seconds_max: 10,
        scope: Scope::Everything,
    };
    /// All suites together in less than three minutes.
    pub(super) const QUICK: Self = Self {
        rounds: 3,
        seconds: 1.0,
        quiet_seconds_max: 1,
        scope: Scope::Essentials,
    };
}

/// The bench.
#[derive(Debug)]
pub(super) struct Lab {
    /// Everything the benchmark writes is below this folder.
    pub dir: PathBuf,
    pub effort: Effort,
    /// The gate to measure.
    pub gate: PathBuf,
    /// What measures the kernel program by itself; `None` where it is not built.
    pub(super) kernel_tool: Option<PathBuf>,
    other_cpus: Vec<f64>,
}

/// How clients ask.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    ClosedLoop {
        kind: Connections,
        connections: u32,
    },
    FixedRate {
        requests_per_second: u32,
        connections: u32,
    },
}

/// One subject in one case.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub subject: String,
    /// Whose processor time and memory counts.
    pub ids: Vec<u32>,
    pub requests: Requests,
}

/// The same load on several subjects.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub name: String,
    pub shape: Shape,
    pub targets: Vec<Target>,
}

impl Lab {
    pub(super) fn new(dir: PathBuf, effort: Effort, gate: PathBuf) -> Self {
        Self {
            dir,
            effort,
            gate,
            kernel_tool: None,
            other_cpus: Vec::new(),
        }
    }

    /// A folder of its own for `name`, empty.
    ///
    /// # Errors
    ///
    /// Where it cannot be made.
    pub(super) fn fresh_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir)
                .with_context(|| format!("cannot empty {}", dir.display()))?;
        }
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(dir)
    }

    /// Waits for a quiet machine and remembers how quiet it was.
    pub(super) fn settle(&mut self) {
        let OtherLoad { cpus_at_start } = measure::wait_for_quiet(self.effort.quiet_seconds_max);
        self.other_cpus.push(cpus_at_start);
    }

    /// A sentence on other work seen since the last call.
    pub(super) fn quiet_note(&mut self) -> String {
        let mut seen = std::mem::take(&mut self.other_cpus);
        seen.sort_by(f64::total_cmp);
        let median = seen.get(seen.len() / 2).copied().unwrap_or(0.0);
        let most = seen.last().copied().unwrap_or(0.0);
        format!(
            "Other work when a measurement began: median {median:.2} processors, at most {most:.2}; {} rounds of {} s.",
            self.effort.rounds, self.effort.seconds
        )
    }

    /// Measures all cases, subjects interleaved and their order rotating from round to round.
    ///
    /// # Errors
    ///
    /// Where a subject does not answer as expected.
    pub(super) fn run_cases(&mut self, cases: &[Case]) -> Result<Rounds> {
        let mut rounds = Rounds::default();
        let mut warm: Vec<(&str, &str)> = Vec::new();
        for case in cases {
            for target in &case.targets {
                let key = (target.subject.as_str(), target.requests.path.as_str());
                if self.effort.scope == Scope::Everything || !warm.contains(&key) {
                    progress(&format!("{}: warm-up: {}", case.name, target.subject));
                    self.measure(case.shape, target, 1.0)?;
                    warm.push(key);
                }
            }
            for round in 0..self.effort.rounds {
                for step in 0..case.targets.len() {
                    let index = (step + round as usize) % case.targets.len();
                    let Some(target) = case.targets.get(index) else {
                        continue;
                    };
                    progress(&format!(
                        "{}: round {} of {}: {}",
                        case.name,
                        round + 1,
                        self.effort.rounds,
                        target.subject
                    ));
                    self.settle();
                    let sample = self.measure(case.shape, target, self.effort.seconds)?;
                    rounds.record(&case.name, &target.subject, round, sample);
                }
            }
        }
        Ok(rounds)
    }

    fn measure(&self, shape: Shape, target: &Target, seconds: f64) -> Result<Sample> {
        let before = measure::cpu_nanoseconds(&target.ids)?;
        let outcome = self
            .load(shape, &target.requests, seconds)
            .with_context(|| format!("measuring {}", target.subject))?;
        let after = measure::cpu_nanoseconds(&target.ids)?;
        ensure!(
            outcome.failed * 1000 <= outcome.requests,
            "{}: {} of {} requests failed",
            target.subject,
            outcome.failed,
            outcome.requests
        );
        Ok(vec![
            (
                CPU_US_PER_REQUEST,
                (after - before) as f64 / 1e3 / outcome.requests as f64,
            ),
            (
                REQUESTS_PER_SECOND,
                outcome.requests as f64 / outcome.seconds,
            ),
            (P50_MS, outcome.p50_milliseconds),
            (P99_MS, outcome.p99_milliseconds),
            (RSS_KIB, measure::rss_kib(&target.ids) as f64),
        ])
    }

    fn load(&self, shape: Shape, requests: &Requests, seconds: f64) -> Result<Outcome> {
        match shape {
            Shape::ClosedLoop { kind, connections } => {
                load::closed_loop(requests, kind, connections, seconds, &self.dir)
            }
            Shape::FixedRate {
                requests_per_second,
                connections,
            } => {
                let rate = Rate {
                    requests_per_second,
                    connections,
                    seconds,
                    niceness: 0,
                };
                load::fixed_rate(requests, rate, &self.dir)
            }
        }
    }
}

/// One line on standard error, so that a long run can be watched and standard output stays clean.
pub(super) fn progress(line: &str) {
    // Without a standard error there is nobody to watch.
    writeln!(io::stderr(), "bench: {line}").ok();
}

/// A file that is written whole.
///
/// # Errors
///
/// Where it cannot be written.
pub(super) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
