//! `[cluster]` of the configuration: what a gate needs to know to share its rooms. Valid by construction.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::room::shared::{GATES_MAX, GateNumber};

/// Longest name of a gate, a data center or a namespace, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The section as it stands in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawCluster {
    /// Where this gate is. Gates of one data center share a counter.
    pub data_center: String,
    /// This gate's name: no other gate of the cluster has it.
    pub gate: String,
    /// This gate's number, from 0; no other gate of the cluster has it.
    pub gate_number: u16,
    /// More than any gate's number, the same at every gate.
    #[serde(default = "default_gates_max")]
    pub gates_max: u16,
    /// `redis://[user:password@]host:port[/database]`, `rediss://` for TLS: the counter of all and the state of all gates.
    pub redis_url: String,
    /// The counter of this data center; without it there is none and new users ask the counter of all.
    pub data_center_redis_url: Option<String>,
    /// Read the password of `redis_url` from this file.
    pub redis_password_file: Option<PathBuf>,
    /// The same for `data_center_redis_url`.
    pub data_center_redis_password_file: Option<PathBuf>,
    /// Certificates (PEM) to trust in place of the system's.
    pub tls_ca_file: Option<PathBuf>,
    /// Begins every key.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    #[serde(default = "default_publish_interval_ms")]
    pub publish_interval_ms: u64,
    #[serde(default = "default_counter_timeout_ms")]
    pub counter_timeout_ms: u64,
    /// Not heard from for this long, a gate is absent.
    #[serde(default = "default_absent_seconds")]
    pub gate_absent_seconds: u64,
    /// Beyond a session's duration, for how long slots of an absent gate are held.
    #[serde(default = "default_gate_hold_seconds")]
    pub gate_hold_seconds: u64,
    /// For how long slots of a data center are held of which no gate is heard.
    #[serde(default = "default_data_center_hold_seconds")]
    pub data_center_hold_seconds: u64,
}

impl Default for RawCluster {
    /// The defaults of every key that has one; the others are empty.
    fn default() -> Self {
        Self {
            data_center: String::new(),
            gate: String::new(),
            gate_number: 0,
            gates_max: default_gates_max(),
            redis_url: String::new(),
            data_center_redis_url: None,
            redis_password_file: None,
            data_center_redis_password_file: None,
            tls_ca_file: None,
            namespace: default_namespace(),
            publish_interval_ms: default_publish_interval_ms(),
            counter_timeout_ms: default_counter_timeout_ms(),
            gate_absent_seconds: default_absent_seconds(),
            gate_hold_seconds: default_gate_hold_seconds(),
            data_center_hold_seconds: default_data_center_hold_seconds(),
        }
    }
}

fn default_gates_max() -> u16 {
    16
}
fn default_namespace() -> String {
    "gate".to_owned()
}
fn default_publish_interval_ms() -> u64 {
    1000
}
fn default_counter_timeout_ms() -> u64 {
    250
}
fn default_absent_seconds() -> u64 {
    3
}
fn default_gate_hold_seconds() -> u64 {
    30
}
fn default_data_center_hold_seconds() -> u64 {
    1800
}

/// One thing wrong with the section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub key: &'static str,
    pub value: String,
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cluster.{} = {}: allowed is {}",
            self.key, self.value, self.allowed
        )
    }
}

/// Where a counter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub url: String,
    pub password_file: Option<PathBuf>,
}

/// The section, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    pub data_center: String,
    pub gate: String,
    pub number: GateNumber,
    pub global: Server,
    pub local: Option<Server>,
    pub tls_ca_file: Option<PathBuf>,
    pub namespace: String,
    pub publish_interval: Duration,
    pub counter_timeout: Duration,
    pub absent_millis: u64,
    pub gate_hold_millis: u64,
    pub data_center_hold_millis: u64,
}

impl ClusterSettings {
    /// Checks everything and says all that is wrong at once.
    pub fn new(raw: RawCluster) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut refuse = |key, value: String, allowed: &str| {
            problems.push(Problem {
                key,
                value,
                allowed: allowed.to_owned(),
            });
        };
        for (key, name) in [
            ("data_center", &raw.data_center),
            ("gate", &raw.gate),
            ("namespace", &raw.namespace),
        ] {
            let plain = name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            if name.is_empty() || name.len() > NAME_BYTES_MAX || !plain {
                refuse(
                    key,
                    format!("{name:?}"),
                    "1 to 64 of the characters A-Z a-z 0-9 - _ .",
                );
            }
        }
        if !(1..=GATES_MAX).contains(&raw.gates_max) {
            refuse("gates_max", raw.gates_max.to_string(), "1 to 64");
        }
        let number = GateNumber::new(raw.gate_number, raw.gates_max);
        if number.is_none() {
            refuse(
                "gate_number",
                raw.gate_number.to_string(),
                "a number below gates_max",
            );
        }
        let urls = [
            ("redis_url", Some(&raw.redis_url)),
            ("data_center_redis_url", raw.data_center_redis_url.as_ref()),
        ];
        for (key, url) in urls {
            let Some(url) = url else { continue };
            if !(url.starts_with("redis://") || url.starts_with("rediss://"))
                || redis::Client::open(url.as_str()).is_err()
            {
                // Not the value: it may hold a password.
                refuse(
                    key,
                    "…".to_owned(),
                    "redis://[user:password@]host:port[/database] or rediss://…",
                );
            }
        }
        for (key, value, least, most) in [
            ("publish_interval_ms", raw.publish_interval_ms, 100, 10_000),
            ("counter_timeout_ms", raw.counter_timeout_ms, 1, 10_000),
            ("gate_absent_seconds", raw.gate_absent_seconds, 1, 60),
            ("gate_hold_seconds", raw.gate_hold_seconds, 6, 86_400),
            (
                "data_center_hold_seconds",
                raw.data_center_hold_seconds,
                6,
                86_400,
            ),
        ] {
            if !(least..=most).contains(&value) {
                refuse(key, value.to_string(), &format!("{least} to {most}"));
            }
        }
        match number {
            Some(number) if problems.is_empty() => Ok(Self {
                number,
                local: raw.data_center_redis_url.map(|url| Server {
                    url,
                    password_file: raw.data_center_redis_password_file,
                }),
                global: Server {
                    url: raw.redis_url,
                    password_file: raw.redis_password_file,
                },
                data_center: raw.data_center,
                gate: raw.gate,
                tls_ca_file: raw.tls_ca_file,
                namespace: raw.namespace,
                publish_interval: Duration::from_millis(raw.publish_interval_ms),
                counter_timeout: Duration::from_millis(raw.counter_timeout_ms),
                absent_millis: raw.gate_absent_seconds * 1000,
                gate_hold_millis: raw.gate_hold_seconds * 1000,
                data_center_hold_millis: raw.data_center_hold_seconds * 1000,
            }),
            Some(_) | None => Err(problems),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        data_center = "fra"
        gate = "fra-1"
        gate_number = 3
        redis_url = "redis://:secret@127.0.0.1:6379/2"
    "#;

    fn read(text: &str) -> Result<ClusterSettings, Vec<Problem>> {
        ClusterSettings::new(toml::from_str(text).unwrap())
    }

    #[test]
    fn four_keys_are_enough() {
        let settings = read(GOOD).unwrap();
        assert_eq!(settings.local, None);
        assert_eq!(settings.namespace, "gate");
        assert_eq!(settings.publish_interval, Duration::from_secs(1));
    }

    #[test]
    fn everything_wrong_is_said_at_once_and_no_password() {
        let text = GOOD
            .replace("fra-1", "a b")
            .replace("= 3", "= 16")
            .replace("redis://", "http://")
            + "counter_timeout_ms = 0";
        let problems = read(&text).unwrap_err();
        let keys: Vec<_> = problems.iter().map(|problem| problem.key).collect();
        assert_eq!(
            keys,
            ["gate", "gate_number", "redis_url", "counter_timeout_ms"]
        );
        for problem in problems {
            assert!(!problem.to_string().contains("secret"));
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(toml::from_str::<RawCluster>(&format!("{GOOD}\nport = 1")).is_err());
    }
}
