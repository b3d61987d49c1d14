//! A program under test or serving a test: started pinned, watched by process id, ended by process id. It dies with the
//! benchmark, however that ends.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a program may take until it accepts connections, in steps of [`POLL`].
const START_POLLS_MAX: u32 = 500;
/// How long a program may take to end after SIGTERM before it gets SIGKILL, in steps of [`POLL`].
const STOP_POLLS_MAX: u32 = 150;
const POLL: Duration = Duration::from_millis(20);

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cpus {
    /// The origin and the load generators.
    Load,
    /// The same, ahead of everything else there: an origin that other load must not delay.
    LoadFirst,
    /// The program that is measured.
    Subject,
    /// Wherever the scheduler puts it.
    Any,
}

impl Cpus {
    /// A command that runs `program` on these processors and ends with the thread that starts it.
    pub(super) fn command(self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]);
        match self {
            Self::Load => command.args(["taskset", "-c", "0", program]),
            Self::LoadFirst => command.args(["nice", "-n", "-15", "taskset", "-c", "0", program]),
            Self::Subject => command.args(["taskset", "-c", "1", program]),
            Self::Any => command.arg(program),
        };
        command
    }
}

/// A running program and its children. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output in `log`.
    ///
    /// # Errors
    ///
    /// Where the log cannot be written or the program cannot be started.
    pub(super) fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let output =
            File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    /// Waits until `address` accepts a connection.
    ///
    /// # Errors
    ///
    /// Where the program ends or the time is over first; the message carries the end of its log.
    pub(super) fn wait_for(&mut self, address: SocketAddr) -> Result<()> {
        for _ in 0..START_POLLS_MAX {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "{} ended ({status}) before it accepted: {}",
                    self.name,
                    self.log_end()
                );
            }
            thread::sleep(POLL);
        }
        bail!(
            "{} does not accept on {address}: {}",
            self.name,
            self.log_end()
        )
    }

    /// Waits until the program has logged `text`.
    ///
    /// # Errors
    ///
    /// Where the program ends or the time is over first; the message carries the end of its log.
    pub(super) fn wait_for_log(&mut self, text: &str) -> Result<()> {
        for _ in 0..START_POLLS_MAX {
            if fs::read_to_string(&self.log).is_ok_and(|log| log.contains(text)) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "{} ended ({status}) before it was ready: {}",
                    self.name,
                    self.log_end()
                );
            }
            thread::sleep(POLL);
        }
        bail!("{} does not say {text:?}: {}", self.name, self.log_end())
    }

    /// The process and all its descendants.
    pub(super) fn ids(&self) -> Vec<u32> {
        let mut ids = vec![self.child.id()];
        let mut next = 0;
        while let Some(&id) = ids.get(next) {
            let children =
                fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
            ids.extend(
                children
                    .split_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
            next += 1;
        }
        ids
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let start = lines.len().saturating_sub(5);
        lines.get(start..).unwrap_or_default().join(" / ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else {
            return;
        };
        // The child has not been waited for, so the id is still its own. An error means that it is gone already.
        if kill_process(id, Signal::TERM).is_ok() {
            for _ in 0..STOP_POLLS_MAX {
                if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                    return;
                }
                thread::sleep(POLL);
            }
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs a short command to its end and returns what it printed.
///
/// # Errors
///
/// Where it cannot be started or fails; the message carries what it printed to standard error.
pub(super) fn run(command: &mut Command) -> Result<String> {
    let program = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let signal = output
            .status
            .signal()
            .map_or(String::new(), |signal| format!(" (signal {signal})"));
        bail!(
            "{program} failed{signal}: {}{}",
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&output.stdout)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A loopback address that nothing listens on.
///
/// # Errors
///
/// Where no port is left.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
