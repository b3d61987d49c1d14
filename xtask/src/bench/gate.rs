//! The gate, as a user would run it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::http::Client;
use super::lab::{Lab, write};
use super::process::{Cpus, Process, free_address};

/// How many visitors a room lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    /// More than any suite brings.
    ManyMore,
    /// So few that it fills.
    AtMost(u32),
}

/// A running gate and where it accepts.
#[derive(Debug)]
pub(super) struct Gate {
    pub process: Process,
    pub address: SocketAddr,
}

impl Gate {
    /// One room on every host and path, sessions of half an hour, the kernel part off.
    ///
    /// # Errors
    ///
    /// Where the gate does not start.
    pub(super) fn start(
        name: &str,
        lab: &Lab,
        origin: SocketAddr,
        users: Users,
        cpus: Cpus,
    ) -> Result<Self> {
        let home = lab.fresh_dir(name)?;
        let address = free_address()?;
        let users = match users {
            Users::ManyMore => 1_000_000,
            Users::AtMost(users) => users,
        }
        .to_string();
        let mut command = cpus.command(&lab.gate.display().to_string());
        command
            .current_dir(&home)
            .args(["serve", "--listen", &address.to_string()])
            .args(["--origin", &format!("http://{origin}")])
            .args([
                "--total-active-users",
                &users,
                "--new-users-per-minute",
                &users,
            ])
            .args(["--session-duration", "30"]);
        let mut process = Process::start(name, command, &home.join("log"))?;
        process.wait_for(address)?;
        Ok(Self { process, address })
    }

    /// Visits `path` as `count` new visitors and keeps the cookie that each was given, one per line.
    ///
    /// # Errors
    ///
    /// Where an answer sets no cookie or has not the expected status.
    pub(super) fn cookies(&self, path: &str, count: u32, file: &Path) -> Result<PathBuf> {
        let mut client = Client::connect(self.address)?;
        let mut lines = String::new();
        for _ in 0..count {
            let answer = client.get(path, &[("Accept", "text/html")])?;
            ensure!(
                answer.status == 200,
                "the gate answered {} to a new visitor",
                answer.status
            );
            lines.push_str(answer.cookie().context("the gate set no cookie")?);
            lines.push('\n');
        }
        write(file, lines)?;
        Ok(file.to_owned())
    }
}

/// The first cookie of a file of cookies.
///
/// # Errors
///
/// Where there is none.
pub(super) fn first_cookie(file: &Path) -> Result<String> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text.lines().next().context("no cookie")?.to_owned())
}
