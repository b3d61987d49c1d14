//! What each kind of client is answered while it cannot enter: the README's table of answers, row by row, at a full room.

use std::net::SocketAddr;

use gate_tests::http::{Response, Visitor};
use gate_tests::{Gate, Need, Nginx, need, ports};

struct FullRoom {
    origin: Nginx,
    gate: Gate,
    admin: SocketAddr,
    inside: Visitor,
}

impl FullRoom {
    /// One slot, taken.
    #[track_caller]
    fn with(keys: &str) -> Option<Self> {
        if !need::all(&[Need::Command("nginx")]) {
            return None;
        }
        let origin = Nginx::start();
        let admin = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let gate = Gate::configured(&format!(
            "listen = [\"{{listen}}\"]\norigin = \"{}\"\nadmin = \"{admin}\"\n\n[[rooms]]\nname = \"shop\"\nhost = \"shop.test\"\n\
             total_active_users = 1\nnew_users_per_minute = 1\n{keys}\n",
            origin.url()
        ));
        let mut inside = Visitor::new(gate.address(), "shop.test");
        assert_eq!(inside.get("/").status, 200);
        origin.hits_at_least(1);
        Some(Self {
            origin,
            gate,
            admin,
            inside,
        })
    }

    fn outside(&self, headers: &[(&str, &str)]) -> Visitor {
        headers.iter().fold(
            Visitor::new(self.gate.address(), "shop.test"),
            |visitor, (name, value)| visitor.with(name, value),
        )
    }

    #[track_caller]
    fn ask(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.outside(headers)
            .request(method, "/cart", body)
            .unwrap_or_else(|error| panic!("{method} {headers:?}: {error}"))
    }

    fn places(&self) -> u64 {
        let status = Visitor::new(self.admin, "admin").get("/status").json();
        status["rooms"][0]["places"].as_u64().expect("a count")
    }

    /// Only the first request ever got there.
    fn reached_by_nobody_else(&self) {
        assert_eq!(self.origin.hits().len(), 1);
    }
}

const JSON: &str = "json_response_enabled = true";

#[track_caller]
fn is_never_stored(response: &Response) {
    let cache = response.header("cache-control").expect("cache-control");
    assert!(cache.contains("no-store"), "{cache}");
}

#[test]
fn scripts_get_json() {
    let Some(room) = FullRoom::with(JSON) else {
        return;
    };
    for headers in [
        &[("Sec-Fetch-Dest", "empty")][..],
        &[("X-Requested-With", "XMLHttpRequest")],
    ] {
        let response = room.ask("GET", headers, b"");
        assert_eq!(response.status, 200);
        assert!(response.position().is_some());
        assert!(response.header("retry-after").is_some());
        is_never_stored(&response);
    }
    assert_eq!(room.places(), 2, "scripts take places");
    room.reached_by_nobody_else();
}

#[test]
fn scripts_of_a_room_without_json_see_that_they_were_not_served() {
    let Some(room) = FullRoom::with("") else {
        return;
    };
    let response = room.ask("POST", &[("Sec-Fetch-Dest", "empty")], b"{}");
    assert_eq!(response.status, 503);
    assert!(response.json()["cfWaitingRoom"].is_object());
    room.reached_by_nobody_else();
}

#[test]
fn parts_of_pages_and_guesses_of_the_browser_take_no_place() {
    let Some(room) = FullRoom::with(JSON) else {
        return;
    };
    for headers in [
        ("Sec-Fetch-Dest", "image"),
        ("Sec-Fetch-Dest", "script"),
        ("Sec-Fetch-Dest", "font"),
        ("Sec-Purpose", "prefetch"),
    ] {
        let response = room.ask("GET", &[headers], b"");
        assert_eq!(response.status, 503, "{headers:?}");
        assert!(response.body.is_empty());
        assert_eq!(response.header("set-cookie"), None);
        is_never_stored(&response);
    }
    assert_eq!(room.places(), 0);
    room.reached_by_nobody_else();
}

#[test]
fn upgrades_are_refused_without_a_place() {
    let Some(room) = FullRoom::with("") else {
        return;
    };
    let mut visitor = room.outside(&[]);
    let head = visitor
        .head("GET", "/socket", 0)
        .replace("Connection: close", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==");
    let mut connection =
        gate_tests::http::Connection::open(room.gate.address()).expect("a connection");
    connection.send(head.as_bytes()).expect("a request");
    let response = connection.receive().expect("an answer");
    visitor.keep(&response);
    assert_eq!(response.status, 503);
    assert!(visitor.cookies().is_empty());
    assert_eq!(room.places(), 0);
}

#[test]
fn forms_get_the_page_and_reach_nobody() {
    let Some(room) = FullRoom::with("") else {
        return;
    };
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let response = room.ask("POST", &[form, ("Sec-Fetch-Dest", "document")], b"a=1&b=2");
    assert_eq!(response.status, 200);
    assert!(response.text().contains("<html"));
    is_never_stored(&response);
    assert_eq!(room.places(), 1);
    room.reached_by_nobody_else();
}

#[test]
fn head_is_get_without_the_body() {
    let Some(room) = FullRoom::with("queueing_status_code = 202") else {
        return;
    };
    let response = room.ask("HEAD", &[], b"");
    assert_eq!(response.status, 202);
    assert!(response.body.is_empty());
    assert_eq!(response.header("refresh"), Some("20"));
}

#[test]
fn preflights_are_answered_where_the_origin_is_known() {
    let Some(room) = FullRoom::with("cors_allowed_origins = [\"https://app.test\"]") else {
        return;
    };
    let preflight = |origin| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
        ];
        room.ask("OPTIONS", &headers, b"")
    };
    let response = preflight("https://app.test");
    assert_eq!(response.status, 204);
    assert_eq!(
        response.header("access-control-allow-origin"),
        Some("https://app.test")
    );
    assert_eq!(response.header("set-cookie"), None);
    room.reached_by_nobody_else();
    let stranger = preflight("https://evil.test");
    assert_eq!(stranger.header("access-control-allow-origin"), None);
    assert_eq!(room.places(), 0);

    let script = [("Origin", "https://app.test"), ("Sec-Fetch-Dest", "empty")];
    let waiting = room.ask("GET", &script, b"");
    assert_eq!(
        waiting.header("access-control-allow-origin"),
        Some("https://app.test")
    );
}

#[test]
fn whoever_leaves_gives_the_place_back() {
    let Some(mut room) = FullRoom::with(JSON) else {
        return;
    };
    let (mut first, mut second) = (room.outside(&[]).json(), room.outside(&[]).json());
    assert_eq!(first.get("/").position(), Some(1));
    assert_eq!(second.get("/").position(), Some(2));
    let mut leaving = first.clone().with("X-Gate-Poll", "leave");
    let response = leaving.request("DELETE", "/", b"").expect("an answer");
    assert_eq!(response.status, 204);
    assert!(leaving.cookies().is_empty(), "the cookie is expired");
    assert_eq!(room.places(), 1);
    let moved = second.clone().with("X-Gate-Poll", "1").get("/");
    assert_eq!(moved.position(), Some(1));

    // The same for a session.
    room.inside = room.inside.with("X-Gate-Poll", "leave");
    let response = room.inside.request("DELETE", "/", b"").expect("an answer");
    assert_eq!(response.status, 204);
    let status = Visitor::new(room.admin, "admin").get("/status").json();
    assert_eq!(status["rooms"][0]["active_users"], 0);
}

#[test]
fn a_preview_shows_what_visitors_would_see() {
    let event = "[[rooms.events]]
name = \"sale\"
event_start_time = \"2030-01-01T00:00:00Z\"
event_end_time = \"2030-01-02T00:00:00Z\"
default_template_language = \"de-DE\"
";
    let Some(room) = FullRoom::with(&format!(
        "custom_page_html = \"<p>Place {{{{{{position}}}}}}, full: {{{{{{queueIsFull}}}}}}</p>\"\n{event}custom_page_html = \"Sale: {{{{{{position}}}}}}\""
    )) else {
        return;
    };
    let shown = |query: &str| Visitor::new(room.admin, "admin").get(&format!("/preview{query}"));
    let page = shown("?room=shop");
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(
        page.header("content-security-policy"),
        Some("sandbox allow-scripts")
    );
    assert_eq!(page.text(), "<p>Place 1284, full: false</p>");
    // One room needs no name.
    assert_eq!(
        shown("?state=queue-full").text(),
        "<p>Place 1250000, full: true</p>"
    );
    assert_eq!(shown("?event=sale").text(), "Sale: 1284");
    let refused = shown("?room=shop&state=gone");
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains("must be one of queueing"),
        "{}",
        refused.text()
    );
    // Nobody was counted.
    assert_eq!(room.places(), 0);
    room.reached_by_nobody_else();
}
