//! `gate check`: what an operator reads before a configuration goes live.

use std::fs;
use std::path::Path;

use gate_tests::gate::run;

fn fixture(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("configs")
        .join(name);
    file.display().to_string()
}

#[test]
fn good_files_are_accepted() {
    for (name, rooms) in [("flash-sale.toml", "1 room\n"), ("full.toml", "3 rooms\n")] {
        let file = fixture(name);
        let (code, out, err) = run(&["check", "--config", &file]);
        assert_eq!((code, err.as_str()), (0, ""), "{name}");
        assert_eq!(out, format!("{file}: ok, {rooms}"));
    }
}

#[test]
fn every_fault_is_listed_and_the_exit_code_is_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    fs::write(
        &file,
        "listen = \"127.0.0.1:0\"
origin = \"http://127.0.0.1:1\"
[[rooms]]
name = \"shop\"
total_active_users = 5
new_users_per_minute = 6
sesion_duration = 5
queueing_status_code = 500
[[rooms.events]]
name = \"sale\"
event_start_time = 2026-11-27T09:00:00Z
event_end_time = 2026-11-27T09:00:30Z
",
    )
    .unwrap();
    let file = file.display().to_string();
    let (code, out, err) = run(&["check", "--config", &file]);
    assert_eq!((code, out.as_str()), (2, ""));
    for expected in [
        ":6: rooms[0].new_users_per_minute = 6: must be at most total_active_users, which is 5",
        ":7: rooms[0].sesion_duration = 5: unknown key; did you mean `session_duration`?",
        ":8: rooms[0].queueing_status_code = 500: must be 200, 202 or 429",
        ":12: rooms[0].events[0].event_end_time = 2026-11-27T09:00:30Z: event_end_time must be at least 1 minute after event_start_time",
    ] {
        let expected = format!("{file}{expected}\n");
        assert!(err.contains(&expected), "{expected} is not in\n{err}");
    }
    assert_eq!(err.lines().count(), 4, "{err}");
    // Serving it is refused for the same reasons.
    let (code, _, err) = run(&["serve", "--config", &file]);
    assert_eq!(code, 2);
    assert!(err.contains("must be 200, 202 or 429"), "{err}");
}

#[test]
fn a_file_that_is_not_there_is_a_bad_order() {
    let (code, out, err) = run(&["check", "--config", "/nowhere/gate.toml"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("/nowhere/gate.toml: cannot be read: No such file or directory"),
        "{err}"
    );
    assert_eq!(run(&["check"]).0, 2);
}

#[test]
fn limits_reversed_in_the_quick_form() {
    let (code, _, err) = run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--origin",
        "http://127.0.0.1:1",
        "--total-active-users",
        "5",
        "--new-users-per-minute",
        "6",
    ]);
    assert_eq!(code, 2);
    assert!(
        err.contains("command line: --new-users-per-minute = 6: must be at most total_active_users, which is 5"),
        "{err}"
    );
}
