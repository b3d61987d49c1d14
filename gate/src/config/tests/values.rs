//! Faults of single values, and of texts as a whole.

use proptest::prelude::*;

use super::*;

#[test]
fn a_text_that_is_no_toml() {
    complains("listen = \n", &["gate.toml:1: not TOML: "]);
    complains("a = 1\nb = \"open\nc = 2\n", &["gate.toml:2: not TOML: "]);
    complains("a = 1\na = 2\n", &["gate.toml:2: not TOML: duplicate key"]);
}

#[test]
fn a_file_that_cannot_be_read() {
    let error = Config::load(Path::new("/nowhere/gate.toml")).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere/gate.toml: cannot be read");
    assert!(std::error::Error::source(&error).is_some());
    assert!(error.faults().is_empty());
}

#[test]
fn what_is_missing() {
    complains(
        "",
        &[
            "gate.toml:1: listen: missing; an address to listen on, as IP:PORT",
            "gate.toml:1: origin: missing; the web server behind the gate, as http://HOST:PORT",
            "gate.toml:1: rooms: missing; at least one [[rooms]]",
        ],
    );
    complains(
        "listen = \"127.0.0.1:1\"\norigin = \"http://a\"\n[[rooms]]\n",
        &[
            "gate.toml:3: rooms[0].name: missing",
            "gate.toml:3: rooms[0].total_active_users: missing",
            "gate.toml:3: rooms[0].new_users_per_minute: missing",
        ],
    );
    complains(
        "listen = \"127.0.0.1:1\"\norigin = \"http://a\"\nrooms = []\n",
        &["gate.toml:3: rooms = []: must hold at least one room"],
    );
}

#[test]
fn unknown_keys_and_the_nearest_known_one() {
    room_rows(&[
        (
            "sesion_duration = 5",
            &[
                "gate.toml:7: rooms[0].sesion_duration = 5: unknown key; did you mean `session_duration`?",
            ],
        ),
        (
            "Queue-All = true",
            &["gate.toml:7: rooms[0].Queue-All = true: unknown key; did you mean `queue_all`?"],
        ),
        (
            "xyz = 1",
            &["gate.toml:7: rooms[0].xyz = 1: unknown key; known here: name, "],
        ),
        (
            "[kernel]\nmod = \"off\"",
            &["gate.toml:8: kernel.mod = \"off\": unknown key; did you mean `mode`?"],
        ),
        (
            "[limits]\nhead_byte_max = 9000",
            &[
                "gate.toml:8: limits.head_byte_max = 9000: unknown key; did you mean `head_bytes_max`?",
            ],
        ),
    ]);
    complains(
        &format!("lisen = 1\n{HEAD}"),
        &["gate.toml:1: lisen = 1: unknown key; did you mean `listen`?"],
    );
}

#[test]
fn wrong_types() {
    room_rows(&[
        (
            "session_duration = \"5\"",
            &["gate.toml:7: rooms[0].session_duration = \"5\": must be an integer, not a string"],
        ),
        (
            "session_duration = 5.0",
            &[
                "gate.toml:7: rooms[0].session_duration = 5.0: must be an integer, not a number with a fraction",
            ],
        ),
        (
            "queue_all = 1",
            &["gate.toml:7: rooms[0].queue_all = 1: must be true or false, not an integer"],
        ),
        (
            "description = true",
            &["gate.toml:7: rooms[0].description = true: must be a string, not a boolean"],
        ),
        (
            "events = 3",
            &["gate.toml:7: rooms[0].events = 3: must be an array of tables, not an integer"],
        ),
        (
            "events = [3]",
            &["gate.toml:7: rooms[0].events[0] = 3: must be a table, not an integer"],
        ),
        (
            "cookie_attributes = \"lax\"",
            &["gate.toml:7: rooms[0].cookie_attributes = \"lax\": must be a table, not a string"],
        ),
        (
            "ticket_binding = \"user_agent\"",
            &[
                "gate.toml:7: rooms[0].ticket_binding = \"user_agent\": must be an array of strings, not a string",
            ],
        ),
        (
            "cors_allowed_origins = [1]",
            &[
                "gate.toml:7: rooms[0].cors_allowed_origins[0] = 1: must be a string, not an integer",
            ],
        ),
    ]);
}

#[test]
fn values_out_of_range() {
    room_rows(&[
        (
            "session_duration = 0",
            &["gate.toml:7: rooms[0].session_duration = 0: must be an integer from 1 to 1440"],
        ),
        (
            "session_duration = 99999999999999999999",
            &[
                "gate.toml:7: rooms[0].session_duration = 99999999999999999999: must be an integer from 1 to 1440",
            ],
        ),
        (
            "session_duration_seconds = -1",
            &[
                "gate.toml:7: rooms[0].session_duration_seconds = -1: must be an integer from 1 to 86400",
            ],
        ),
        (
            "session_duration = 1\nsession_duration_seconds = 1",
            &[
                "gate.toml:8: rooms[0].session_duration_seconds = 1: must not stand beside session_duration",
            ],
        ),
        (
            "refresh_interval_seconds = 0",
            &[
                "gate.toml:7: rooms[0].refresh_interval_seconds = 0: must be an integer from 1 to 300, or \"adaptive\"",
            ],
        ),
        (
            "refresh_interval_seconds_min = 5",
            &[
                "gate.toml:7: rooms[0].refresh_interval_seconds_min = 5: has no effect without refresh_interval_seconds = \"adaptive\"",
            ],
        ),
        (
            "refresh_interval_seconds = \"adaptive\"\nrefresh_interval_seconds_min = 50\nrefresh_interval_seconds_max = 40",
            &[
                "gate.toml:8: rooms[0].refresh_interval_seconds_min = 50: refresh_interval_seconds_min must be at most refresh_interval_seconds_max; they are 50 and 40",
            ],
        ),
        (
            "queue_place_grace_seconds = 9000",
            &[
                "gate.toml:7: rooms[0].queue_place_grace_seconds = 9000: must be an integer from 1 to 7200",
            ],
        ),
        (
            "waiters_max = 0",
            &["gate.toml:7: rooms[0].waiters_max = 0: must be an integer from 1 to 100000000"],
        ),
        (
            "queueing_status_code = 201",
            &["gate.toml:7: rooms[0].queueing_status_code = 201: must be 200, 202 or 429"],
        ),
        (
            "queueing_status_code = \"200\"",
            &["gate.toml:7: rooms[0].queueing_status_code = \"200\": must be 200, 202 or 429"],
        ),
        (
            "default_template_language = \"xx\"",
            &["gate.toml:7: rooms[0].default_template_language = \"xx\": must be one of en-US, "],
        ),
        (
            "queueing_method = \"lifo\"",
            &[
                "gate.toml:7: rooms[0].queueing_method = \"lifo\": must be one of \"fifo\", \"random\", \"passthrough\", \"reject\"",
            ],
        ),
        (
            "admission_pacing = \"bursts\"",
            &["must be one of \"burst\", \"smooth\"; did you mean \"burst\"?"],
        ),
        (
            "enabled_origin_commands = [\"stop\"]",
            &[
                "gate.toml:7: rooms[0].enabled_origin_commands[0] = \"stop\": must be one of \"revoke\"",
            ],
        ),
        (
            "ticket_binding = [\"ip\"]",
            &[
                "gate.toml:7: rooms[0].ticket_binding[0] = \"ip\": must be one of \"client_address\", \"user_agent\"",
            ],
        ),
        (
            "cors_allowed_origins = [\"https://a/b\"]",
            &[
                "gate.toml:7: rooms[0].cors_allowed_origins[0] = \"https://a/b\": must be \"*\" or an origin",
            ],
        ),
        (
            "cors_allowed_origins = [\"*\", \"https://a\"]",
            &["gate.toml:7: rooms[0].cors_allowed_origins[0] = \"*\": must stand alone"],
        ),
        (
            "origin = \"https://a\"",
            &[
                "gate.toml:7: rooms[0].origin = \"https://a\": must be http://HOST or http://HOST:PORT: origins with TLS are not supported",
            ],
        ),
        (
            "[limits]\nhead_bytes_max = 1",
            &["gate.toml:8: limits.head_bytes_max = 1: must be an integer from 8192 to 1048576"],
        ),
        (
            "[kernel]\nmode = \"on\"",
            &[
                "gate.toml:8: kernel.mode = \"on\": must be one of \"off\", \"monitor\", \"enforce\"",
            ],
        ),
        (
            "[kernel]\nsource_burst = 1",
            &["gate.toml:8: kernel.source_burst = 1: "],
        ),
        (
            "[kernel]\ndeny = [\"10.0.0.1/8\"]",
            &["gate.toml:8: kernel.deny[0] = \"10.0.0.1/8\": "],
        ),
    ]);
}

#[test]
fn addresses_that_cannot_be_used() {
    for (line, expected) in [
        (
            "listen = \"localhost:80\"",
            "gate.toml:1: listen = \"localhost:80\": must be IP:PORT",
        ),
        (
            "listen = []",
            "gate.toml:1: listen = []: must hold at least one address",
        ),
        (
            "listen = [\"127.0.0.1:1\", \"127.0.0.1:1\"]",
            "gate.toml:1: listen[1] = \"127.0.0.1:1\": is listed twice",
        ),
        (
            "listen = \"127.0.0.1:1\"\nadmin = \"127.0.0.1:1\"",
            "gate.toml:2: admin = \"127.0.0.1:1\": must not be an address of `listen`",
        ),
        (
            "listen = \"127.0.0.1:1\"\ntrusted_proxies = [\"a\"]",
            "gate.toml:2: trusted_proxies[0] = \"a\": ",
        ),
        (
            "listen = \"127.0.0.1:1\"\nstate_file = \"\"",
            "gate.toml:2: state_file = \"\": must be the path of a file",
        ),
    ] {
        let text = HEAD.replacen("listen = \"127.0.0.1:8000\"", line, 1);
        complains(&text, &[expected]);
    }
}

#[test]
fn every_fault_comes_at_once_in_the_order_of_the_file() {
    let text = "listen = 5
origin = \"ftp://a\"
typo = 1
[[rooms]]
name = \"a b\"
total_active_users = 1
new_users_per_minute = 2
session_duration = 0
[[rooms]]
name = \"b\"
total_active_users = \"9\"
new_users_per_minute = 1
[kernel]
mode = \"on\"
";
    let error = parse(text).unwrap_err();
    let lines: Vec<usize> = error
        .faults()
        .iter()
        .filter_map(|fault| fault.line)
        .collect();
    assert_eq!(lines, [1, 2, 3, 5, 7, 8, 9, 11, 14], "{error}");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,300}") {
        complaint(&text);
        complaint(&format!("{HEAD}{text}"));
    }

    #[test]
    fn no_value_of_a_known_key_panics(
        key in prop::sample::select(vec![
            "name", "host", "path", "additional_routes", "path_case_insensitive", "origin", "session_duration",
            "queueing_method", "queue_all", "refresh_interval_seconds", "enabled_origin_commands", "ticket_binding",
            "cookie_name", "cookie_suffix", "cookie_domain", "cookie_attributes", "cors_allowed_origins",
            "custom_page_html", "custom_page_file", "default_template_language", "queueing_status_code", "events",
            "json_response_format", "rules",
        ]),
        value in prop_oneof![
            Just("-9223372036854775808".to_owned()),
            Just("1e400".to_owned()),
            Just("[[[[]]]]".to_owned()),
            Just("{ a = { b = [1] } }".to_owned()),
            Just("0000-01-01T00:00:00Z".to_owned()),
            Just("[{ name = \"e\", event_start_time = 9999-12-31T23:59:59Z, event_end_time = 0001-01-01T00:00:00Z }]".to_owned()),
            "\\PC{0,80}".prop_map(|text| format!("{text:?}")),
            "\\PC{0,80}".prop_map(|text| format!("[{text:?}, {text:?}]")),
        ],
    ) {
        let text = HEAD.replace("name = \"a\"\n", "");
        complaint(&format!("{text}{key} = {value}\n"));
    }
}
