//! What an origin sees of the gate: whatever room covers a request, or none, no ticket reaches it that is not meant to.
#![allow(
    clippy::unwrap_used,
    reason = "a failed step is a failed test, helpers included"
)]

use std::io::Read as _;

use gate_tests::Gate;
use gate_tests::http::Connection;
use gate_tests::rough_origin::RoughOrigin;

const ROOMS: &str = r#"
[[rooms]]
name = "shop"
path = "/shop"
total_active_users = 10
new_users_per_minute = 10

[[rooms]]
name = "open"
path = "/open"
cookie_name = "open_ticket"
suspended = true
total_active_users = 10
new_users_per_minute = 10

[[rooms]]
name = "told"
path = "/told"
cookie_name = "told_ticket"
forward_cookie = true
total_active_users = 10
new_users_per_minute = 10
"#;

fn seen(gate: &Gate, head: &str) -> String {
    let mut client = Connection::open(gate.address()).unwrap();
    client.send(head.as_bytes()).unwrap();
    let response = client.receive().unwrap();
    assert_eq!(response.status, 200, "{}", response.text());
    response.text()
}

fn echo() -> (RoughOrigin, Gate) {
    let origin = RoughOrigin::start(|mut exchange, _| {
        while let Some(head) = exchange.head() {
            exchange.answer(&head);
        }
    });
    let url = origin.url();
    let gate = Gate::configured(&format!(
        "listen = \"{{listen}}\"\norigin = \"{url}\"\n{ROOMS}"
    ));
    (origin, gate)
}

#[test]
fn no_origin_sees_a_ticket_unless_its_room_says_so() {
    let (_origin, gate) = echo();
    for path in ["/elsewhere", "/shop", "/open", "/told"] {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: shop.test\r\n\
             Cookie: __waitingroom=1; a=b; open_ticket=2; told_ticket=3\r\n\r\n"
        );
        let seen = seen(&gate, &head);
        // A room's origin is shown the room's own, and others are not shown it.
        let left = match path {
            "/told" => "cookie: a=b; told_ticket=3\r\n",
            _ => "cookie: a=b\r\n",
        };
        assert!(seen.contains(left), "{path}: {seen}");
    }
}

#[test]
fn a_client_that_names_no_host_means_the_origin() {
    let (origin, gate) = echo();
    let seen = seen(&gate, "GET /shop HTTP/1.0\r\n\r\n");
    let host = origin.url();
    let host = host.trim_start_matches("http://");
    assert!(seen.contains(&format!("\r\nhost: {host}\r\n")), "{seen}");
}

/// What the length of a body says cannot be taken away from it: what is left would be the origin's next request.
#[test]
fn no_client_can_hide_a_request_in_a_body() {
    let origin = RoughOrigin::start(|mut exchange, _| {
        while let Some(head) = exchange.head() {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            exchange.reader().read_exact(&mut body).unwrap();
            exchange.answer(&head);
        }
    });
    let gate = Gate::configured(&format!(
        "listen = \"{{listen}}\"\norigin = \"{}\"\n{ROOMS}",
        origin.url()
    ));
    let hidden = "GET /hidden HTTP/1.1\r\nHost: shop.test\r\n\r\n";
    let head = format!(
        "POST /seen HTTP/1.1\r\nHost: shop.test\r\nConnection: Content-Length\r\nContent-Length: {}\r\n\r\n{hidden}",
        hidden.len()
    );
    for _ in 0..3 {
        let seen = seen(&gate, &head);
        assert!(seen.starts_with("post /seen "), "{seen}");
    }
}
