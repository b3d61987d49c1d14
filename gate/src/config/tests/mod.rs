//! Every kind of fault, each with its file, line, key, value and what is allowed; and configurations that are good.

use std::path::Path;

use super::*;

mod accepted;
mod rooms;
mod values;

/// Six lines; the room begins at line 3, and what a test adds to it at line 7.
const HEAD: &str = "listen = \"127.0.0.1:8000\"
origin = \"http://127.0.0.1:8080\"
[[rooms]]
name = \"a\"
total_active_users = 10
new_users_per_minute = 5
";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("gate.toml"))
}

/// What is said about a text, a line for each fault.
fn complaint(text: &str) -> String {
    match parse(text) {
        Ok(_) => String::from("(accepted)"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn complains(text: &str, expected: &[&str]) {
    let found = complaint(text);
    for part in expected {
        assert!(
            found.contains(part),
            "{part:?} is not in\n{found}\nabout\n{text}"
        );
    }
    assert_eq!(
        found.lines().count(),
        expected.len(),
        "one line each:\n{found}\nabout\n{text}"
    );
}

/// Each row: what stands in the room, and what is said of it.
fn room_rows(rows: &[(&str, &[&str])]) {
    for (added, expected) in rows {
        complains(&format!("{HEAD}{added}"), expected);
    }
}
