//! `cargo xtask ci`: what has to pass before a change lands. Each step is a command that can be run alone; the first
//! failure ends the run.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::{run, tidy};

pub(crate) fn run(root: &Path) -> Result<()> {
    let mut times = Vec::new();
    let mut step = |name: &'static str, work: &dyn Fn() -> Result<()>| -> Result<()> {
        println!("\n==> {name}");
        let begun = Instant::now();
        work().with_context(|| name.to_owned())?;
        times.push((name, begun.elapsed().as_secs()));
        Ok(())
    };
    step("format", &|| {
        run::checked(run::cargo(root).args(["fmt", "--all", "--check"]))
    })?;
    step("lints", &|| {
        run::checked(run::cargo(root).args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    step("tidy", &|| tidy::run(root))?;
    step("test", &|| run::checked(&mut xtask(root, &["test"])?))?;
    step("demo", &|| {
        run::checked(&mut xtask(root, &["demo", "--once"])?)
    })?;
    println!("\nall passed");
    for (name, seconds) in times {
        println!("  {name:<8} {seconds:>5} s");
    }
    Ok(())
}

/// One of our own commands, as its own process: its output and its failures stay its own.
fn xtask(root: &Path, words: &[&str]) -> Result<Command> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command.args(words).current_dir(root);
    Ok(command)
}
