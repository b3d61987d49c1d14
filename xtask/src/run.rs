//! Running other commands: said before, checked after. Knows nothing of what is run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Folders of system tools that a user's `PATH` may lack.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// `cargo` as the one that started us, in the workspace's root, never waiting for input.
pub(crate) fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsStr::new("cargo").to_owned());
    let mut command = Command::new(program);
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// The words of a command as one would type them.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

/// Says the command, runs it with our own output, and fails unless it exits with 0.
pub(crate) fn checked(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("$ {line}");
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Where a command is, searched in `PATH` and the system folders.
pub(crate) fn find(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(command))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_there_and_nothing_else() {
        assert!(find("sh").is_some());
        assert!(find("no-such-command-anywhere").is_none());
    }

    #[test]
    fn line_reads_like_a_shell_line() {
        let mut command = Command::new("/usr/bin/apt-get");
        command.args(["install", "curl"]);
        assert_eq!(line(&command), "apt-get install curl");
    }
}
