//! The gate, as a user would run it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::http::Client;
use super::lab::{Lab, write};
use super::namespace;
use super::process::{Cpus, Process, free_address};

/// How many visitors a room lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    /// More than any suite brings.
    ManyMore,
    /// So few that it fills.
    AtMost(u32),
}

/// How a gate is started.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatePlan<'a> {
    pub(super) name: &'a str,
    pub(super) listen: SocketAddr,
    pub(super) origin: SocketAddr,
    pub(super) users: Users,
    pub(super) cpus: Cpus,
    pub(super) namespace: Option<&'a str>,
    pub(super) xdp: Xdp<'a>,
}

impl GatePlan<'_> {
    /// Sessions outlive every suite. Waiters may come back after a second, so that each of their check-ins counts.
    fn config(&self) -> String {
        let users = match self.users {
            Users::ManyMore => 1_000_000,
            Users::AtMost(users) => users,
        };
        let kernel = match self.xdp {
            Xdp::Off => "mode = \"off\"".to_owned(),
            Xdp::Enforce(interface) => {
                format!("mode = \"enforce\"\ninterfaces = [\"{interface}\"]")
            }
        };
        let (listen, origin) = (self.listen, self.origin);
        format!(
            "listen = \"{listen}\"\norigin = \"http://{origin}\"\n[kernel]\n{kernel}\n[[rooms]]\nname = \"bench\"\n\
             total_active_users = {users}\nnew_users_per_minute = {users}\nsession_duration = 30\n\
             refresh_interval_seconds = 1\njson_response_enabled = true\n"
        )
    }
}

/// The kernel part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Xdp<'a> {
    Off,
    /// Refuses sources over their rate on this interface.
    Enforce(&'a str),
}

/// A running gate and where it accepts.
#[derive(Debug)]
pub(super) struct Gate {
    pub process: Process,
    pub address: SocketAddr,
}

impl Gate {
    /// One room on every host and path, the kernel part off.
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
        let plan = GatePlan {
            name,
            listen: free_address()?,
            origin,
            users,
            cpus,
            namespace: None,
            xdp: Xdp::Off,
        };
        let mut gate = Self::start_with(lab, &plan)?;
        gate.process.wait_for(plan.listen)?;
        Ok(gate)
    }

    /// As the plan says. In a namespace, waits for the gate's word that it accepts.
    ///
    /// # Errors
    ///
    /// Where the gate does not start.
    pub(super) fn start_with(lab: &Lab, plan: &GatePlan<'_>) -> Result<Self> {
        let home = lab.fresh_dir(plan.name)?;
        let config = home.join("gate.toml");
        write(&config, plan.config())?;
        let program = lab.gate.display().to_string();
        let mut command = match plan.namespace {
            None => plan.cpus.command(&program),
            Some(name) => namespace::command(name, plan.cpus, &program),
        };
        command
            .current_dir(&home)
            .arg("serve")
            .arg("--config")
            .arg(&config);
        let mut process = Process::start(plan.name, command, &home.join("log"))?;
        if plan.namespace.is_some() {
            process.wait_for_log(&plan.listen.to_string())?;
        }
        Ok(Self {
            process,
            address: plan.listen,
        })
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
