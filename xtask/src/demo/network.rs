//! A network of the demo's own for the kernel part: a veth pair whose far end is in a namespace that a child process holds.
//! When that child ends (with us, however we end), the namespace and the pair are gone.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, Socket, Type};

use crate::child::Process;
use crate::run;

/// The gate's side. 198.18.0.0/15 is set aside for measurements between networks, so no real host has it.
const GATE: Ipv4Addr = Ipv4Addr::new(198, 18, 77, 1);
/// Visitors get the addresses from here on.
const FIRST_VISITOR: u8 = 10;
/// How many addresses the far end has.
const VISITORS_MAX: u8 = 200;

/// The pair's name on our side; the far end has the same with a `v`.
fn interface() -> String {
    format!("gate{}", std::process::id())
}

/// The network; gone when dropped.
#[derive(Debug)]
pub(super) struct Network {
    holder: Process,
    interface: String,
}

impl Network {
    /// Makes it. Needs root and iproute2.
    pub(super) fn make(folder: &Path) -> Result<Self> {
        let unshare = run::find("unshare").context("no command unshare")?;
        let mut holder = Process::start(
            &unshare,
            &["--net", "sleep", "infinity"],
            &folder.join("namespace.log"),
        )?;
        let link = format!("/proc/{}/ns/net", holder.id());
        let ours = std::fs::read_link("/proc/self/ns/net").context("no network namespaces")?;
        holder.until(Duration::from_secs(5), || {
            std::fs::read_link(&link).is_ok_and(|theirs| theirs != ours)
        })?;
        let network = Self {
            holder,
            interface: interface(),
        };
        network.set_up()?;
        Ok(network)
    }

    fn set_up(&self) -> Result<()> {
        let (near, id) = (&self.interface, self.holder.id());
        let far = format!("{near}v");
        ip(&format!(
            "link add {near} type veth peer name {far} netns {id}"
        ))?;
        ip(&format!("addr add {GATE}/24 dev {near}"))?;
        ip(&format!("link set {near} up"))?;
        self.ip_inside(&format!("link set {far} up"))?;
        self.ip_inside("link set lo up")?;
        let addresses: String = (0..VISITORS_MAX)
            .map(|seat| {
                let host = FIRST_VISITOR.saturating_add(seat);
                format!("addr add 198.18.77.{host}/24 dev {far}\n")
            })
            .collect();
        self.batch_inside(&addresses)
    }

    /// The interface on the gate's side.
    pub(super) fn interface(&self) -> &str {
        &self.interface
    }

    /// The gate's address in this network.
    pub(super) fn gate(&self) -> Ipv4Addr {
        GATE
    }

    /// Moves the calling thread to the visitors' side. There is no way back for it.
    pub(super) fn enter(&self) -> Result<()> {
        let link = format!("/proc/{}/ns/net", self.holder.id());
        let file = File::open(&link).with_context(|| format!("cannot open {link}"))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .context("cannot enter the visitors' namespace")
    }

    /// Connects from the address of this seat. For threads that have entered.
    pub(super) fn connect(
        &self,
        seat: u32,
        to: SocketAddr,
        patience: Duration,
    ) -> io::Result<TcpStream> {
        let seat = u8::try_from(seat % u32::from(VISITORS_MAX)).unwrap_or(0);
        let own = Ipv4Addr::new(198, 18, 77, FIRST_VISITOR.saturating_add(seat));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::V4(SocketAddrV4::new(own, 0)).into())?;
        socket.connect_timeout(&to.into(), patience)?;
        Ok(socket.into())
    }

    fn ip_inside(&self, words: &str) -> Result<()> {
        self.batch_inside(&format!("{words}\n"))
    }

    fn batch_inside(&self, lines: &str) -> Result<()> {
        use std::io::Write;
        let mut child = Command::new("nsenter")
            .args(["--target", &self.holder.id().to_string(), "--net"])
            .args(["ip", "-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start nsenter")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin
                .write_all(lines.as_bytes())
                .context("cannot write to ip")?;
        }
        let status = child.wait().context("ip did not end")?;
        if !status.success() {
            bail!("ip failed in the visitors' namespace: {status}");
        }
        Ok(())
    }
}

fn ip(words: &str) -> Result<()> {
    let program = run::find("ip").context("no command ip")?;
    let output = Command::new(program)
        .args(words.split(' '))
        .stdin(Stdio::null())
        .output()
        .context("cannot start ip")?;
    if !output.status.success() {
        bail!(
            "ip {words}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
