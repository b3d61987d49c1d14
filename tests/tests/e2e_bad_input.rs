//! What goes wrong in practice: each case gets a clear error, or the gate keeps serving everybody else.

use std::fs;
use std::io::Write;
use std::net::{Shutdown, TcpStream};

use gate_tests::http::{Connection, Visitor};
use gate_tests::{Gate, Need, Nginx, gate, need, ports};

const NGINX: [Need; 1] = [Need::Command("nginx")];

const LIMITS: [&str; 4] = ["--total-active-users", "50", "--new-users-per-minute", "50"];

/// A file of this text is refused with exit code 2 by `check` and by `serve`, and each of `words` is in the message.
#[track_caller]
fn is_refused(text: &str, words: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("gate.toml");
    fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    for command in ["check", "serve"] {
        let (code, out, error) = gate::run(&[command, "--config", &file]);
        assert_eq!(code, 2, "{command}: {error}");
        assert!(out.is_empty(), "nothing on standard output: {out}");
        assert!(error.contains(&file), "{command} names the file: {error}");
        for word in words {
            assert!(error.contains(word), "{command} says {word:?}: {error}");
        }
        assert!(!error.contains("panicked"), "{error}");
    }
}

fn with_room(lines: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:1\"]\norigin = \"http://127.0.0.1:2\"\n\n[[rooms]]\nname = \"shop\"\nhost = \"shop.test\"\npath = \"/\"\n{lines}\n"
    )
}

#[test]
fn a_broken_file_is_refused_with_its_line() {
    is_refused("listen = [\n", &["gate.toml:1:", "array"]);
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    let text = with_room("total_active_users = 5\nnew_users_per_minute = 5\ntotal_active_user = 9");
    is_refused(&text, &["gate.toml:10:", "rooms[0].total_active_user"]);
}

#[test]
fn reversed_limits_are_refused_with_both_values() {
    let text = with_room("total_active_users = 5\nnew_users_per_minute = 6");
    is_refused(&text, &["new_users_per_minute", "6", "5"]);
}

#[test]
fn a_limit_below_one_is_refused_with_what_is_allowed() {
    let text = with_room("total_active_users = 0\nnew_users_per_minute = 0");
    is_refused(
        &text,
        &["total_active_users", "new_users_per_minute", "0", "1"],
    );
}

#[test]
fn every_error_is_listed_at_once() {
    let text =
        with_room("total_active_users = -3\nnew_users_per_minute = \"five\"\nsession_duration = 0");
    is_refused(
        &text,
        &[
            "total_active_users",
            "new_users_per_minute",
            "five",
            "session_duration",
        ],
    );
}

#[test]
fn a_missing_file_and_a_bad_command_line_end_with_two() {
    for words in [
        &["serve", "--config", "no-such-file.toml"][..],
        &["serve", "--total-active-users", "many"],
        &["no-such-command"],
        &["serve"],
    ] {
        let (code, _, error) = gate::run(words);
        assert_eq!(code, 2, "{words:?}: {error}");
        assert!(!error.is_empty());
    }
}

#[test]
fn an_origin_that_is_down_gets_a_page_of_ours() {
    let nobody = format!("http://127.0.0.1:{}", ports::free());
    let gate = Gate::quick(&nobody, &LIMITS);
    let mut visitor = Visitor::new(gate.address(), "shop.test");
    for _ in 0..3 {
        let response = visitor.get("/");
        assert_eq!(response.status, 502);
        assert!(response.text().contains("<"), "a page: {}", response.text());
    }
}

#[test]
fn an_origin_that_goes_and_comes_back_is_used_again() {
    if !need::all(&NGINX) {
        return;
    }
    let mut origin = Nginx::start();
    let gate = Gate::quick(&origin.url(), &LIMITS);
    let mut visitor = Visitor::new(gate.address(), "shop.test");
    assert_eq!(visitor.get("/").status, 200);
    origin.stop();
    assert_eq!(visitor.get("/").status, 502);
    origin.start_again();
    assert_eq!(visitor.get("/").status, 200);
}

#[test]
fn garbage_cookies_make_a_new_user_and_no_error() {
    if !need::all(&NGINX) {
        return;
    }
    let origin = Nginx::start();
    let gate = Gate::quick(&origin.url(), &LIMITS);
    let mut honest = Visitor::new(gate.address(), "shop.test");
    assert_eq!(honest.get("/").status, 200);
    let (name, value) = honest.cookies().first_key_value().expect("a ticket");
    let mut altered = value.clone();
    let last = altered.pop().expect("a value");
    altered.push(if last == 'A' { 'B' } else { 'A' });
    let half = &value[..value.len() / 2];
    let long = "A".repeat(7_000);
    for garbage in ["", "x", "====", "\u{e4}\u{f6}", "\"", &altered, half, &long] {
        let mut visitor = Visitor::new(gate.address(), "shop.test");
        visitor
            .cookies_mut()
            .insert(name.clone(), garbage.to_owned());
        let response = visitor.get("/");
        assert_eq!(response.status, 200, "{garbage:?}");
        let fresh = visitor.cookies().get(name).expect("a fresh ticket");
        assert_ne!(fresh, garbage);
    }
}

#[test]
fn a_megabyte_of_headers_is_refused_and_nobody_else_notices() {
    if !need::all(&NGINX) {
        return;
    }
    let origin = Nginx::start();
    let mut gate = Gate::quick(&origin.url(), &LIMITS);
    let long = "a".repeat(1_000_000);
    let many: String = (0..20_000)
        .map(|number| format!("X-Header-{number}: some words of a value\r\n"))
        .collect();
    for headers in [
        format!("X-Long: {long}\r\n"),
        format!("Cookie: a={long}\r\n"),
        many,
    ] {
        let mut connection = Connection::open(gate.address()).unwrap();
        let request = format!("GET / HTTP/1.1\r\nHost: shop.test\r\n{headers}\r\n");
        // The gate may stop reading before all is sent.
        let sent = connection.send(request.as_bytes());
        match connection.receive() {
            Ok(response) => assert_eq!(response.status, 431),
            Err(error) => assert!(sent.is_err() || connection.is_closed(), "{error}"),
        }
        assert_eq!(
            Visitor::new(gate.address(), "shop.test").get("/").status,
            200
        );
    }
    assert!(gate.process().is_running());
    assert_eq!(
        origin.hits_at_least(3).len(),
        3,
        "none of the three reached the origin"
    );
}

#[test]
fn half_open_and_silent_clients_stop_nobody() {
    if !need::all(&NGINX) {
        return;
    }
    let origin = Nginx::start();
    let mut gate = Gate::quick(&origin.url(), &LIMITS);
    let mut held: Vec<TcpStream> = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(gate.address()).unwrap();
        match number % 4 {
            0 => {}
            1 => stream.write_all(b"GET / HT").unwrap(),
            2 => {
                stream
                    .write_all(b"GET / HTTP/1.1\r\nHost: shop.test\r\n")
                    .unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            }
            _ => stream
                .write_all(b"\x16\x03\x01\x02\x00\x01\xff\0\0\0")
                .unwrap(),
        }
        held.push(stream);
    }
    for _ in 0..5 {
        assert_eq!(
            Visitor::new(gate.address(), "shop.test").get("/").status,
            200
        );
    }
    drop(held);
    assert!(gate.process().is_running());
    assert!(gate.stop().success());
}
