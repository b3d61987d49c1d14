//! `cargo xtask test`: sets a fresh machine up, builds the gate, runs every test and says at the end what ran and what did
//! not. A test that cannot run says why (see `gate_tests::need`); where `CI` is set it fails instead.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{build_ebpf, run, setup};

/// The profile of the tests and of the gate they start: assertions on, but fast enough for a million simulated visitors.
pub(crate) const PROFILE: &str = "verify";

#[derive(Debug, clap::Args)]
pub(crate) struct TestArgs {
    /// Only unit, property and documentation tests: no set-up, nothing started
    #[arg(long)]
    quick: bool,
    /// Passed to every test binary: a part of the names to run, or options of the test harness
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    filter: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &TestArgs) -> Result<()> {
    let begun = Instant::now();
    let mut report = Report::default();

    if args.quick {
        report.add(cargo_test(root, &UNIT, args, None)?);
        return report.conclude(begun);
    }

    prepare(root)?;
    let gate = build_gate(root)?;
    report.add(cargo_test(root, &UNIT, args, None)?);
    let skips = target_folder(root).join("skipped-tests");
    fs::write(&skips, "").with_context(|| format!("cannot write {}", skips.display()))?;
    report.add(cargo_test(root, &END_TO_END, args, Some((&gate, &skips)))?);
    report.skipped = fs::read_to_string(&skips)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    report.conclude(begun)
}

/// The machine's packages and the kernel object. What is missing fails where `CI` is set; elsewhere the tests that need it say
/// so and are skipped.
fn prepare(root: &Path) -> Result<()> {
    optional("packages", setup::ensure(&setup::FOR_TESTS))?;
    optional("the kernel object", build_ebpf::run(root))
}

fn optional(what: &str, outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if in_ci() => Err(error).with_context(|| what.to_owned()),
        Err(error) => {
            eprintln!("note: {what}: {error:#}; the tests that need it will be skipped");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Whether an unattended run asks for everything: `CI` is set and is not a word for no.
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// Builds the gate in the tests' profile and says where it is.
pub(crate) fn build_gate(root: &Path) -> Result<PathBuf> {
    run::checked(run::cargo(root).args(["build", "--profile", PROFILE, "--package", "gate"]))?;
    Ok(target_folder(root).join(PROFILE).join("gate"))
}

fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// One call of `cargo test`.
struct Suite {
    title: &'static str,
    words: &'static [&'static str],
}

const UNIT: Suite = Suite {
    title: "unit, property and documentation tests",
    words: &["--workspace", "--exclude", "gate-tests"],
};

const END_TO_END: Suite = Suite {
    title: "end-to-end tests",
    words: &["--package", "gate-tests"],
};

/// Runs one suite to its end, failures included, while counting.
fn cargo_test(
    root: &Path,
    suite: &Suite,
    args: &TestArgs,
    gate: Option<(&Path, &Path)>,
) -> Result<Outcome> {
    let begun = Instant::now();
    let mut command = run::cargo(root);
    command
        .args(["test", "--no-fail-fast", "--profile", PROFILE])
        .args(suite.words)
        .arg("--")
        .args(&args.filter)
        .stdout(Stdio::piped());
    if let Some((gate, skips)) = gate {
        command.env("GATE_BIN", gate).env("GATE_TEST_SKIPS", skips);
    }
    eprintln!("$ {}", run::line(&command));
    let mut child = command.spawn().context("cannot start cargo")?;
    let mut outcome = Outcome::new(suite.title);
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.context("cannot read what cargo prints")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            outcome.read(&line);
        }
    }
    let status = child.wait().context("cargo did not end")?;
    outcome.ok = status.success();
    outcome.seconds = begun.elapsed().as_secs();
    Ok(outcome)
}

/// What one call of `cargo test` came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    title: &'static str,
    ok: bool,
    passed: u32,
    failed: u32,
    seconds: u64,
    failures: Vec<String>,
}

impl Outcome {
    fn new(title: &'static str) -> Self {
        Self {
            title,
            ..Self::default()
        }
    }

    /// Takes up one line of the test harness's output.
    fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, " passed");
            self.failed += count(counts, " failed");
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failures.push(name.to_owned());
        }
    }
}

/// The number before `word`, 0 where there is none.
fn count(counts: &str, word: &str) -> u32 {
    counts
        .split(';')
        .filter_map(|part| part.trim_end().strip_suffix(word))
        .filter_map(|part| part.rsplit(' ').next())
        .find_map(|number| number.parse().ok())
        .unwrap_or(0)
}

#[derive(Debug, Default)]
struct Report {
    outcomes: Vec<Outcome>,
    /// One line for each skipped test: its name, and why.
    skipped: Vec<String>,
}

impl Report {
    fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// Prints the summary; fails where a suite did.
    fn conclude(self, begun: Instant) -> Result<()> {
        let seconds = begun.elapsed().as_secs();
        println!("\nsummary ({} min {:02} s)", seconds / 60, seconds % 60);
        for outcome in &self.outcomes {
            println!(
                "  {:<40} {:>5} passed {:>3} failed  ({} s)",
                outcome.title, outcome.passed, outcome.failed, outcome.seconds
            );
            for name in &outcome.failures {
                println!("    FAILED {name}");
            }
        }
        println!("  {:<40} {:>5}", "skipped", self.skipped.len());
        for line in &self.skipped {
            println!("    skipped {line}");
        }
        if in_ci() && !self.skipped.is_empty() {
            bail!("{} tests were skipped, and CI is set", self.skipped.len());
        }
        match self.outcomes.iter().find(|outcome| !outcome.ok) {
            Some(outcome) => bail!("{} failed", outcome.title),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_the_harness_prints() {
        let mut outcome = Outcome::new("t");
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test a::c ... FAILED",
            "test result: FAILED. 12 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.10s",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ] {
            outcome.read(line);
        }
        assert_eq!((outcome.passed, outcome.failed), (15, 1));
        assert_eq!(outcome.failures, ["a::c"]);
    }
}
