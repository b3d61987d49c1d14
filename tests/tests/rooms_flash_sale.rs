//! The flash sale of `configs/flash-sale.toml`, played with a thousand visitors at once on keep-alive connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use gate_tests::http::{Connection, Response};
use gate_tests::{Gate, Need, Nginx, need};

const VISITORS: usize = 1_000;
const LIMIT: usize = 300;
/// Connections, each of which carries many visitors' requests one after the other.
const CONNECTIONS: usize = 8;
const COOKIE: &str = "__aliwaitingroom_flash_sale";

/// The operator's file, with the addresses of this test.
fn configuration(origin: &Nginx) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/flash-sale.toml");
    std::fs::read_to_string(file)
        .expect("the file")
        .replace("127.0.0.1:8000", "{listen}")
        .replace("http://127.0.0.1:8080", &origin.url())
}

/// What became of one visitor.
#[derive(Clone, Debug)]
struct Seen {
    cookie: String,
    /// `None` inside.
    position: Option<u64>,
}

#[track_caller]
fn ask(connection: &mut Connection, path: &str, cookie: Option<&str>) -> Response {
    let cookie = cookie.map_or_else(String::new, |cookie| format!("Cookie: {cookie}\r\n"));
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: promo.example.com\r\nAccept: text/html, application/json\r\n{cookie}\r\n"
    );
    connection.send(head.as_bytes()).expect("a request");
    connection.receive().expect("an answer")
}

#[track_caller]
fn seen(response: &Response) -> Seen {
    assert_eq!(response.status, 200);
    let set = response.header("set-cookie").expect("a cookie");
    let cookie = set.split(';').next().unwrap_or(set).to_owned();
    assert!(cookie.starts_with(&format!("{COOKIE}=")), "{set}");
    if response.text().contains("the origin") {
        return Seen {
            cookie,
            position: None,
        };
    }
    let json = response.json();
    assert_eq!(json["WaitingRoom"]["inWaitingRoom"], true, "{json}");
    assert_eq!(json["WaitingRoom"]["refreshIntervalSeconds"], 20, "{json}");
    Seen {
        cookie,
        position: Some(response.position().expect("first come, first served")),
    }
}

/// Everybody asks once, those of one connection in order.
fn everybody(address: SocketAddr, visitors: &[Option<Seen>]) -> Vec<Option<Seen>> {
    let share = visitors.len().div_ceil(CONNECTIONS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = visitors
            .chunks(share)
            .map(|visitors| {
                scope.spawn(move || {
                    let mut connection = Connection::open(address).expect("a connection");
                    let mut ask_as = |visitor: &Option<Seen>| {
                        let cookie = visitor.as_ref().map(|visitor| visitor.cookie.as_str());
                        Some(seen(&ask(&mut connection, "/flash-sale", cookie)))
                    };
                    visitors.iter().map(&mut ask_as).collect::<Vec<_>>()
                })
            })
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread"));
        joined.flatten().collect()
    })
}

fn positions(visitors: &[Option<Seen>]) -> Vec<u64> {
    let positions = visitors
        .iter()
        .flatten()
        .filter_map(|visitor| visitor.position);
    positions.collect()
}

#[test]
fn the_flash_sale_holds_its_limits_with_a_thousand_visitors() {
    if !need::all(&[Need::Command("nginx")]) {
        return;
    }
    let origin = Nginx::start();
    let gate = Gate::configured(&configuration(&origin));
    let first = everybody(gate.address(), &vec![None; VISITORS]);
    let line = positions(&first);
    assert_eq!(line.len(), VISITORS - LIMIT, "exactly the limit is inside");
    assert_eq!(origin.hits_at_least(LIMIT).len(), LIMIT);
    // Everybody has a place of their own. Answers of several connections cross, so that one may count a visitor
    // ahead who was only being answered: places are compared when everybody stands.
    let second = everybody(gate.address(), &first);
    let places: BTreeSet<u64> = positions(&second).into_iter().collect();
    let expected: BTreeSet<u64> = (1..=(VISITORS - LIMIT) as u64).collect();
    assert_eq!(places, expected);
    // Whoever was in is in, whoever waited waits, and nobody has moved.
    let third = everybody(gate.address(), &second);
    for (before, after) in second.iter().flatten().zip(third.iter().flatten()) {
        assert_eq!(before.position, after.position);
    }
    assert_eq!(origin.hits_at_least(3 * LIMIT).len(), 3 * LIMIT);
    let cookies = origin.hits();
    assert!(
        cookies.iter().all(|hit| hit.cookie.is_empty()),
        "the origin sees no ticket"
    );
}

#[test]
fn a_slot_that_is_given_back_waits_for_the_minutes_budget() {
    if !need::all(&[Need::Command("nginx")]) {
        return;
    }
    let origin = Nginx::start();
    let gate = Gate::configured(&configuration(&origin));
    let visitors = everybody(gate.address(), &vec![None; LIMIT + 1]);
    let inside = visitors
        .iter()
        .flatten()
        .find(|visitor| visitor.position.is_none())
        .unwrap();
    let waiter = visitors
        .iter()
        .flatten()
        .find(|visitor| visitor.position.is_some())
        .unwrap();
    let mut connection = Connection::open(gate.address()).expect("a connection");
    let leave = format!(
        "DELETE /flash-sale HTTP/1.1\r\nHost: promo.example.com\r\nX-Gate-Poll: leave\r\nCookie: {}\r\n\r\n",
        inside.cookie
    );
    connection.send(leave.as_bytes()).unwrap();
    assert_eq!(connection.receive().unwrap().status, 204);
    // 300 were admitted within the last minute: the free slot is not for now.
    let response = ask(&mut connection, "/flash-sale", Some(&waiter.cookie));
    assert_eq!(seen(&response).position, Some(1));
    // Pages below the sale are part of it, those beside it are not.
    assert!(
        seen(&ask(&mut connection, "/flash-sale/item?id=1", None))
            .position
            .is_some()
    );
    let beside = ask(&mut connection, "/about", None);
    assert!(beside.text().contains("the origin"));
    assert_eq!(beside.header("set-cookie"), None);
}
