//! Bypass rules through a running gate: who fits one passes as if there were no room.

use gate_tests::http::Visitor;
use gate_tests::{Gate, Need, Nginx, need};

/// One room with one slot for `host`, with more lines in it.
fn configuration(origin: &Nginx, room: &str) -> String {
    format!(
        "listen = \"{{listen}}\"
origin = \"{}\"
trusted_proxies = [\"127.0.0.0/8\"]
[lists]
office = [\"192.0.2.0/24\"]
[[rooms]]
name = \"shop\"
host = \"shop.test\"
total_active_users = 1
new_users_per_minute = 1
{room}
",
        origin.url()
    )
}

const RULES: &str = "
[[rooms.rules]]
action = \"bypass_waiting_room\"
expression = 'ip.src in $office'
[[rooms.rules]]
action = \"bypass_waiting_room\"
expression = 'starts_with(http.request.uri.path, \"/static/\") or any(http.request.headers[\"x-key\"][*] eq \"s3cret\")'
[[rooms.rules]]
action = \"bypass_waiting_room\"
enabled = false
expression = 'http.request.uri.path eq \"/off\"'
";

fn visitor(gate: &Gate) -> Visitor {
    Visitor::new(gate.address(), "shop.test")
}

#[track_caller]
fn passes(visitor: &mut Visitor, path: &str) {
    let response = visitor.get(path);
    assert!(response.text().contains("the origin"), "{path}");
    assert_eq!(response.header("set-cookie"), None, "{path}");
}

#[track_caller]
fn waits(visitor: &mut Visitor, path: &str) {
    let response = visitor.get(path);
    assert!(!response.text().contains("the origin"), "{path}");
}

#[test]
fn rules_let_pass_what_fits_and_count_nothing() {
    if !need::all(&[Need::Command("nginx")]) {
        return;
    }
    let origin = Nginx::start();
    let gate = Gate::configured(&configuration(&origin, RULES));
    // Nobody of these takes the one slot.
    passes(&mut visitor(&gate), "/static/a.css");
    passes(&mut visitor(&gate).with("X-Key", "s3cret"), "/");
    passes(
        &mut visitor(&gate).with("X-Forwarded-For", "192.0.2.77"),
        "/",
    );
    let mut first = visitor(&gate).with("X-Forwarded-For", "198.51.100.1");
    assert!(first.get("/").text().contains("the origin"));
    assert!(first.cookies().contains_key("__waitingroom"));
    // Now that it is taken, they still pass, and everybody else waits.
    passes(&mut visitor(&gate), "/static/a.css");
    passes(
        &mut visitor(&gate).with("X-Forwarded-For", "192.0.2.77"),
        "/",
    );
    waits(&mut visitor(&gate), "/");
    waits(&mut visitor(&gate), "/off");
    waits(&mut visitor(&gate).with("X-Key", "guess"), "/");
    waits(
        &mut visitor(&gate).with("X-Forwarded-For", "192.0.3.77"),
        "/",
    );
    // Spellings that an origin might resolve to another page.
    for path in [
        "/static/../sale",
        "/static/..%2Fsale",
        "/static/%2e%2e/sale",
        "/static/..;/sale",
    ] {
        waits(&mut visitor(&gate), path);
    }
    // An active user who asks for what fits keeps the session's cookie from the origin, and gets no new one.
    let response = first.get("/static/b.css");
    assert_eq!(response.header("set-cookie"), None);
    let hits = origin.hits_at_least(7);
    assert!(hits.iter().all(|hit| hit.cookie.is_empty()), "{hits:?}");
}

#[test]
fn rules_know_hosts_by_lists() {
    if !need::all(&[Need::Command("nginx")]) {
        return;
    }
    let origin = Nginx::start();
    let rule = "cookie_suffix = \"all\"
additional_routes = [{ host = \"*\" }]
[[rooms.rules]]
action = \"bypass_waiting_room\"
expression = 'http.host in $partners'
";
    let lists = "[lists]\npartners = [\"b2b.test\", \"*.partner.test\"]";
    let gate = Gate::configured(&configuration(&origin, rule).replace("[lists]", lists));
    assert!(visitor(&gate).get("/").text().contains("the origin"));
    for host in ["b2b.test", "B2B.test:8443", "b2b.test.", "a.b.partner.test"] {
        passes(&mut Visitor::new(gate.address(), host), "/");
    }
    for host in [
        "shop.test",
        "a.b2b.test",
        "partner.test",
        "xpartner.test",
        "partner.test.evil",
    ] {
        waits(&mut Visitor::new(gate.address(), host), "/");
    }
}

#[test]
fn rules_win_over_queue_all_and_reject() {
    if !need::all(&[Need::Command("nginx")]) {
        return;
    }
    let origin = Nginx::start();
    for switch in ["queue_all = true", "queueing_method = \"reject\""] {
        let gate = Gate::configured(&configuration(&origin, &format!("{switch}\n{RULES}")));
        waits(&mut visitor(&gate), "/");
        passes(&mut visitor(&gate), "/static/a.css");
    }
}

#[test]
fn a_client_cannot_claim_an_address() {
    if !need::all(&[Need::Command("nginx")]) {
        return;
    }
    let origin = Nginx::start();
    let text = configuration(&origin, &format!("queue_all = true\n{RULES}"));
    let text = text.replace("trusted_proxies = [\"127.0.0.0/8\"]\n", "");
    let gate = Gate::configured(&text);
    waits(
        &mut visitor(&gate).with("X-Forwarded-For", "192.0.2.77"),
        "/",
    );
}
