//! curl as the visitor: the real one, with a cookie jar of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// One visitor. The jar lives as long as this does.
#[derive(Debug)]
pub struct Curl {
    address: SocketAddr,
    host: String,
    words: Vec<String>,
    folder: TempDir,
}

/// What curl got.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code; 0 where there was no answer.
    pub status: u16,
    /// The body.
    pub body: String,
    /// curl's own exit code; 0 where it was content.
    pub exit: i32,
}

impl Answer {
    /// The `position` member of a waiting answer.
    pub fn position(&self) -> Option<u64> {
        let json: Value = serde_json::from_str(&self.body).ok()?;
        json["position"].as_u64()
    }
}

impl Curl {
    /// A visitor of `host` that connects to `address` whatever the name says.
    ///
    /// # Panics
    /// Where there is no temporary folder.
    pub fn new(address: SocketAddr, host: &str) -> Self {
        Self {
            address,
            host: host.to_owned(),
            words: Vec::new(),
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// The same, with more words on the command line.
    #[must_use]
    pub fn with(mut self, words: &[&str]) -> Self {
        self.words
            .extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Where it connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The cookie jar's file, in Netscape format.
    pub fn jar(&self) -> PathBuf {
        self.folder.path().join("jar")
    }

    /// The cookies in the jar, as name and value.
    pub fn cookies(&self) -> Vec<(String, String)> {
        let jar = std::fs::read_to_string(self.jar()).unwrap_or_default();
        jar.lines()
            .filter_map(|line| {
                let line = line.strip_prefix("#HttpOnly_").unwrap_or(line);
                let fields: Vec<&str> = line.split('\t').collect();
                match fields[..] {
                    [_, _, _, _, _, name, value] => Some((name.to_owned(), value.to_owned())),
                    _ => None,
                }
            })
            .collect()
    }

    /// Asks for a path and waits for the answer.
    ///
    /// # Panics
    /// Where curl cannot be run.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.begin(path).finish()
    }

    /// Asks for a path without waiting: several visitors at once.
    ///
    /// # Panics
    /// Where curl cannot be started.
    #[track_caller]
    pub fn begin(&self, path: &str) -> Pending {
        let jar = self.jar();
        let child = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--max-time",
                "60",
                "--path-as-is",
            ])
            .arg("--connect-to")
            .arg(format!("::{}:{}", self.address.ip(), self.address.port()))
            .arg("--cookie")
            .arg(&jar)
            .arg("--cookie-jar")
            .arg(&jar)
            .args(["--write-out", "\n%{http_code}"])
            .args(&self.words)
            .arg(format!("http://{}{path}", self.host))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start curl: {error}"));
        Pending { child }
    }
}

/// A request on its way.
#[derive(Debug)]
pub struct Pending {
    child: Child,
}

impl Pending {
    /// Waits for the answer. curl itself gives up after a minute.
    ///
    /// # Panics
    /// Where curl's output cannot be read.
    #[track_caller]
    pub fn finish(self) -> Answer {
        let output = self.child.wait_with_output().expect("curl's output");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').unwrap_or(("", "0"));
        Answer {
            status: status.trim().parse().unwrap_or(0),
            body: body.to_owned(),
            exit: output.status.code().unwrap_or(-1),
        }
    }
}
