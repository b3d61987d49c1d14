//! What a fresh machine lacks: found by looking for the command, installed where that can be done unattended (root, apt),
//! else named so that a person can install it.
//!
//! Never starts a service: the packages' own daemons stay off, now and at the next boot. Only processes that our
//! commands start themselves run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::run;

/// One thing a command needs from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    /// The proof that it is there.
    proof: Proof,
    /// The Debian package that brings it.
    package: &'static str,
    /// The service that package would start.
    service: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// A command of this name can be found.
    Command(&'static str),
    /// This file or folder is there.
    Path(&'static str),
}

const fn tool(command: &'static str, package: &'static str) -> Tool {
    Tool {
        proof: Proof::Command(command),
        package,
        service: None,
    }
}

const fn daemon(command: &'static str, package: &'static str) -> Tool {
    Tool {
        proof: Proof::Command(command),
        package,
        service: Some(package),
    }
}

const fn file(path: &'static str, package: &'static str) -> Tool {
    Tool {
        proof: Proof::Path(path),
        package,
        service: None,
    }
}

pub(crate) const NGINX: Tool = daemon("nginx", "nginx");
pub(crate) const REDIS: Tool = daemon("redis-server", "redis-server");
pub(crate) const CHROMIUM: Tool = tool("chromium", "chromium");
pub(crate) const CHROMEDRIVER: Tool = tool("chromedriver", "chromium-driver");
pub(crate) const DNSMASQ: Tool = tool("dnsmasq", "dnsmasq-base");
pub(crate) const IP: Tool = tool("ip", "iproute2");
pub(crate) const CURL: Tool = tool("curl", "curl");
pub(crate) const OPENSSL: Tool = tool("openssl", "openssl");
/// Chinese, Japanese and Korean glyphs, for pictures of the waiting page.
pub(crate) const FONT_CJK: Tool = file(
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "fonts-noto-cjk",
);
/// Arabic, Hebrew, Thai and other glyphs, for the same.
pub(crate) const FONT_WIDE: Tool = file(
    "/usr/share/fonts/truetype/noto/NotoSansArabic-Regular.ttf",
    "fonts-noto-core",
);

/// What the benchmark compares with and loads with.
pub(crate) const FOR_BENCH: [Tool; 7] = [
    NGINX,
    daemon("haproxy", "haproxy"),
    tool("wrk", "wrk"),
    tool("h2load", "nghttp2-client"),
    tool("nft", "nftables"),
    tool("ethtool", "ethtool"),
    IP,
];

/// What the tests use beside Rust.
pub(crate) const FOR_TESTS: [Tool; 10] = [
    NGINX,
    REDIS,
    OPENSSL,
    CHROMIUM,
    CHROMEDRIVER,
    IP,
    CURL,
    DNSMASQ,
    FONT_CJK,
    FONT_WIDE,
];

impl Tool {
    /// Whether the machine has it.
    pub(crate) fn is_present(self) -> bool {
        match self.proof {
            Proof::Command(name) => run::find(name).is_some(),
            Proof::Path(path) => Path::new(path).exists(),
        }
    }
}

/// Makes sure that every tool is there. Fails with the line to type where it cannot install them itself.
pub(crate) fn ensure(tools: &[Tool]) -> Result<()> {
    let missing: Vec<Tool> = tools.iter().copied().filter(|t| !t.is_present()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    packages.dedup();
    install(&packages)?;
    disable_services(&missing);
    match missing.iter().find(|tool| !tool.is_present()) {
        Some(tool) => bail!(
            "package {} is installed, but {:?} is still missing",
            tool.package,
            tool.proof
        ),
        None => Ok(()),
    }
}

/// Installs Debian packages without asking and without starting their services. Fails with the line to type where that is
/// not possible.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let by_hand = format!("apt-get install {}", packages.join(" "));
    if run::find("apt-get").is_none() {
        bail!(
            "missing on this machine: {}; install what these Debian packages bring",
            packages.join(", ")
        );
    }
    if !is_root() {
        bail!("missing on this machine; run as root: {by_hand}");
    }
    let _policy = NoServices::begin()?;
    // An index that is absent or old offers nothing, or the wrong versions.
    let mut last = None;
    for pause_seconds in [0, 5, 20] {
        thread::sleep(Duration::from_secs(pause_seconds));
        if let Err(error) = apt(&["update", "-q"]) {
            eprintln!("note: {error:#}; trying with the index that is there");
        }
        match apt(&install_words(packages)) {
            Ok(()) => return Ok(()),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("apt-get was never tried")))
        .with_context(|| format!("cannot install; try by hand: {by_hand}"))
}

fn install_words<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["install", "-q", "-y", "--no-install-recommends"];
    words.extend(packages);
    words
}

fn apt(words: &[&str]) -> Result<()> {
    // Two minutes for another package manager to finish.
    run::checked(
        Command::new("apt-get")
            .args(["-o", "DPkg::Lock::Timeout=120"])
            .args(["-o", "Dpkg::Options::=--force-confold"])
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("NEEDRESTART_MODE", "l")
            .stdin(Stdio::null()),
    )
}

/// Whether we run as root, read from the owner of our own process.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// Keeps what was just installed from starting at the next boot. Best effort: without systemd there is nothing to do.
fn disable_services(tools: &[Tool]) {
    if !Path::new("/run/systemd/system").exists() {
        return;
    }
    for service in tools.iter().filter_map(|tool| tool.service) {
        if let Err(error) = run::checked(
            Command::new("systemctl")
                .args(["disable", "--quiet", service])
                .stdin(Stdio::null()),
        ) {
            eprintln!("note: {service} may start at the next boot: {error:#}");
        }
    }
}

/// While it lives, packages start no services (Debian's policy-rc.d). A policy that is already there stays as it is.
struct NoServices {
    ours: Option<PathBuf>,
}

impl NoServices {
    fn begin() -> Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let policy = PathBuf::from("/usr/sbin/policy-rc.d");
        if policy.exists() {
            return Ok(Self { ours: None });
        }
        fs::write(&policy, "#!/bin/sh\nexit 101\n")
            .and_then(|()| fs::set_permissions(&policy, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot write {}", policy.display()))?;
        Ok(Self { ours: Some(policy) })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = &self.ours
            && let Err(error) = fs::remove_file(policy)
        {
            eprintln!(
                "note: remove {} yourself, it stops packages from starting their services: {error}",
                policy.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_needs_no_installation() {
        let shell = tool("sh", "dash");
        assert!(shell.is_present());
        ensure(&[shell]).unwrap();
    }

    #[test]
    fn a_path_that_is_not_there_is_missing() {
        assert!(!file("/no/such/folder", "none").is_present());
    }
}
