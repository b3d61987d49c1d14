//! Redis from Debian, on a port of its own, in memory only.

use std::net::{SocketAddr, TcpStream};

use tempfile::TempDir;

use crate::need;
use crate::ports;
use crate::process::Process;
use crate::wait::{DEADLINE, until};

/// A running Redis.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    address: SocketAddr,
    _folder: TempDir,
}

impl Redis {
    /// Starts one.
    ///
    /// # Panics
    /// Where it does not start.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], ports::free())), &[])
    }

    /// Starts one at an address (to come back where another was), with more command line words.
    ///
    /// # Panics
    /// Where it does not start.
    #[track_caller]
    pub fn start_at(address: SocketAddr, words: &[&str]) -> Self {
        let program = need::command("redis-server")
            .expect("redis-server: ask for Need::Command(\"redis-server\") first");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = address.port().to_string();
        let ip = address.ip().to_string();
        let mut all = vec!["--port", &port, "--bind", &ip, "--save", ""];
        all.extend(["--appendonly", "no", "--daemonize", "no"]);
        all.extend(words);
        let process = Process::start_with(&program, &all, |command| {
            command.current_dir(folder.path());
        });
        let mut redis = Self {
            process,
            address,
            _folder: folder,
        };
        until("redis accepts connections", DEADLINE, || {
            assert!(
                redis.process.is_running(),
                "redis ended: {}",
                redis.process.log()
            );
            TcpStream::connect(address).ok()
        });
        redis
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process, to stop, freeze or kill it.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
