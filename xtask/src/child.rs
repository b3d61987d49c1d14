//! Child processes that never outlive us: killed on drop, and by the kernel where we die without a drop.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How often a condition is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// A running program whose output goes to a file. The kernel kills it when the thread that started it ends, so start it from
/// the main thread.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts a program; both of its output streams go to `log`. It takes no part in a Ctrl-C of ours: we stop it ourselves.
    pub(crate) fn start(program: &Path, words: &[&str], log: &Path) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let name = program.file_name().map_or_else(
            || program.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        );
        // setpriv replaces itself by the program: the process id is the program's.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(words)
            .stdin(Stdio::null())
            .stderr(out.try_clone().context("cannot share a log file")?)
            .stdout(out)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            child,
            name,
            log: log.to_path_buf(),
        })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has printed so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Fails where it has ended.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        match self.child.try_wait().context("cannot ask for its state")? {
            Some(status) => bail!("{} ended ({status}):\n{}", self.name, self.log()),
            None => Ok(()),
        }
    }

    /// Waits until `ready` says so. Fails where the process ends first or the time is over.
    pub(crate) fn until(&mut self, limit: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let begun = Instant::now();
        while !ready() {
            self.must_run()?;
            if begun.elapsed() > limit {
                bail!(
                    "{} is not ready after {limit:?}:\n{}",
                    self.name,
                    self.log()
                );
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Asks it to end, waits, and says how it ended.
    pub(crate) fn stop(&mut self, limit: Duration) -> Result<ExitStatus> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            kill_process(id, Signal::TERM).with_context(|| format!("cannot stop {}", self.name))?;
        }
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().context("cannot ask for its state")? {
                return Ok(status);
            }
            if begun.elapsed() > limit {
                bail!("{} does not end within {limit:?}", self.name);
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
