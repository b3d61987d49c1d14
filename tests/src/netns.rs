//! Network namespaces of the test's own, joined by a pair of virtual interfaces: a gate's host and its clients'.
//!
//! Names carry the process id, so that runs side by side do not meet; what a killed run left behind is removed by the next one.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

const PREFIX: &str = "gate-t";
/// The interface's name in either namespace.
pub const INTERFACE: &str = "veth0";
/// Long enough for a handshake on a loaded machine, and below the second after which a lost SYN is sent again.
pub const CONNECT_WAIT: Duration = Duration::from_millis(700);

/// A network namespace. Dropping it removes it and the interfaces in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new one with its loopback interface up.
    ///
    /// # Panics
    /// Where it cannot be made.
    #[track_caller]
    pub fn new(role: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_leftovers();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{role}", std::process::id());
        ip(&["netns", "add", &name]);
        let namespace = Self { name };
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    /// Its name, as `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these words inside and gives what it prints.
    ///
    /// # Panics
    /// Where it fails.
    #[track_caller]
    pub fn ip(&self, words: &[&str]) -> String {
        let mut all = vec!["-n", &self.name];
        all.extend(words);
        ip(&all)
    }

    /// Runs something on a thread of its own inside.
    ///
    /// # Panics
    /// Where it does.
    pub fn run<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> T {
        let file = File::open(Path::new("/run/netns").join(&self.name)).expect("the namespace");
        let ran = thread::scope(|scope| {
            scope
                .spawn(|| {
                    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                        .expect("into the namespace");
                    inside()
                })
                .join()
        });
        match ran {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Whether an XDP program is on the interface.
    pub fn carries_program(&self, interface: &str) -> bool {
        self.ip(&["-d", "link", "show", "dev", interface])
            .contains("prog/xdp")
    }

    /// A listening socket inside whose connections wait in its queue.
    ///
    /// # Panics
    /// Where the address cannot be bound.
    #[track_caller]
    pub fn listen(&self, address: &str) -> TcpListener {
        let address: SocketAddr = address.parse().expect("an address and a port");
        self.run(|| {
            let listening = || -> io::Result<TcpListener> {
                let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
                socket.bind(&SockAddr::from(address))?;
                // As long as the system allows: a flood keeps whoever accepts from the processor.
                socket.listen(i32::MAX)?;
                Ok(socket.into())
            };
            listening().unwrap_or_else(|error| panic!("{address}: {error}"))
        })
    }

    /// Whether one connection from an address inside comes about in time. It is closed at once.
    pub fn connects(&self, from: &str, to: SocketAddr) -> bool {
        self.connected(from, to, 1) == 1
    }

    /// How many of so many connections come about, one after the other.
    ///
    /// # Panics
    /// Where the machine has no socket.
    pub fn connected(&self, from: &str, to: SocketAddr, times: usize) -> usize {
        let from: IpAddr = from.parse().expect("an address");
        self.run(|| (0..times).filter(|_| connect(from, to).is_ok()).count())
    }

    /// Sends SYNs to `to` inside IPv4 packets whose source is whatever `source` says, as fast as it goes.
    ///
    /// # Panics
    /// Where raw sockets are refused.
    pub fn flood(&self, to: SocketAddr, count: u32, source: impl Fn(u32) -> [u8; 4] + Sync) {
        self.run(|| {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))
                .expect("a raw socket");
            socket.set_header_included_v4(true).expect("own headers");
            let target = SockAddr::from(SocketAddr::new(to.ip(), 0));
            let template = crate::frames::Frame::syn("192.0.2.1:4000", &to.to_string()).bytes();
            // The kernel writes the Ethernet header and the IP checksum.
            let mut packet = template[14..].to_vec();
            for number in 0..count {
                packet[12..16].copy_from_slice(&source(number));
                loop {
                    match socket.send_to(&packet, &target) {
                        Ok(_) => break,
                        Err(error) if error.raw_os_error() == Some(105) => thread::yield_now(),
                        Err(error) => panic!("a flood packet: {error}"),
                    }
                }
            }
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        quiet_ip(&["netns", "del", &self.name]);
    }
}

fn connect(from: IpAddr, to: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&SockAddr::from(SocketAddr::new(from, 0)))?;
    // Gone without a trace: thousands of connections must not leave thousands of ports waiting.
    socket.set_linger(Some(Duration::ZERO))?;
    socket.connect_timeout(&SockAddr::from(to), CONNECT_WAIT)?;
    drop(TcpStream::from(socket));
    Ok(())
}

/// A gate's host and its clients' host, directly connected.
#[derive(Debug)]
pub struct Pair {
    pub gate: Namespace,
    pub client: Namespace,
}

impl Pair {
    /// The gate's host has `10.77.0.1/16`, `fd77::1/64` and `fd77:2::1/64`; the clients' has `10.77.0.2` to `.5`, `fd77::2` and
    /// `fd77:2::2`.
    ///
    /// # Panics
    /// Where it cannot be made.
    #[track_caller]
    pub fn new() -> Self {
        Self::with_queues(1, 1)
    }

    /// The same with so many receive queues at the gate and transmit queues at the client: more of the latter, and the driver
    /// refuses native XDP.
    ///
    /// # Panics
    /// Where it cannot be made.
    #[track_caller]
    pub fn with_queues(gate_receives: u32, client_sends: u32) -> Self {
        let pair = Self {
            gate: Namespace::new("gate"),
            client: Namespace::new("client"),
        };
        let (gate, client) = (&pair.gate, &pair.client);
        gate.ip(&[
            "link",
            "add",
            INTERFACE,
            "numrxqueues",
            &gate_receives.to_string(),
            "numtxqueues",
            "1",
            "type",
            "veth",
            "peer",
            "name",
            INTERFACE,
            "numrxqueues",
            "1",
            "numtxqueues",
            &client_sends.to_string(),
            "netns",
            &client.name,
        ]);
        let last = |first: u32| (first..first + 4).map(|host| format!("10.77.0.{host}/16"));
        let clients: Vec<String> = last(2).collect();
        let mut client_addresses: Vec<&str> = clients.iter().map(String::as_str).collect();
        client_addresses.extend(["fd77::2/64", "fd77:2::2/64"]);
        for (side, addresses) in [
            (gate, &["10.77.0.1/16", "fd77::1/64", "fd77:2::1/64"][..]),
            (client, &client_addresses[..]),
        ] {
            for address in addresses {
                let family = if address.contains(':') { "-6" } else { "-4" };
                let mut words = vec![family, "address", "add", address, "dev", INTERFACE];
                if family == "-6" {
                    // Duplicate detection would keep the address from being used for a second.
                    words.push("nodad");
                }
                side.ip(&words);
            }
            side.ip(&["link", "set", INTERFACE, "up"]);
        }
        pair
    }
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

#[track_caller]
fn ip(words: &[&str]) -> String {
    let output = Command::new("ip")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("ip");
    assert!(
        output.status.success(),
        "ip {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn quiet_ip(words: &[&str]) {
    // What cannot be removed now is removed by the next run.
    let _ended = Command::new("ip")
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Removes the namespaces of test processes that are gone.
fn remove_leftovers() {
    let Ok(names) = std::fs::read_dir("/run/netns") else {
        return;
    };
    for name in names.flatten() {
        let name = name.file_name().to_string_lossy().into_owned();
        let process = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        if let Some(process) = process
            && !Path::new("/proc").join(process).exists()
        {
            quiet_ip(&["netns", "del", &name]);
        }
    }
}
