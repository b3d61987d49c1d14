//! The quick form: one room on every path of every host, from flags alone.

use clap::Args;

use super::error::{ConfigError, Fault};
use super::tree::{Entry, Node, Table, Value};
use super::{Config, Surroundings};

/// Flags of `gate serve` without a file. Their values are checked as a file's are.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct QuickArgs {
    /// Address to listen on, as IP:PORT; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<String>,
    /// The web server behind the gate, as http://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub origin: Option<String>,
    /// Most visitors at the origin at any time
    #[arg(long, value_name = "NUMBER")]
    pub total_active_users: Option<i64>,
    /// Most visitors let in within any 60 seconds
    #[arg(long, value_name = "NUMBER")]
    pub new_users_per_minute: Option<i64>,
    /// How long a visitor's slot is kept after the last request
    #[arg(long, value_name = "MINUTES")]
    pub session_duration: Option<i64>,
    /// Network interface to protect in the kernel; may be given several times
    #[arg(long, value_name = "INTERFACE")]
    pub interface: Vec<String>,
    /// What the kernel part does with sources over their rate: off, monitor or enforce
    #[arg(long, value_name = "MODE")]
    pub xdp: Option<String>,
    /// File that keeps sessions and the line over a restart
    #[arg(long, value_name = "FILE")]
    pub state_file: Option<String>,
    /// File with the keys that seal tickets; created where it is missing
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<String>,
    /// Address of the admin endpoint, as IP:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
}

impl QuickArgs {
    /// The same as a file would say it.
    fn to_table(&self) -> Table {
        let text = |value: &Option<String>| value.as_ref().map(|v| Value::String(v.clone()));
        let number = |value: Option<i64>| value.map(|v| Value::Integer(Ok(v)));
        let list = |values: &[String]| {
            let items = values.iter().map(|v| node(Value::String(v.clone())));
            (!values.is_empty()).then(|| Value::Array(items.collect()))
        };
        let room = table([
            ("name", Some(Value::String("default".to_owned()))),
            ("total_active_users", number(self.total_active_users)),
            ("new_users_per_minute", number(self.new_users_per_minute)),
            ("session_duration", number(self.session_duration)),
        ]);
        let kernel = table([
            ("interfaces", list(&self.interface)),
            ("mode", text(&self.xdp)),
        ]);
        table([
            ("listen", list(&self.listen)),
            ("origin", text(&self.origin)),
            ("state_file", text(&self.state_file)),
            ("key_file", text(&self.key_file)),
            ("admin", text(&self.admin)),
            ("kernel", Some(Value::Table(kernel))),
            ("rooms", Some(Value::Array(vec![node(Value::Table(room))]))),
        ])
    }
}

fn node(value: Value) -> Node {
    Node { span: 0..0, value }
}

fn table<const N: usize>(entries: [(&str, Option<Value>); N]) -> Table {
    entries
        .into_iter()
        .filter_map(|(key, value)| {
            Some(Entry {
                key: key.to_owned(),
                key_span: 0..0,
                node: node(value?),
            })
        })
        .collect()
}

/// The flag that a key of the file stands for.
fn flag_of(key: &str) -> String {
    let key = match key.split_once('[') {
        Some(("rooms", rest)) => rest.trim_start_matches("0].").trim_start_matches("0]"),
        Some((list, _)) => list,
        None => key,
    };
    match key {
        "kernel.mode" => "--xdp".to_owned(),
        "kernel.interfaces" => "--interface".to_owned(),
        key => format!("--{}", key.replace('_', "-")),
    }
}

/// Builds a configuration from flags.
///
/// # Errors
/// Every fault, named by flag.
pub(super) fn config(arguments: &QuickArgs) -> Result<Config, ConfigError> {
    let around = Surroundings::working_directory();
    super::validate(
        &arguments.to_table(),
        super::fields::Report::without_text(),
        &around,
    )
    .map_err(|faults| ConfigError::Arguments {
        faults: faults
            .into_iter()
            .map(|fault| Fault {
                key: flag_of(&fault.key),
                ..fault
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> QuickArgs {
        QuickArgs {
            listen: vec!["127.0.0.1:8000".to_owned()],
            origin: Some("http://127.0.0.1:8080".to_owned()),
            total_active_users: Some(5),
            new_users_per_minute: Some(5),
            ..QuickArgs::default()
        }
    }

    #[test]
    fn flags_make_one_room_everywhere() {
        let config = config(&arguments()).unwrap();
        assert_eq!(config.listen, ["127.0.0.1:8000".parse().unwrap()]);
        let [room] = config.rooms.as_slice() else {
            panic!("{:?}", config.rooms);
        };
        assert_eq!(room.routes[0].host, crate::route::Host::Any);
        assert_eq!(room.routes[0].path.to_string(), "/");
        assert_eq!(room.plan.settings().limits.total_active_users(), 5);
        assert_eq!(room.plan.settings().session_duration.as_seconds(), 300);
        assert_eq!(room.cookie.name(), "__waitingroom");
    }

    #[test]
    fn faults_name_the_flag() {
        let mut bad = arguments();
        bad.new_users_per_minute = Some(6);
        bad.session_duration = Some(0);
        bad.xdp = Some("on".to_owned());
        bad.interface = vec!["a/b".to_owned()];
        bad.origin = None;
        let text = config(&bad).unwrap_err().to_string();
        for part in [
            "command line: --new-users-per-minute = 6: must be at most total_active_users, which is 5",
            "command line: --session-duration = 0: must be an integer from 1 to 1440",
            "command line: --xdp = \"on\": must be one of \"off\", \"monitor\", \"enforce\"",
            "command line: --interface = \"a/b\": must be an interface name",
            "command line: --origin: missing",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
