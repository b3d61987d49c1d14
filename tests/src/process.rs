//! Child processes that never outlive their test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::wait::{DEADLINE, until};

/// A running program whose output goes to a file. Dropping it kills it; so does the death of the thread that started it, so
/// that a test run that is interrupted leaves nothing behind. Hence: start it from the test's own thread, not from one that
/// ends earlier.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
    _folder: TempDir,
}

impl Process {
    /// Starts `program` with `words`.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[track_caller]
    pub fn start(program: &Path, words: &[&str]) -> Self {
        Self::start_with(program, words, |_| {})
    }

    /// The same, with a change to the command before it starts (environment, folder).
    ///
    /// # Panics
    /// Where it cannot be started.
    #[track_caller]
    pub fn start_with(program: &Path, words: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("log");
        let out = File::create(&log).expect("a log file");
        let err = out.try_clone().expect("a second handle");
        // setpriv replaces itself by the program: the process id is the program's.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        change(&mut command);
        let name = program.file_name().map_or_else(
            || program.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        );
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self {
            child,
            name,
            log,
            _folder: folder,
        }
    }

    /// Everything it has printed so far, both streams.
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for a line of its output that `wanted` makes something of.
    ///
    /// # Panics
    /// Where it ends before, or after [`DEADLINE`].
    #[track_caller]
    pub fn line<T>(&mut self, what: &str, mut wanted: impl FnMut(&str) -> Option<T>) -> T {
        until(&format!("{} says {what}", self.name), DEADLINE, || {
            let ended = self.child.try_wait().expect("its state");
            let log = self.log();
            let found = log.lines().find_map(&mut wanted);
            assert!(
                found.is_some() || ended.is_none(),
                "{} ended ({ended:?}) before it said {what}:\n{log}",
                self.name
            );
            found
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// Where it has ended.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        let pid = Pid::from_raw(id).expect("a process id");
        kill_process(pid, signal).unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// Where it has not ended within `deadline`.
    #[track_caller]
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let name = self.name.clone();
        until(&format!("{name} ends"), deadline, || {
            self.child.try_wait().expect("its state")
        })
    }

    /// Asks it to end (SIGTERM) and waits.
    ///
    /// # Panics
    /// Where it has not ended within [`DEADLINE`].
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait(DEADLINE)
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- {} said:\n{}---", self.name, self.log());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_alive(id: u32) -> bool {
        Path::new(&format!("/proc/{id}")).exists()
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let mut process = Process::start(Path::new("sh"), &["-c", "echo ready; exec sleep 60"]);
        process.line("ready", |line| (line == "ready").then_some(()));
        let id = process.id();
        assert!(is_alive(id));
        drop(process);
        assert!(!is_alive(id));
    }

    #[test]
    fn a_process_dies_with_the_thread_that_started_it() {
        let started = std::thread::spawn(|| {
            let mut process = Process::start(Path::new("sleep"), &["60"]);
            assert!(process.is_running());
            // Until the program is there, the wish to die with us is not yet made.
            until("exec", DEADLINE, || {
                let name = fs::read_to_string(format!("/proc/{}/comm", process.id())).ok()?;
                (name == "sleep\n").then_some(())
            });
            process
        });
        let mut process = started.join().unwrap();
        let status = process.wait(DEADLINE);
        assert!(!status.success());
    }
}
