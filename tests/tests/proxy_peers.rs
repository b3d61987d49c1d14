//! Peers that misbehave on either side of the proxy, and the limits that hold against them.
#![allow(
    clippy::unwrap_used,
    reason = "a failed step is a failed test, helpers included"
)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use gate_tests::http::{Connection, Visitor};
use gate_tests::rough_origin::RoughOrigin;
use gate_tests::wait::Stopwatch;
use gate_tests::{DEADLINE, Gate, Need, Nginx, need, until};
use rustix::process::Signal;

/// A gate in front of `origin` with room for everybody and these limits.
fn gate_with(origin: &str, limits: &str) -> Gate {
    Gate::configured(&format!(
        "listen = \"{{listen}}\"\norigin = \"{origin}\"\n[limits]\n{limits}\n[[rooms]]\nname = \"shop\"\n\
         total_active_users = 1000\nnew_users_per_minute = 1000\n"
    ))
}

fn open(address: SocketAddr) -> Connection {
    Connection::open(address).unwrap()
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n";

fn echo() -> RoughOrigin {
    RoughOrigin::start(|mut exchange, _| {
        while let Some(head) = exchange.head() {
            exchange.answer(&head);
        }
    })
}

#[test]
fn the_origin_sees_who_asked_and_nothing_of_the_connection() {
    let origin = echo();
    let gate = gate_with(&origin.url(), "");
    let mut client = open(gate.address());
    client
        .send(
            b"GET /a%2Fb?c=d HTTP/1.1\r\nHost: Shop.Test:80\r\nConnection: X-Hop\r\nX-Hop: 1\r\nTE: gzip\r\n\
              X-Forwarded-For: 10.9.8.7\r\nX-Forwarded-Proto: https\r\nForwarded: for=1.1.1.1\r\nX-Own: kept\r\n\
              Cookie: a=b; __waitingroom=garbage; c=d\r\n\r\n",
        )
        .unwrap();
    let response = client.receive().unwrap();
    let seen = response.text();
    assert!(seen.starts_with("get /a%2fb?c=d http/1.1\r\n"), "{seen}");
    for part in [
        "host: shop.test:80",
        "x-forwarded-for: 127.0.0.1\r\n",
        "x-forwarded-proto: http\r\n",
        "x-forwarded-host: shop.test:80",
        "x-own: kept",
        "cookie: a=b; c=d\r\n",
    ] {
        assert!(seen.contains(part), "{part} is not in {seen}");
    }
    for part in ["x-hop", "te: gzip", "10.9.8.7", "forwarded: for", "garbage"] {
        assert!(!seen.contains(part), "{part} is in {seen}");
    }
}

#[test]
fn a_trusted_proxy_speaks_for_its_client() {
    let origin = echo();
    let gate = Gate::configured(&format!(
        "listen = \"{{listen}}\"\norigin = \"{}\"\ntrusted_proxies = [\"127.0.0.0/8\"]\n[[rooms]]\nname = \"shop\"\n\
         total_active_users = 5\nnew_users_per_minute = 5\n",
        origin.url()
    ));
    let mut client = open(gate.address());
    client
        .send(
            b"GET / HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n\r\n",
        )
        .unwrap();
    let response = client.receive().unwrap();
    let seen = response.text();
    assert!(
        seen.contains("x-forwarded-for: 192.0.2.7, 127.0.0.1\r\n"),
        "{seen}"
    );
    assert!(seen.contains("x-forwarded-proto: https\r\n"), "{seen}");
    // Over https, the cookie is for https only.
    assert!(response.header("set-cookie").unwrap().contains("Secure"));
}

#[test]
fn connections_are_kept_on_both_sides_and_pipelined_requests_answered_in_order() {
    let origin = echo();
    let gate = gate_with(&origin.url(), "");
    let mut client = open(gate.address());
    let mut requests = Vec::new();
    for number in 0..20 {
        requests.extend(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n").bytes());
    }
    client.send(&requests).unwrap();
    for number in 0..20 {
        let seen = client.receive().unwrap().text();
        assert!(seen.starts_with(&format!("get /{number} ")), "{seen}");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_slow_head_is_cut_and_a_quick_one_is_not() {
    let origin = echo();
    let gate = gate_with(&origin.url(), "head_timeout_seconds = 1");
    let begun = Stopwatch::start();
    let mut slow = open(gate.address());
    slow.send(b"GET / HTTP/1.1\r\nHost: a\r\n").unwrap();
    // More bytes do not prolong it.
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(200));
        if slow.send(b"X: y\r\n").is_err() {
            break;
        }
    }
    assert!(slow.is_closed());
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let mut quick = open(gate.address());
    quick.send(GET).unwrap();
    assert_eq!(quick.receive().unwrap().status, 200);
}

#[test]
fn an_idle_connection_is_closed_and_one_parked_for_a_while_still_serves() {
    let origin = echo();
    let gate = gate_with(&origin.url(), "idle_timeout_seconds = 5");
    let mut client = open(gate.address());
    for _ in 0..2 {
        client.send(GET).unwrap();
        assert_eq!(client.receive().unwrap().status, 200);
        // Long enough to be taken out of the HTTP machinery, short enough to be kept.
        std::thread::sleep(Duration::from_millis(3200));
    }
    assert!(client.is_closed());
}

#[test]
fn an_origin_that_hangs_is_given_up_in_time() {
    let origin = RoughOrigin::start(|mut exchange, _| {
        exchange.head();
        std::thread::sleep(Duration::from_secs(20));
    });
    let gate = gate_with(&origin.url(), "upstream_response_timeout_seconds = 1");
    let mut client = open(gate.address());
    client.send(GET).unwrap();
    let response = client.receive().unwrap();
    assert_eq!(response.status, 504);
    assert!(response.text().contains("<html"), "a page of our own");
    // The slot was taken: the visitor keeps it.
    assert!(response.header("set-cookie").is_some());
}

#[test]
fn an_origin_that_talks_nonsense_or_breaks_off_is_a_bad_gateway() {
    for answer in [
        &b"SSH-2.0-OpenSSH_9\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"",
    ] {
        let origin = RoughOrigin::start(move |mut exchange, _| {
            exchange.head();
            exchange.send(answer);
            exchange.close();
        });
        let gate = gate_with(&origin.url(), "");
        let mut client = open(gate.address());
        client.send(GET).unwrap();
        let status = client.receive().unwrap().status;
        assert_eq!(status, 502, "{}", String::from_utf8_lossy(answer));
    }
}

#[test]
fn an_answer_cut_short_is_not_passed_off_as_whole() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let origin = RoughOrigin::start(move |mut exchange, _| {
            exchange.head();
            exchange.send(answer);
            exchange.close();
        });
        let gate = gate_with(&origin.url(), "");
        let mut client = open(gate.address());
        client.send(GET).unwrap();
        assert!(
            client.receive().is_err(),
            "{}",
            String::from_utf8_lossy(answer)
        );
    }
}

#[test]
fn a_kept_connection_that_the_origin_closed_costs_nobody_a_request() {
    // Each connection serves one request and is closed, without a word of it in the answer.
    let origin = RoughOrigin::start(|mut exchange, _| {
        exchange.head();
        exchange.answer("once");
        exchange.close();
    });
    let gate = gate_with(&origin.url(), "");
    let mut client = open(gate.address());
    for _ in 0..20 {
        client.send(GET).unwrap();
        assert_eq!(client.receive().unwrap().text(), "once");
    }
    assert_eq!(origin.connections(), 20);
}

#[test]
fn an_origin_that_answers_early_and_closes_is_heard() {
    let origin = RoughOrigin::start(|mut exchange, _| {
        exchange.head();
        exchange.send(
            b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
        );
        exchange.close();
    });
    let gate = gate_with(&origin.url(), "");
    let mut client = open(gate.address());
    client
        .send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
        .unwrap();
    assert_eq!(client.receive().unwrap().status, 413);
}

#[test]
fn bodies_stream_both_ways_in_constant_memory() {
    const BYTES: usize = 64 * 1024 * 1024;
    let origin = RoughOrigin::start(|mut exchange, _| {
        while let Some(head) = exchange.head() {
            if head.starts_with("post") {
                let mut body = exchange.reader().take(BYTES as u64);
                let read = std::io::copy(&mut body, &mut std::io::sink()).unwrap_or(0);
                exchange.answer(&read.to_string());
            } else {
                exchange
                    .send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes());
                let piece = vec![b'x'; 1024 * 1024];
                for _ in 0..BYTES / piece.len() {
                    exchange.send(&piece);
                }
            }
        }
    });
    let mut gate = gate_with(&origin.url(), "");
    // The gate by itself takes some, in a debug build more.
    let before = peak_bytes(gate.process().id());
    let address = gate.address();
    let sender = std::thread::spawn(move || {
        let mut client = open(address);
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        let piece = vec![b'y'; 1024 * 1024];
        for _ in 0..BYTES / piece.len() {
            client.send(&piece).unwrap();
        }
        client.receive().unwrap().text()
    });
    let mut client = open(address);
    client.send(GET).unwrap();
    assert_eq!(client.receive().unwrap().body.len(), BYTES);
    assert_eq!(sender.join().unwrap(), BYTES.to_string());
    let grown = peak_bytes(gate.process().id()) - before;
    assert!(grown < BYTES / 4, "{grown} bytes more at the peak");
}

/// The most memory a process ever had.
fn peak_bytes(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

#[test]
fn a_client_that_does_not_read_is_cut() {
    let origin = RoughOrigin::start(|mut exchange, _| {
        exchange.head();
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
        let piece = vec![b'x'; 1024 * 1024];
        while exchange.send(&piece) {}
    });
    let gate = gate_with(&origin.url(), "write_stall_timeout_seconds = 1");
    let mut lazy = open(gate.address());
    lazy.send(GET).unwrap();
    std::thread::sleep(Duration::from_secs(4));
    // What the kernel still holds comes, and then the end, long before the whole.
    let mut read = 0_usize;
    let mut piece = vec![0; 1024 * 1024];
    while let Ok(count @ 1..) = lazy.socket().read(&mut piece) {
        read += count;
    }
    assert!(read < 500_000_000, "{read}");
}

#[test]
fn a_client_that_stops_sending_its_body_is_told_so() {
    let origin = RoughOrigin::start(|mut exchange, _| {
        exchange.head();
        let mut rest = Vec::new();
        exchange.reader().read_to_end(&mut rest).unwrap_or(0);
    });
    let gate = gate_with(
        &origin.url(),
        "body_idle_timeout_seconds = 1\nbody_bytes_max = 1000",
    );
    let mut client = open(gate.address());
    client
        .send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        .unwrap();
    assert_eq!(client.receive().unwrap().status, 408);
    // Too long by its word, and too long in fact.
    for request in [
        &b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n"[..],
        &[
            &b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n"[..],
            &[b'x'; 0x3e9],
            b"\r\n0\r\n\r\n",
        ]
        .concat(),
    ] {
        let mut client = open(gate.address());
        client.send(request).unwrap();
        assert_eq!(client.receive().unwrap().status, 413);
    }
}

#[test]
fn ambiguous_requests_reach_no_origin() {
    let origin = echo();
    let gate = gate_with(&origin.url(), "");
    for request in [
        &b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"[..],
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ] {
        let mut client = open(gate.address());
        client.send(request).unwrap();
        client.socket().shutdown(Shutdown::Write).unwrap();
        if let Ok(response) = client.receive() {
            let shown = String::from_utf8_lossy(request);
            assert!((400..600).contains(&response.status), "{shown}: {}", response.status);
        }
    }
    assert_eq!(origin.connections(), 0);
    let mut client = open(gate.address());
    client.send(GET).unwrap();
    assert_eq!(client.receive().unwrap().status, 200);
}

#[test]
fn a_websocket_talks_through_the_gate() {
    let origin = RoughOrigin::start(|mut exchange, _| {
        let head = exchange.head().unwrap_or_default();
        assert!(head.contains("upgrade: websocket"), "{head}");
        exchange.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst",
        );
        let mut piece = [0; 64];
        while let Ok(count @ 1..) = exchange.reader().read(&mut piece) {
            exchange.send(&piece[..count]);
        }
    });
    let gate = gate_with(&origin.url(), "");
    let mut client = open(gate.address());
    client
        .send(
            b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
              Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\nearly",
        )
        .unwrap();
    assert_eq!(client.receive().unwrap().status, 101);
    let mut heard: Vec<u8> = Vec::new();
    let mut piece = [0; 64];
    client.send(b" later").unwrap();
    while heard.len() < "firstearly later".len() {
        // What came with the head is in the reader; the socket has the rest.
        let count = client.read_some(&mut piece).unwrap();
        assert!(count > 0);
        heard.extend(&piece[..count]);
    }
    assert_eq!(heard, b"firstearly later");
}

#[test]
fn clients_that_vanish_in_any_phase_leave_nothing_behind() {
    if !need::all(&[Need::Command("nginx")]) {
        return;
    }
    let nginx = Nginx::start();
    let mut gate = gate_with(&nginx.url(), "");
    for bytes in [
        &b""[..],
        b"G",
        b"GET / HTTP/1.1\r\nHost: a\r\n",
        GET,
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf",
    ] {
        for _ in 0..20 {
            let mut client = open(gate.address());
            client.send(bytes).unwrap();
            // With something unread the kernel sends a reset.
            drop(client);
        }
    }
    let process = gate.process().id();
    until(
        "all sockets of vanished clients are closed",
        DEADLINE,
        || {
            let sockets = std::fs::read_dir(format!("/proc/{process}/fd"))
                .unwrap()
                .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
                .filter(|target| target.to_string_lossy().starts_with("socket:"))
                .count();
            // Listeners, signals and kept connections to the origin.
            (sockets < 40).then_some(())
        },
    );
    let mut visitor = Visitor::new(gate.address(), "a");
    assert_eq!(visitor.get("/").status, 200);
}

#[test]
fn a_stop_lets_requests_in_flight_end_and_closes_idle_connections() {
    let origin = RoughOrigin::start(|mut exchange, _| {
        while let Some(head) = exchange.head() {
            if head.starts_with("get /slow") {
                std::thread::sleep(Duration::from_secs(2));
            }
            exchange.answer("done");
        }
    });
    let mut gate = gate_with(&origin.url(), "");
    let mut idle = open(gate.address());
    idle.send(GET).unwrap();
    assert_eq!(idle.receive().unwrap().status, 200);
    let mut slow = open(gate.address());
    slow.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    gate.process().signal(Signal::TERM);
    assert!(idle.is_closed());
    assert_eq!(slow.receive().unwrap().text(), "done");
    let status = gate.process().wait(DEADLINE);
    assert_eq!(status.code(), Some(0));
}

#[test]
fn head_and_bodiless_answers_keep_their_framing() {
    let origin = RoughOrigin::start(|mut exchange, _| {
        while let Some(head) = exchange.head() {
            let answer: &[u8] = if head.starts_with("head") {
                b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"
            } else if head.starts_with("get /empty") {
                b"HTTP/1.1 204 No Content\r\n\r\n"
            } else if head.starts_with("get /same") {
                b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"
            } else if head.starts_with("get /hints") {
                b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            } else {
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Trailer: y\r\n\r\n"
            };
            exchange.send(answer);
        }
    });
    let gate = gate_with(&origin.url(), "");
    let mut client = open(gate.address());
    for (method, path, status, body) in [
        ("HEAD", "/", 200, ""),
        ("GET", "/empty", 204, ""),
        ("GET", "/same", 304, ""),
        ("GET", "/hints", 200, "ok"),
        ("GET", "/chunked", 200, "ok"),
        ("HEAD", "/", 200, ""),
    ] {
        client
            .send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
            .unwrap();
        let response = client.receive_to(method).unwrap();
        assert_eq!(
            (response.status, response.text().as_str()),
            (status, body),
            "{path}"
        );
        if method == "HEAD" {
            assert_eq!(response.header("content-length"), Some("12345"));
        }
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn expect_continue_is_answered_and_the_body_passed_on() {
    let origin = RoughOrigin::start(|mut exchange, _| {
        while let Some(head) = exchange.head() {
            assert!(!head.contains("expect:"), "{head}");
            let mut body = [0; 5];
            if exchange.reader().read_exact(&mut body).is_ok() {
                exchange.answer(&String::from_utf8_lossy(&body));
            }
        }
    });
    let gate = gate_with(&origin.url(), "");
    let mut client = open(gate.address());
    client
        .send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        .unwrap();
    let mut interim = [0; 25];
    client.socket().read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send(b"hello").unwrap();
    assert_eq!(client.receive().unwrap().text(), "hello");
}

#[test]
fn old_clients_are_served() {
    let origin = echo();
    let gate = gate_with(&origin.url(), "");
    let mut client = open(gate.address());
    client.send(b"GET /old HTTP/1.0\r\n\r\n").unwrap();
    let response = client.receive().unwrap();
    assert_eq!(response.status, 200);
    assert!(response.text().starts_with("get /old http/1.1"));
    assert!(client.is_closed());
    let mut kept = open(gate.address());
    for _ in 0..2 {
        kept.socket()
            .write_all(b"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
            .unwrap();
        assert_eq!(kept.receive().unwrap().status, 200);
    }
}
