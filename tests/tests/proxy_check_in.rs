//! Check-ins take a shorter way through the gate than other requests. Nobody outside can tell, whichever way is taken.
#![allow(
    clippy::unwrap_used,
    reason = "a failed step is a failed test, helpers included"
)]

use std::net::SocketAddr;

use gate_tests::http::{Connection, Response};
use gate_tests::{Gate, Nginx, ports};
use rustix::process::Signal;

/// `top` are lines before the first room, `more` lines of the room.
fn configuration(origin: &str, users: u32, top: &str, more: &str) -> String {
    format!(
        "listen = \"{{listen}}\"\norigin = \"{origin}\"\n{top}[[rooms]]\nname = \"shop\"\ntotal_active_users = {users}\n\
         new_users_per_minute = {users}\njson_response_enabled = true\n{more}"
    )
}

/// A gate whose one room is full, and the ticket of the one who waits.
fn full_gate(origin: &str, top: &str, more: &str) -> (Gate, String) {
    let gate = Gate::configured(&configuration(origin, 1, top, more));
    let mut first = Connection::open(gate.address()).unwrap();
    ask(&mut first, "/", "");
    let waiting = ask(&mut first, "/", "");
    (gate, ticket(&waiting))
}

fn ask(client: &mut Connection, path: &str, fields: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
    client.send(request.as_bytes()).unwrap();
    client.receive().unwrap()
}

fn ticket(response: &Response) -> String {
    let cookie = response.header("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// Fields of an answer in order, without what differs from one moment to the next.
fn lasting(response: &Response) -> Vec<(String, String)> {
    let names = response
        .headers
        .iter()
        .map(|(name, _)| name.to_ascii_lowercase());
    let values = response.headers.iter().map(|(_, value)| value.clone());
    let mut fields: Vec<(String, String)> = names
        .zip(values)
        .filter(|(name, _)| name != "date")
        .map(|(name, value)| match name.as_str() {
            "set-cookie" => {
                let (_, attributes) = value.split_once(';').unwrap();
                (name, attributes.to_owned())
            }
            _ => (name, value),
        })
        .collect();
    fields.sort();
    fields
}

/// What the gate has counted of requests and of waiting answers.
fn counted(admin: SocketAddr) -> [u64; 2] {
    let metrics = ask(&mut Connection::open(admin).unwrap(), "/metrics", "").text();
    ["gate_requests_total ", "gate_queued_answers_total "].map(|name| {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap().parse().unwrap()
    })
}

/// `TE` means nothing to the answer, and makes the request one for the long way.
const LONG_WAY: &str = "TE: trailers\r\n";

#[test]
fn both_ways_give_the_same_answer() {
    let origin = Nginx::start();
    // A second check-in within the hour changes nothing, so nothing differs between the two but the way.
    let admin = SocketAddr::from(([127, 0, 0, 1], ports::free()));
    let (gate, ticket) = full_gate(
        &origin.url(),
        &format!("admin = \"{admin}\"\n"),
        "refresh_interval_seconds = 300\naccept_language = true\n",
    );
    for fields in [
        "",
        "Accept: application/json\r\n",
        "Accept: text/html\r\nAccept-Language: de\r\n",
        "X-Gate-Poll: 1\r\nAccept-Language: ar\r\n",
        "Sec-Fetch-Dest: document\r\n",
        "Sec-Fetch-Dest: iframe\r\nAccept: application/json\r\n",
    ] {
        let cookie = format!("Cookie: other=1; {ticket}\r\n{fields}");
        let answer = |more: &str| {
            let mut client = Connection::open(gate.address()).unwrap();
            ask(&mut client, "/page?a=b", &format!("{cookie}{more}"))
        };
        let is_browser = fields.contains("Sec-Fetch");
        let is_page = answer("")
            .header("content-type")
            .unwrap()
            .starts_with("text/html");
        let refresh = match (is_page, is_browser) {
            (true, true) => Some("300; url=/page?a=b"),
            (true, false) => Some("300"),
            (false, _) => None,
        };
        assert_eq!(answer("").header("refresh"), refresh, "{fields}");
        let counts = counted(admin);
        let short = answer("");
        let after_short = counted(admin);
        let long = answer(LONG_WAY);
        let after_long = counted(admin);
        assert_eq!(after_short, counts.map(|count| count + 1), "{fields}");
        assert_eq!(after_long, counts.map(|count| count + 2), "{fields}");
        assert_eq!(short.status, long.status, "{fields}");
        assert_eq!(lasting(&short), lasting(&long), "{fields}");
        // Answers say when they were made: only two of one moment are alike. They are where the short way, asked again,
        // still says what it said before the long one.
        let [short, long] = gate_tests::until("one moment", gate_tests::DEADLINE, || {
            let [before, long, after] = ["", LONG_WAY, ""].map(answer);
            (before.text() == after.text()).then_some([before, long])
        });
        assert_eq!(short.text(), long.text(), "{fields}");
        assert!(short.header("date").is_some());
    }
}

#[test]
fn a_head_over_the_limit_is_refused_on_both_ways() {
    let origin = Nginx::start();
    let (gate, ticket) = full_gate(&origin.url(), "limits.head_bytes_max = 8192\n", "");
    for (padding_bytes, status) in [(4_000, 200), (10_000, 431)] {
        for way in ["", LONG_WAY] {
            let padding = "p".repeat(padding_bytes);
            let fields = format!("Cookie: {ticket}\r\nX-Padding: {padding}\r\n{way}");
            let mut client = Connection::open(gate.address()).unwrap();
            let answer = ask(&mut client, "/", &fields);
            assert_eq!(answer.status, status, "{padding_bytes} {way}");
        }
    }
}

#[test]
fn what_a_room_looks_at_beside_the_ticket_is_looked_at() {
    let origin = Nginx::start();
    // A rule that the visitor in line fits on this path only.
    let rule = "[[rooms.rules]]\naction = \"bypass_waiting_room\"\n\
                expression = 'http.request.uri.path eq \"/free\"'\n";
    let (gate, ticket) = full_gate(&origin.url(), "", rule);
    let fields = format!("Accept: application/json\r\nCookie: {ticket}\r\n");
    let mut client = Connection::open(gate.address()).unwrap();
    assert_eq!(ask(&mut client, "/", &fields).position(), Some(1));
    let passed = ask(&mut client, "/free", &fields);
    assert_eq!(passed.header("set-cookie"), None);
    assert!(passed.text().contains("the origin"), "{}", passed.text());

    // A ticket of another browser is none: whoever shows it is the next in line.
    let bound = "ticket_binding = [\"user_agent\"]\n";
    let (gate, ticket) = full_gate(&origin.url(), "", bound);
    let fields = format!("Accept: application/json\r\nCookie: {ticket}\r\n");
    let mut client = Connection::open(gate.address()).unwrap();
    assert_eq!(ask(&mut client, "/", &fields).position(), Some(1));
    let other = format!("{fields}User-Agent: other\r\n");
    assert_eq!(ask(&mut client, "/", &other).position(), Some(2));
}

#[test]
fn requests_of_both_kinds_share_a_connection() {
    let origin = Nginx::start();
    let (gate, ticket) = full_gate(&origin.url(), "", "");
    let plain = format!(
        "GET / HTTP/1.1\r\nHost: a.example\r\nAccept: application/json\r\nCookie: {ticket}\r\n\r\n"
    );
    let other = plain.replace("\r\n\r\n", &format!("\r\n{LONG_WAY}\r\n"));
    let last = plain.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    for order in [
        [&plain, &plain, &plain],
        [&plain, &other, &plain],
        [&other, &plain, &other],
    ] {
        let mut client = Connection::open(gate.address()).unwrap();
        let all = format!("{}{}{}{last}", order[0], order[1], order[2]);
        // In two pieces, cut within a request.
        let (first, second) = all.split_at(order[0].len() + 10);
        client.send(first.as_bytes()).unwrap();
        assert_eq!(client.receive().unwrap().position(), Some(1));
        client.send(second.as_bytes()).unwrap();
        for _ in 0..3 {
            assert_eq!(client.receive().unwrap().position(), Some(1));
        }
        assert!(client.is_closed());
    }
}

#[test]
fn a_check_in_that_admits_counts_once_and_reaches_the_origin() {
    let origin = Nginx::start();
    let (mut gate, ticket) = full_gate(&origin.url(), "", "");
    let two =
        configuration(&origin.url(), 2, "", "").replace("{listen}", &gate.address().to_string());
    std::fs::write(gate.folder().join("gate.toml"), two).unwrap();
    gate.process().signal(Signal::HUP);
    gate_tests::until("reloaded", gate_tests::DEADLINE, || {
        gate.process().log().contains("reloaded:").then_some(())
    });
    let mut client = Connection::open(gate.address()).unwrap();
    ask(
        &mut client,
        "/admitted-now",
        &format!("Cookie: {ticket}\r\n"),
    );
    // Both seats are taken: by the first visitor and by this one.
    let mut next = Connection::open(gate.address()).unwrap();
    let answer = ask(&mut next, "/", "Accept: application/json\r\n");
    assert_eq!(answer.position(), Some(1));
    let reached = origin.hits_at_least(2);
    let admitted = reached
        .iter()
        .filter(|hit| format!("{hit:?}").contains("/admitted-now"));
    assert_eq!(admitted.count(), 1);
}
