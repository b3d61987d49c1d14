//! What a test needs from the machine. A test whose need is not met says so in the summary of `cargo xtask test`, and fails
//! where `CI` is set: nothing is skipped silently.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Folders of system tools that a user's `PATH` may lack.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// One thing a test cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A command by name.
    Command(&'static str),
    /// Root, for network namespaces, interfaces and programs in the kernel.
    Root,
    /// A gate that was built with the kernel object.
    KernelObject,
}

impl Need {
    /// Why the need is not met; `None` where it is.
    fn unmet(self) -> Option<String> {
        match self {
            Self::Command(name) => command(name)
                .is_none()
                .then(|| format!("no command {name} on this machine")),
            Self::Root => (!rustix::process::geteuid().is_root()).then(|| "not root".to_owned()),
            Self::KernelObject => crate::gate::kernel_object()
                .is_none()
                .then(|| "the gate was built without the kernel object".to_owned()),
        }
    }
}

/// Where a command is.
pub fn command(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Whether the test can run. Where it cannot, notes the test and the reason; panics where `CI` is set. Use it first thing:
///
/// ```no_run
/// # fn test() {
/// use gate_tests::{Need, need};
/// if !need::all(&[Need::Command("nginx"), Need::Root]) {
///     return;
/// }
/// # }
/// ```
#[track_caller]
pub fn all(needs: &[Need]) -> bool {
    let Some(reason) = needs.iter().find_map(|need| need.unmet()) else {
        return true;
    };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let ci = std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
    assert!(
        !ci,
        "{test} cannot run: {reason}; CI is set, so this is a failure"
    );
    let line = format!("{test}: {reason}\n");
    eprint!("skipped {line}");
    if let Some(file) = std::env::var_os("GATE_TEST_SKIPS") {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&file)
            .and_then(|mut open| open.write_all(line.as_bytes()))
            .expect("cannot note a skipped test");
    }
    false
}
