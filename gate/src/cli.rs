//! The command line: words in, a typed order out. Runs nothing.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::QuickArgs;
use crate::page::{Language, PreviewState};

/// A waiting room in front of a web origin.
#[derive(Debug, Parser)]
#[command(name = "gate", version, about, subcommand_required = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve, by a configuration file or with one room on every path of every host.
    Serve(Serve),
    /// Check a configuration file: lists every fault and exits with 2 where there is one.
    Check {
        /// The configuration file.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Work with the keys that seal the tickets.
    Keys {
        #[command(subcommand)]
        command: Keys,
    },
    /// Play a world of data centers, gates and visitors, and compare the ways to split one limit.
    Simulate(crate::simulate::command::Args),
    /// Look at the kernel part of the gates on this host, or clean up after it.
    Kernel {
        #[command(subcommand)]
        command: Kernel,
    },
    /// Work with the pages that waiting visitors see.
    Page {
        #[command(subcommand)]
        command: Page,
    },
}

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Put a new key in front; tickets of the older keys go on being accepted.
    Rotate {
        /// The key file.
        #[arg(long, value_name = "FILE", default_value = "gate.keys")]
        key_file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum Kernel {
    /// Print what it does: interfaces and their modes, map fill, packets by reason, sources refused most.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make running gates of this network namespace detach, and take leftovers off interfaces.
    Detach,
}

#[derive(Debug, Subcommand)]
pub enum Page {
    /// Print the page of one state to standard output.
    Preview {
        /// queueing, queue-full, queue-all, reject, prequeue, event, … (see the error for all).
        #[arg(long, value_name = "STATE", default_value = "queueing")]
        state: PreviewState,
        /// The language, as in `default_template_language`.
        #[arg(long, value_name = "TAG", default_value = "en-US")]
        language: Language,
        /// A custom page; without it the built-in one is shown.
        #[arg(long, value_name = "FILE")]
        template: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub struct Serve {
    /// The configuration file; without it the flags below describe one room on every path of every host.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub quick: QuickArgs,
    /// Threads that serve; one for each processor where none is given.
    #[arg(long, value_name = "COUNT")]
    pub threads: Option<NonZeroUsize>,
}
