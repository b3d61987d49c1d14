//! The demo's gate: the built binary with a configuration of its own, and what it says about itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::network::Network;
use super::room::{REFRESH_SECONDS, ROOMS};
use super::wire::Message;
use crate::child::Process;

/// How long the gate may take to start, to stop, and to answer.
const START: Duration = Duration::from_secs(20);
const STOP: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(2);

/// A running gate.
#[derive(Debug)]
pub(super) struct Gate {
    process: Process,
    address: SocketAddr,
    for_visitors: SocketAddr,
    admin: SocketAddr,
}

/// What the gate says of one room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoomStatus {
    pub(super) active: u64,
    pub(super) waiting: u64,
    pub(super) in_the_last_minute: u64,
}

impl Gate {
    /// Starts it in front of `origin`, on `port` where that is free, with the kernel part in monitor mode on the demo's own
    /// network.
    pub(super) fn start(
        binary: &Path,
        folder: &Path,
        origin: SocketAddr,
        port: u16,
        network: Option<&Network>,
    ) -> Result<Self> {
        let address = free(Ipv4Addr::LOCALHOST, port)?;
        let admin = free(Ipv4Addr::LOCALHOST, if port == 0 { 0 } else { port + 1 })?;
        let for_visitors = match network {
            Some(network) => free(network.gate(), port)?,
            None => address,
        };
        for old in ["state", "keys", "gate.toml"] {
            // Most often there is none.
            fs::remove_file(folder.join(old)).ok();
        }
        let configuration = configuration(
            folder,
            origin,
            &[address, for_visitors],
            admin,
            network.map(Network::interface),
        );
        let file = folder.join("gate.toml");
        fs::write(&file, configuration)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let words = ["serve", "--config", &file.display().to_string()];
        let mut process = Process::start(binary, &words, &folder.join("gate.log"))?;
        process.until(START, || {
            [address, for_visitors, admin]
                .iter()
                .all(|at| TcpStream::connect(at).is_ok())
        })?;
        Ok(Self {
            process,
            address,
            for_visitors,
            admin,
        })
    }

    /// Where people find it.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where demo visitors find it.
    pub(super) fn for_visitors(&self) -> SocketAddr {
        self.for_visitors
    }

    /// Where it answers for itself.
    pub(super) fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Fails where it has ended.
    pub(super) fn must_run(&mut self) -> Result<()> {
        self.process.must_run()
    }

    /// Stops it as an operator does.
    pub(super) fn stop(&mut self) -> Result<()> {
        let status = self.process.stop(STOP)?;
        anyhow::ensure!(
            status.success(),
            "the gate ended with {status}:\n{}",
            self.process.log()
        );
        Ok(())
    }

    /// What it says of each room, by name.
    pub(super) fn status(&self) -> Result<BTreeMap<String, RoomStatus>> {
        let json = ask(self.admin, "/status")?;
        rooms(&json).context("the status names no rooms")
    }

    /// The kernel part's counters that are not zero, as `reason=packets`.
    pub(super) fn kernel(&self) -> Vec<String> {
        ask(self.admin, "/status")
            .ok()
            .map(|json| counters(&json["kernel"]["reasons"]))
            .unwrap_or_default()
    }
}

fn rooms(json: &Value) -> Option<BTreeMap<String, RoomStatus>> {
    let rooms = json["rooms"].as_array()?;
    rooms
        .iter()
        .map(|room| {
            let count = |name: &str| room[name].as_u64();
            let status = RoomStatus {
                active: count("active_users")?,
                waiting: count("queued_users")?,
                in_the_last_minute: count("new_users_last_minute")?,
            };
            Some((room["name"].as_str()?.to_owned(), status))
        })
        .collect()
}

fn counters(json: &Value) -> Vec<String> {
    json.as_array()
        .into_iter()
        .flatten()
        .filter_map(|counter| Some((counter["reason"].as_str()?, counter["packets"].as_u64()?)))
        .filter(|(_, packets)| *packets > 0)
        .map(|(reason, packets)| format!("{reason}={packets}"))
        .collect()
}

fn ask(address: SocketAddr, path: &str) -> Result<Value> {
    let stream = TcpStream::connect_timeout(&address, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
    );
    (&stream).write_all(head.as_bytes())?;
    let message = Message::read(&mut BufReader::new(&stream))?.context("no answer")?;
    serde_json::from_slice(&message.body).context("no JSON")
}

/// An address nobody listens on: with this port where it is free.
fn free(ip: Ipv4Addr, port: u16) -> Result<SocketAddr> {
    let listener = TcpListener::bind((ip, port))
        .or_else(|_| TcpListener::bind((ip, 0)))
        .with_context(|| format!("no free port on {ip}"))?;
    listener.local_addr().context("no address")
}

fn configuration(
    folder: &Path,
    origin: SocketAddr,
    listen: &[SocketAddr],
    admin: SocketAddr,
    interface: Option<&str>,
) -> String {
    let mut listen: Vec<String> = listen.iter().map(|at| format!("\"{at}\"")).collect();
    listen.dedup();
    let folder = folder.display();
    let mut text = format!(
        "listen = [{}]\norigin = \"http://{origin}\"\nstate_file = \"{folder}/state\"\nkey_file = \"{folder}/keys\"\n\
         admin = \"{admin}\"\n",
        listen.join(", ")
    );
    if let Some(interface) = interface {
        text.push_str(&format!(
            "\n[kernel]\ninterfaces = [\"{interface}\"]\nmode = \"monitor\"\n"
        ));
    }
    for room in &ROOMS {
        text.push_str(&format!(
            "\n[[rooms]]\nname = \"{}\"\npath = \"{}\"\ntotal_active_users = {}\nnew_users_per_minute = {}\n\
             session_duration = {}\nadmission_pacing = \"{}\"\nrefresh_interval_seconds = {REFRESH_SECONDS}\n\
             json_response_enabled = true\nenabled_origin_commands = [\"revoke\"]\ncookie_suffix = \"{}\"\n",
            room.name,
            room.path,
            room.total_active_users,
            room.new_users_per_minute,
            room.session.as_secs() / 60,
            room.pacing,
            room.name,
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_the_status() {
        let json = json!({ "rooms": [
            { "name": "shop", "active_users": 5, "queued_users": 3, "new_users_last_minute": 4 },
        ] });
        let rooms = rooms(&json).unwrap();
        let expected = RoomStatus {
            active: 5,
            waiting: 3,
            in_the_last_minute: 4,
        };
        assert_eq!(rooms.get("shop"), Some(&expected));
        assert_eq!(super::rooms(&json!({})), None);
    }

    #[test]
    fn shows_counters_that_are_not_zero() {
        let json = json!([
            { "reason": "pass", "packets": 2 },
            { "reason": "drop", "packets": 0 },
        ]);
        assert_eq!(counters(&json), ["pass=2"]);
        assert!(counters(&Value::Null).is_empty());
    }
}
