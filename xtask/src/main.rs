//! Every development command of the project: `cargo xtask --help` lists them.
//!
//! Must not depend on gate or aya: a small command never waits for the world to be rebuilt.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "commands for people: the terminal is their output"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "waits for real processes and measures them; nothing here is simulated"
)]

mod bench;
mod build_ebpf;
mod child;
mod ci;
mod demo;
mod package;
mod run;
mod setup;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Development commands of gate")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Builds the kernel object that gate embeds, after setting up what the BPF target needs
    BuildEbpf,
    /// Shows a waiting room at work: a small shop, a gate, and visitors who want in
    Demo(demo::DemoArgs),
    /// Runs every test, after setting up what they need
    Test(test::TestArgs),
    /// Measures the gate beside nginx and HAProxy and prints ratios
    Bench(bench::BenchArgs),
    /// A client of the benchmark
    #[command(hide = true)]
    BenchFlood(bench::packets::FloodArgs),
    /// Another client of the benchmark
    #[command(hide = true)]
    BenchVisit(bench::packets::VisitArgs),
    /// Packs a release: the binary, a service for systemd, an example configuration, the README
    Package,
    /// Checks what the compiler does not: headers, SAFETY comments, sizes, the README's tables
    Tidy,
    /// Runs what has to pass before a change lands
    Ci,
}

/// The workspace's root folder.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::BuildEbpf => build_ebpf::run(&root()),
        Command::Demo(args) => demo::run(&root(), &args),
        Command::Test(args) => test::run(&root(), &args),
        Command::Bench(args) => bench::run(&root(), &args),
        Command::BenchFlood(args) => bench::packets::flood(&args),
        Command::BenchVisit(args) => bench::packets::visit(&args),
        Command::Package => package::run(&root()),
        Command::Tidy => tidy::run(&root()),
        Command::Ci => ci::run(&root()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
