//! The gate under test: the binary that was built, as a process of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::ports;
use crate::process::Process;
use crate::wait::{DEADLINE, until};

/// The built gate: what `GATE_BIN` names (`cargo xtask test` sets it), else built now in this run's profile.
///
/// # Panics
/// Where there is none and it cannot be built.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(named) = std::env::var_os("GATE_BIN") {
            let named = PathBuf::from(named);
            assert!(
                named.is_file(),
                "GATE_BIN names no file: {}",
                named.display()
            );
            return named;
        }
        build()
    })
}

/// Builds the gate as this test was built: same target folder, same profile.
fn build() -> PathBuf {
    let own = std::env::current_exe().expect("this program's own file");
    // target/PROFILE/deps/this-test
    let folder = own
        .parent()
        .and_then(Path::parent)
        .expect("a target folder");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--package",
            "gate",
            "--profile",
            profile,
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .status()
        .expect("cargo");
    assert!(status.success(), "the gate does not build");
    folder.join("gate")
}

/// The kernel object that `cargo xtask build-ebpf` left for the gate to embed, where there is one.
pub fn kernel_object() -> Option<PathBuf> {
    let object = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/ebpf/gate-ebpf");
    object.is_file().then_some(object)
}

/// A running `gate serve`.
#[derive(Debug)]
pub struct Gate {
    process: Process,
    words: Vec<String>,
    address: SocketAddr,
    folder: TempDir,
}

impl Gate {
    /// One room on `/` of every host, by the quick form: `--listen` is added.
    #[track_caller]
    pub fn quick(origin: &str, words: &[&str]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listen = address.to_string();
        let mut all = vec!["serve", "--listen", &listen, "--origin", origin];
        all.extend(words);
        Self::spawn(all, address, folder)
    }

    /// By a configuration file, in which `{listen}` and `{folder}` are replaced by a free address and a folder that lives as
    /// long as the gate.
    #[track_caller]
    pub fn configured(configuration: &str) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = configuration
            .replace("{listen}", &address.to_string())
            .replace("{folder}", &folder.path().display().to_string());
        let file = folder.path().join("gate.toml");
        fs::write(&file, text).expect("a configuration file");
        let file = file.display().to_string();
        Self::spawn(vec!["serve", "--config", &file], address, folder)
    }

    #[track_caller]
    fn spawn(words: Vec<&str>, address: SocketAddr, folder: TempDir) -> Self {
        let process = Process::start_with(binary(), &words, |command| {
            command.current_dir(folder.path());
        });
        let mut gate = Self {
            process,
            words: words.into_iter().map(str::to_owned).collect(),
            address,
            folder,
        };
        gate.accepts();
        gate
    }

    fn accepts(&mut self) {
        let address = self.address;
        let process = &mut self.process;
        until("the gate accepts connections", DEADLINE, || {
            assert!(process.is_running(), "the gate ended: {}", process.log());
            std::net::TcpStream::connect(address).ok()
        });
    }

    /// Starts again what was stopped or killed: the same words, the same folder.
    #[track_caller]
    pub fn restart(&mut self) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let folder = self.folder.path().to_path_buf();
        self.process = Process::start_with(binary(), &words, |command| {
            command.current_dir(folder);
        });
        self.accepts();
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder it runs in, for state and key files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process, for signals and its log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Stops it as an operator does, and gives its exit code.
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        self.process.stop()
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Runs the gate's binary to its end: exit code, standard output, standard error.
///
/// # Panics
/// Where it cannot be run or is ended by a signal.
#[track_caller]
pub fn run(words: &[&str]) -> (i32, String, String) {
    let output = Command::new(binary())
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("the gate");
    (
        output.status.code().expect("an exit code"),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}
