//! `cargo xtask tidy`: rules of this workspace that the compiler and clippy do not know. Reads files, changes none.

mod readme;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// What the root folder may hold beside files whose names begin with a dot.
const ROOT_ENTRIES: [&str; 8] = [
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "gate",
    "gate-common",
    "gate-ebpf",
    "tests",
    "xtask",
];

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    file: String,
    /// From 1; 0 where the whole file is meant.
    line: usize,
    what: String,
}

impl Fault {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
        }
    }
}

/// One file of the project, by its path from the root.
#[derive(Debug)]
pub(crate) struct File {
    path: String,
    text: String,
}

pub(crate) fn run(root: &Path) -> Result<()> {
    let (paths, files) = read(root)?;
    let mut faults = layout(&paths);
    for file in &files {
        faults.extend(source::check(file));
        faults.extend(package(file));
    }
    faults.extend(readme::check(&files));
    for fault in &faults {
        eprintln!("{}:{}: {}", fault.file, fault.line, fault.what);
    }
    if !faults.is_empty() {
        bail!("{} faults", faults.len());
    }
    println!("{} files are tidy", files.len());
    Ok(())
}

/// Every file that git tracks or would track, and the text of those that are text.
fn read(root: &Path) -> Result<(Vec<String>, Vec<File>)> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    if !listed.status.success() {
        bail!(
            "git cannot list the files: {}",
            String::from_utf8_lossy(&listed.stderr).trim()
        );
    }
    let paths: Vec<String> = String::from_utf8_lossy(&listed.stdout)
        .split_terminator('\0')
        // Deleted, but not yet staged.
        .filter(|path| root.join(path).is_file())
        .map(str::to_owned)
        .collect();
    let files = paths
        .iter()
        .filter_map(|path| {
            let text = fs::read_to_string(root.join(path)).ok()?;
            Some(File {
                path: path.clone(),
                text,
            })
        })
        .collect();
    Ok((paths, files))
}

/// The root folder holds what the layout names, and nothing else.
fn layout(paths: &[String]) -> Vec<Fault> {
    let entries: BTreeSet<&str> = paths
        .iter()
        .filter_map(|path| path.split('/').next())
        .collect();
    entries
        .into_iter()
        .filter(|entry| !entry.starts_with('.') && !ROOT_ENTRIES.contains(entry))
        .map(|entry| Fault::new(entry, 0, "not a part of the root folder's layout"))
        .collect()
}

/// Every package takes its lints from the workspace.
fn package(file: &File) -> Vec<Fault> {
    let is_manifest = file.path.ends_with("/Cargo.toml");
    if !is_manifest || !file.text.contains("[package]") {
        return Vec::new();
    }
    if file.text.contains("[lints]\nworkspace = true") {
        return Vec::new();
    }
    vec![Fault::new(
        &file.path,
        0,
        "must say `[lints]` `workspace = true`",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_root_entry_is_a_fault() {
        let paths = ["gate/src/lib.rs", ".ci/run", "notes/a.md", "README.md"].map(str::to_owned);
        let faults = layout(&paths);
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].file, "notes");
    }

    #[test]
    fn a_package_without_the_workspace_lints_is_a_fault() {
        let manifest = |text: &str| File {
            path: "gate/Cargo.toml".into(),
            text: text.into(),
        };
        assert_eq!(package(&manifest("[package]\nname = \"gate\"\n")).len(), 1);
        let kept = manifest("[package]\nname = \"gate\"\n\n[lints]\nworkspace = true\n");
        assert!(package(&kept).is_empty());
    }
}
