//! nginx as the origin: the real one, one process, on a port of its own, with an access log that tests count.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::need;
use crate::netns::Namespace;
use crate::ports;
use crate::process::Process;
use crate::wait::{DEADLINE, until};

/// One line of its access log.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The request line's method.
    pub method: String,
    /// The request line's target, as nginx got it.
    pub target: String,
    /// The status nginx answered.
    pub status: u16,
    /// `Host` as it arrived.
    pub host: String,
    /// `Cookie` as it arrived, empty where there was none.
    pub cookie: String,
    /// `X-Forwarded-For` as it arrived.
    pub forwarded_for: String,
    /// `X-Visitor` as it arrived: what tests name their visitors by.
    pub visitor: String,
}

/// A running nginx.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    address: SocketAddr,
    folder: TempDir,
}

impl Nginx {
    /// An origin that answers every path with a small page.
    #[track_caller]
    pub fn start() -> Self {
        Self::with("location / { default_type text/html; return 200 \"<h1>the origin</h1>\\n\"; }")
    }

    /// An origin with these directives in its one `server` block.
    ///
    /// # Panics
    /// Where nginx does not start.
    #[track_caller]
    pub fn with(server: &str) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let folder = prepared(address, server);
        let process = launch(folder.path(), address);
        Self {
            process,
            address,
            folder,
        }
    }

    /// The same as [`Nginx::start`] on the loopback address of a namespace.
    ///
    /// # Panics
    /// Where nginx does not start.
    #[track_caller]
    pub fn start_in(namespace: &Namespace) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        let folder = prepared(address, "location / { return 200 \"the origin\"; }");
        let mut words = vec!["netns", "exec", namespace.name(), "nginx"];
        let prefix = folder.path().display().to_string();
        words.extend(words_of(&prefix));
        let ip = need::command("ip").expect("ip: ask for Need::Command(\"ip\") first");
        let mut process = Process::start(&ip, &words);
        until("nginx accepts connections", DEADLINE, || {
            assert!(process.is_running(), "nginx ended: {}", process.log());
            namespace.connects("127.0.0.1", address).then_some(())
        });
        Self {
            process,
            address,
            folder,
        }
    }

    /// Starts it again where it was.
    #[track_caller]
    pub fn start_again(&mut self) {
        self.process = launch(self.folder.path(), self.address);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request that has reached it. nginx writes a line when a request is over, so a very recent one may be missing.
    pub fn hits(&self) -> Vec<Hit> {
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        log.lines().filter_map(hit).collect()
    }

    /// Waits until this many requests have reached it, and gives all there are.
    ///
    /// # Panics
    /// Where it takes too long.
    #[track_caller]
    pub fn hits_at_least(&self, count: usize) -> Vec<Hit> {
        until(&format!("{count} requests at the origin"), DEADLINE, || {
            let hits = self.hits();
            (hits.len() >= count).then_some(hits)
        })
    }

    /// Stops it: the origin is down.
    pub fn stop(&mut self) {
        self.process.signal(rustix::process::Signal::TERM);
        self.process.wait(Duration::from_secs(10));
    }
}

#[track_caller]
fn launch(folder: &Path, address: SocketAddr) -> Process {
    let program = need::command("nginx").expect("nginx: ask for Need::Command(\"nginx\") first");
    let prefix = folder.display().to_string();
    let mut process = Process::start(&program, &words_of(&prefix));
    until("nginx accepts connections", DEADLINE, || {
        assert!(process.is_running(), "nginx ended: {}", process.log());
        std::net::TcpStream::connect(address).ok()
    });
    process
}

fn words_of(prefix: &str) -> [&str; 6] {
    ["-p", prefix, "-e", "stderr", "-c", "nginx.conf"]
}

fn prepared(address: SocketAddr, server: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    let configuration = configuration(&at.display().to_string(), address, server);
    fs::write(at.join("nginx.conf"), configuration).expect("its configuration");
    folder
}

fn configuration(folder: &str, address: SocketAddr, server: &str) -> String {
    let owner = if rustix::process::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("  {name}_temp_path {folder}/{name};\n"))
        .concat();
    format!(
        "{owner}
daemon off;
master_process off;
pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
{temporary}
  log_format hits escape=json '{{\"method\":\"$request_method\",\"target\":\"$request_uri\",\"status\":$status,'
    '\"host\":\"$http_host\",\"cookie\":\"$http_cookie\",\"forwarded_for\":\"$http_x_forwarded_for\",'
    '\"visitor\":\"$http_x_visitor\"}}';
  access_log {folder}/access.log hits;
  client_max_body_size 0;
  keepalive_requests 1000000;
  server {{
    listen {address} backlog=1024;
{server}
  }}
}}
"
    )
}

fn hit(line: &str) -> Option<Hit> {
    let json: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| json[name].as_str().unwrap_or("").to_owned();
    Some(Hit {
        method: text("method"),
        target: text("target"),
        status: u16::try_from(json["status"].as_u64()?).ok()?,
        host: text("host"),
        cookie: text("cookie"),
        forwarded_for: text("forwarded_for"),
        visitor: text("visitor"),
    })
}
