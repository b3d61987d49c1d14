//! Two network namespaces joined by a virtual cable, so that packets pass an interface's receive path and nothing else on the
//! machine sees them.
//!
//! The receive path of each end runs in a kernel thread of its own (threaded NAPI): what a received packet costs is that
//! thread's processor time.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::measure;
use super::process::{Cpus, run};

/// The gate's end.
pub(super) const SERVER: &str = "gate-bench-s";
/// The clients' end.
pub(super) const CLIENT: &str = "gate-bench-c";
pub(super) const SERVER_INTERFACE: &str = "gbs0";
const CLIENT_INTERFACE: &str = "gbc0";
pub(super) const SERVER_ADDRESS: &str = "10.9.0.1";
/// Of the one client that means well. Every other source is made up.
pub(super) const CLIENT_ADDRESS: &str = "10.9.0.2";

/// Both namespaces. Dropping it removes them and what is in them.
#[derive(Debug)]
pub(super) struct Namespaces {
    receive_thread: u32,
}

impl Namespaces {
    /// # Errors
    ///
    /// Where the process has no right to make namespaces.
    pub(super) fn new() -> Result<Self> {
        remove();
        // From here on a failure removes what is there already.
        let mut namespaces = Self { receive_thread: 0 };
        for name in [SERVER, CLIENT] {
            ip(&["netns", "add", name])?;
            inside(name, &["ip", "link", "set", "lo", "up"])?;
        }
        ip(&[
            "link",
            "add",
            SERVER_INTERFACE,
            "netns",
            SERVER,
            "type",
            "veth",
            "peer",
            "name",
            CLIENT_INTERFACE,
            "netns",
            CLIENT,
        ])?;
        for (name, interface, address) in [
            (SERVER, SERVER_INTERFACE, SERVER_ADDRESS),
            (CLIENT, CLIENT_INTERFACE, CLIENT_ADDRESS),
        ] {
            inside(
                name,
                &[
                    "ip",
                    "address",
                    "add",
                    &format!("{address}/24"),
                    "dev",
                    interface,
                ],
            )?;
            // Receive offload on this end and none for sending on the other are what makes a virtual cable use its receive thread.
            inside(
                name,
                &["ethtool", "-K", interface, "gro", "on", "tso", "off"],
            )?;
            inside(name, &["ip", "link", "set", interface, "up"])?;
            let threaded = format!("/sys/class/net/{interface}/threaded");
            inside(name, &["sh", "-c", &format!("echo 1 > {threaded}")])?;
            for scope in ["all", "default", interface] {
                let filter = format!("/proc/sys/net/ipv4/conf/{scope}/rp_filter");
                inside(name, &["sh", "-c", &format!("echo 0 > {filter}")])?;
            }
        }
        // Answers to made-up sources leave the server and end at once.
        inside(
            SERVER,
            &["ip", "route", "add", "default", "via", CLIENT_ADDRESS],
        )?;
        let rules = format!(
            "table netdev away {{ chain ingress {{ type filter hook ingress device {CLIENT_INTERFACE} priority 0; \
             ip daddr 10.9.0.0/24 accept; meta protocol ip drop; }}; }}"
        );
        inside(CLIENT, &["nft", &rules])?;
        namespaces.receive_thread = pin(SERVER_INTERFACE, "1")?;
        pin(CLIENT_INTERFACE, "0")?;
        Ok(namespaces)
    }

    /// Processor time the server's receive thread has used, in nanoseconds.
    ///
    /// # Errors
    ///
    /// Where the thread is gone.
    pub(super) fn receive_nanoseconds(&self) -> Result<u64> {
        measure::cpu_nanoseconds(&[self.receive_thread])
    }

    /// The thread changes when a program is attached or detached.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub(super) fn find_receive_thread(&mut self) -> Result<()> {
        self.receive_thread = pin(SERVER_INTERFACE, "1")?;
        Ok(())
    }

    /// Packets that the clients' end could not hand over because the server's queue was full.
    ///
    /// # Errors
    ///
    /// Where the interface is gone.
    pub(super) fn packets_lost(&self) -> Result<u64> {
        let path = format!("/sys/class/net/{CLIENT_INTERFACE}/statistics/tx_dropped");
        Ok(inside(CLIENT, &["cat", &path])?.trim().parse()?)
    }

    /// TCP segments that have reached the server's network stack.
    ///
    /// # Errors
    ///
    /// Where the kernel's table has another form.
    pub(super) fn segments_received(&self) -> Result<u64> {
        let table = inside(SERVER, &["cat", "/proc/net/snmp"])?;
        let mut lines = table.lines().filter(|line| line.starts_with("Tcp:"));
        let names = lines.next().context("no TCP counters")?;
        let values = lines.next().context("no TCP counters")?;
        let column = names
            .split(' ')
            .position(|name| name == "InSegs")
            .context("no InSegs")?;
        Ok(values
            .split(' ')
            .nth(column)
            .context("no InSegs")?
            .parse()?)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        remove();
    }
}

fn remove() {
    for name in [SERVER, CLIENT] {
        // An error says that it is not there.
        ip(&["netns", "delete", name]).ok();
    }
}

fn ip(words: &[&str]) -> Result<String> {
    run(Command::new("ip").args(words))
}

/// Runs a short command in a namespace and returns what it printed.
///
/// # Errors
///
/// Where it fails.
pub(super) fn inside(namespace: &str, words: &[&str]) -> Result<String> {
    run(Command::new("ip")
        .args(["netns", "exec", namespace])
        .args(words))
}

/// A command that runs `program` in a namespace.
pub(super) fn command(namespace: &str, cpus: Cpus, program: &str) -> Command {
    let mut command = cpus.command("ip");
    command.args(["netns", "exec", namespace, program]);
    command
}

/// Pins the receive thread of an interface and returns its id. Thread names are cut to 15 bytes; interface names are short.
fn pin(interface: &str, cpu: &str) -> Result<u32> {
    let prefix = format!("napi/{interface}-");
    let threads = fs::read_dir("/proc")?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let id = path.file_name()?.to_str()?.parse::<u32>().ok()?;
        name_of(&path)?.starts_with(&prefix).then_some(id)
    });
    // The newest, should an old one still be ending.
    let id = threads
        .max()
        .with_context(|| format!("{interface} has no receive thread"))?;
    run(Command::new("taskset").args(["-p", "-c", cpu, &id.to_string()]))?;
    Ok(id)
}

fn name_of(process: &Path) -> Option<String> {
    fs::read_to_string(process.join("comm")).ok()
}
