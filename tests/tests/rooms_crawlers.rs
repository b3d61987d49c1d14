//! Verified search crawlers through a running gate, with a real DNS server.

use std::net::SocketAddr;

use gate_tests::http::Visitor;
use gate_tests::{DEADLINE, Gate, Need, Nginx, Process, need, ports, until};

const BOT: &str = "Mozilla/5.0 (compatible; Searchbot/1.0)";

/// A DNS server that knows one crawler and one impostor.
fn dns() -> (Process, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
    let program = need::command("dnsmasq").expect("ask for Need::Command(\"dnsmasq\") first");
    let port = format!("--port={}", address.port());
    let words = [
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
        "--listen-address=127.0.0.1",
        "--bind-interfaces",
        "--user=root",
        "--pid-file=",
        &port,
        // The name and the address of a crawler; and somebody else's address that claims the same name.
        "--host-record=crawl-1.search.test,192.0.2.1",
        "--ptr-record=2.2.0.192.in-addr.arpa,crawl-1.search.test",
    ];
    let mut process = Process::start(&program, &words);
    until("dnsmasq accepts connections", DEADLINE, || {
        assert!(process.is_running(), "dnsmasq ended: {}", process.log());
        std::net::TcpStream::connect(address).ok()
    });
    (process, address)
}

#[test]
fn crawlers_are_verified_by_range_and_by_name() {
    if !need::all(&[Need::Command("nginx"), Need::Command("dnsmasq")]) {
        return;
    }
    let origin = Nginx::start();
    let (_dns, server) = dns();
    let ranges = tempfile::tempdir().unwrap();
    let file = ranges.path().join("ranges.json");
    std::fs::write(
        &file,
        "{\"prefixes\": [{\"ipv4Prefix\": \"203.0.113.0/24\"}]}",
    )
    .unwrap();
    let gate = Gate::configured(&format!(
        "listen = \"{{listen}}\"
origin = \"{}\"
trusted_proxies = [\"127.0.0.0/8\"]
[settings]
search_engine_crawler_bypass = true
crawler_ranges_files = [\"{}\"]
crawler_domains = [\"search.test\"]
crawler_dns_servers = [\"{server}\"]
[[rooms]]
name = \"shop\"
total_active_users = 1
new_users_per_minute = 1
queue_all = true
",
        origin.url(),
        file.display()
    ));
    let ask = |client: &str, agent: &str| {
        let mut visitor = Visitor::new(gate.address(), "shop.test")
            .with("X-Forwarded-For", client)
            .with("User-Agent", agent);
        let response = visitor.get("/");
        let passes = response.text().contains("the origin");
        assert!(!passes || response.header("set-cookie").is_none());
        passes
    };
    assert!(
        ask("203.0.113.9", "any"),
        "a published range passes at once"
    );
    assert!(!ask("198.51.100.9", BOT), "the user agent alone is nothing");
    // The first time it is a visitor; then it is looked up.
    assert!(!ask("192.0.2.1", BOT));
    until("the crawler is verified", DEADLINE, || {
        ask("192.0.2.1", BOT).then_some(())
    });
    assert!(!ask("192.0.2.1", "Mozilla/5.0 (X11)"));
    // The impostor was asked for before and its lookup is over by now: the name does not lead back to it.
    assert!(!ask("192.0.2.2", BOT));
    until("another lookup is over", DEADLINE, || {
        ask("192.0.2.1", BOT).then_some(())
    });
    assert!(!ask("192.0.2.2", BOT));
}
