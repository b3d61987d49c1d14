//! Details of rooms through a running gate: spellings of covered pages, negotiation, cookies behind a proxy with TLS, and events
//! as they begin.

use gate_tests::http::{Connection, Response, Visitor};
use gate_tests::{DEADLINE, Gate, Need, Nginx, need, until};
use serde_json::Value;

struct Stage {
    origin: Nginx,
    gate: Gate,
}

impl Stage {
    /// These lines behind `listen`, `origin` and whatever stands before the first room in `lines`.
    #[track_caller]
    fn with(lines: &str) -> Option<Self> {
        if !need::all(&[Need::Command("nginx")]) {
            return None;
        }
        let origin = Nginx::start();
        let gate = Gate::configured(&format!(
            "listen = \"{{listen}}\"\norigin = \"{}\"\n{lines}\n",
            origin.url()
        ));
        Some(Self { origin, gate })
    }

    /// One room on `shop.test` with these limits and more keys.
    #[track_caller]
    fn room(limit: u32, keys: &str) -> Option<Self> {
        Self::with(&format!(
            "[[rooms]]\nname = \"shop\"\nhost = \"shop.test\"\ntotal_active_users = {limit}\nnew_users_per_minute = {limit}\n{keys}"
        ))
    }

    fn visitor(&self) -> Visitor {
        Visitor::new(self.gate.address(), "shop.test")
    }

    /// A request by hand: target and header lines, each with its end.
    #[track_caller]
    fn raw(&self, target: &str, lines: &str) -> Response {
        let mut connection = Connection::open(self.gate.address()).expect("a connection");
        let head = format!("GET {target} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n");
        connection.send(head.as_bytes()).expect("a request");
        connection.receive().expect("an answer")
    }
}

fn is_in(response: &Response) -> bool {
    response.text().contains("the origin")
}

const JSON: &str = "json_response_enabled = true";

#[test]
fn no_spelling_of_a_covered_page_slips_past_its_room() {
    let Some(stage) = Stage::room(1, "path = \"/shop/sale\"\nqueue_all = true") else {
        return;
    };
    for target in [
        "/shop/sale",
        "/shop/sale/",
        "/shop/sale/item",
        "/shop/sale?x=/other",
        "//shop/sale",
        "/shop//sale",
        "/./shop/./sale",
        "/shop/x/../sale",
        "/shop/%2e/sale",
        "/x/%2E%2e/shop/sale",
        "/shop%2Fsale",
        "/shop%2fsale",
        "/shop%252Fsale",
        "/sh%6Fp/sale",
        "/shop%5Csale",
        "/shop;a=b/sale;c",
        "/shop/sale%00.css",
        "/shop/sale%3Fx",
        "http://shop.test/shop/sale",
    ] {
        let response = stage.raw(target, "Host: shop.test\r\n");
        assert!(!is_in(&response), "{target}");
    }
    for host in [
        "shop.test",
        "SHOP.Test",
        "shop.test.",
        "shop.test:8080",
        "shop.test.:80",
    ] {
        let response = stage.raw("/shop/sale", &format!("Host: {host}\r\n"));
        assert!(!is_in(&response), "{host}");
    }
    // Other pages are other pages.
    for target in [
        "/",
        "/shop",
        "/shop/sales",
        "/shop/Sale",
        "/other/shop/sale",
    ] {
        let response = stage.raw(target, "Host: shop.test\r\n");
        assert!(is_in(&response), "{target}");
        assert_eq!(response.header("set-cookie"), None, "{target}");
    }
    let sent = stage.origin.hits_at_least(5);
    assert!(
        sent.iter().all(|hit| !hit.target.contains("/sale/")),
        "{sent:?}"
    );
}

#[test]
fn paths_match_in_any_case_where_they_should() {
    let keys = "path = \"/Sale\"\npath_case_insensitive = true\nqueue_all = true";
    let Some(stage) = Stage::room(1, keys) else {
        return;
    };
    for target in ["/Sale", "/sale/item", "/SALE", "/%53ale"] {
        assert!(
            !is_in(&stage.raw(target, "Host: shop.test\r\n")),
            "{target}"
        );
    }
}

#[test]
fn who_asks_for_json_is_negotiated_as_asked_for() {
    for (negotiation, rows) in [
        (
            "exact",
            &[
                ("application/json", true),
                ("application/json, text/plain, */*", false),
                ("text/html", false),
            ][..],
        ),
        (
            "contains",
            &[
                ("application/json", true),
                ("application/json, text/plain, */*", true),
                ("text/html, application/json;q=0.1", true),
                ("text/html", false),
                ("*/*", false),
            ],
        ),
        (
            "q_values",
            &[
                ("application/json, text/plain, */*", true),
                ("application/json;q=0.5, text/html", false),
                ("application/json, text/html;q=0.9", true),
                ("application/json;q=0", false),
                ("text/html", false),
            ],
        ),
    ] {
        let keys =
            format!("{JSON}\nqueue_all = true\njson_response_negotiation = \"{negotiation}\"");
        let Some(stage) = Stage::room(1, &keys) else {
            return;
        };
        for (accept, is_json) in rows {
            let response = stage.raw("/", &format!("Host: shop.test\r\nAccept: {accept}\r\n"));
            let kind = response.header("content-type").expect("a type");
            assert_eq!(
                kind.starts_with("application/json"),
                *is_json,
                "{negotiation}: {accept}: {kind}"
            );
        }
    }
}

#[test]
fn waiting_answers_say_when_to_come_back() {
    let keys = format!("{JSON}\nqueue_all = true\nrefresh_interval_seconds = 30");
    let Some(stage) = Stage::room(1, &keys) else {
        return;
    };
    for response in [stage.visitor().get("/"), stage.visitor().json().get("/")] {
        assert_eq!(response.header("retry-after"), Some("30"));
    }
    let json = stage.visitor().json().get("/").json();
    assert_eq!(json["cfWaitingRoom"]["refreshIntervalSeconds"], 30);
    assert_eq!(json["cfWaitingRoom"]["queueAll"], true);
    assert_eq!(json["cfWaitingRoom"]["waitTimeFormatted"], "unavailable");
}

#[test]
fn a_lottery_shows_percentiles() {
    let Some(stage) = Stage::room(1, &format!("{JSON}\nqueueing_method = \"random\"")) else {
        return;
    };
    assert!(is_in(&stage.visitor().json().get("/")));
    for _ in 0..8 {
        stage.visitor().json().get("/");
    }
    let json = stage.visitor().json().get("/").json();
    assert_eq!(json["position"], Value::Null);
    let room = &json["cfWaitingRoom"];
    let minutes = |member: &str| room[member].as_u64().expect(member);
    assert_eq!(room["queueingMethod"], "random");
    assert!(
        minutes("waitTime25Percentile") <= minutes("waitTime50Percentile"),
        "{room}"
    );
    assert!(
        minutes("waitTime50Percentile") <= minutes("waitTime75Percentile"),
        "{room}"
    );
    assert_eq!(room["waitTime"], room["waitTime50Percentile"]);
    assert!(minutes("waitTime75Percentile") > 0, "{room}");
}

#[test]
fn behind_a_proxy_with_tls_cookies_are_for_tls() {
    let room = "[[rooms]]\nname = \"shop\"\ntotal_active_users = 9\nnew_users_per_minute = 9\n";
    let lines = |response: &Response| response.header("set-cookie").expect("a cookie").to_owned();
    for (trusted, secure) in [
        ("trusted_proxies = [\"127.0.0.1/32\"]\n", true),
        ("", false),
    ] {
        let Some(stage) = Stage::with(&format!("{trusted}{room}")) else {
            return;
        };
        let cookie = lines(&stage.visitor().with("X-Forwarded-Proto", "https").get("/"));
        assert_eq!(
            cookie.contains("; Secure; SameSite=None; Partitioned"),
            secure,
            "{cookie}"
        );
        let cookie = lines(&stage.visitor().with("X-Forwarded-Proto", "http").get("/"));
        assert!(cookie.ends_with("; HttpOnly; SameSite=Lax"), "{cookie}");
    }
}

/// RFC 3339, so many seconds from now.
fn from_now(seconds: i64) -> String {
    let then = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    format!("{then:.0}")
}

fn event(start: i64, end: i64, lines: &str) -> String {
    format!(
        "[[rooms.events]]\nname = \"sale\"\nevent_start_time = {}\nevent_end_time = {}\n{lines}\n",
        from_now(start),
        from_now(end)
    )
}

/// Two slots and an event that begins in a moment; the room has these keys. The gate is built before the moment is chosen.
fn before_an_event(keys: &str) -> Option<Stage> {
    gate_tests::gate::binary();
    let lines = format!("prequeue_start_time = {}\n{keys}", from_now(-600));
    Stage::room(2, &format!("{JSON}\n{}", event(5, 600, &lines)))
}

const GATHERED: usize = 20;

/// Gathers before an event, and gives who enters the two slots when it has begun, and the places of all others in the order
/// in which they came. They ask in the reverse of that order.
fn gather(stage: &Stage) -> (Vec<usize>, Vec<u64>) {
    let mut visitors: Vec<Visitor> = (0..GATHERED).map(|_| stage.visitor().json()).collect();
    for visitor in &mut visitors {
        let json = visitor.get("/").json();
        assert_eq!(json["cfWaitingRoom"]["isEventPrequeueing"], true, "{json}");
    }
    let mut inside = Vec::new();
    until("its slots are taken", DEADLINE, || {
        for (index, visitor) in visitors.iter_mut().enumerate().rev() {
            if !inside.contains(&index) && is_in(&visitor.get("/")) {
                inside.push(index);
            }
        }
        (inside.len() >= 2).then_some(())
    });
    inside.sort_unstable();
    // Nobody more, however often they ask.
    let outside = visitors.iter_mut().enumerate();
    let outside = outside.filter(|(index, _)| !inside.contains(index));
    let places = outside.map(|(_, visitor)| visitor.get("/").position().expect("a place"));
    let places = places.collect();
    (inside, places)
}

#[test]
fn those_who_gathered_enter_in_the_order_in_which_they_came() {
    let Some(stage) = before_an_event("") else {
        return;
    };
    let (inside, places) = gather(&stage);
    assert_eq!(inside, [0, 1]);
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn a_shuffle_puts_those_who_gathered_in_another_order() {
    let Some(stage) = before_an_event("shuffle_at_event_start = true") else {
        return;
    };
    let (inside, mut places) = gather(&stage);
    assert_eq!(inside.len(), 2);
    // Eighteen in order by chance: never.
    assert!(!places.is_sorted(), "{places:?}");
    places.sort_unstable();
    let all: Vec<u64> = (1..=GATHERED as u64 - 2).collect();
    assert_eq!(places, all);
}

#[test]
fn an_event_can_be_all_there_is() {
    // A room that rejects, but for its event.
    let room = |start, end| {
        let keys = "queueing_method = \"reject\"\njson_response_enabled = true";
        let lines = "queueing_method = \"fifo\"\ntotal_active_users = 1\nnew_users_per_minute = 1";
        Stage::room(5, &format!("{keys}\n{}", event(start, end, lines)))
    };
    let (Some(before), Some(during)) = (room(600, 1_200), room(-60, 600)) else {
        return;
    };
    let json = before.visitor().json().get("/").json();
    assert_eq!(json["cfWaitingRoom"]["isRejectQueue"], true);
    assert_eq!(json["cfWaitingRoom"]["isEventActive"], false);
    assert!(is_in(&during.visitor().json().get("/")));
    let json = during.visitor().json().get("/").json();
    assert_eq!(json["cfWaitingRoom"]["isFIFOQueue"], true);
    assert_eq!(json["position"], 1);
}

#[test]
fn an_event_may_answer_in_its_own_way_and_inherits_the_rest() {
    let lines =
        "queueing_method = \"reject\"\nqueueing_status_code = 429\njson_response_enabled = true
json_response_format = \"esa\"\ndefault_template_language = \"de-DE\"";
    let keys = "queueing_status_code = 202\ndefault_template_language = \"fr-FR\"";
    let Some(stage) = Stage::room(5, &format!("{keys}\n{}", event(-60, 600, lines))) else {
        return;
    };
    let page = stage.visitor().get("/");
    assert_eq!(page.status, 429);
    assert!(page.text().contains("<html lang=\"de"), "{}", page.text());
    assert!(stage.visitor().json().get("/").json()["WaitingRoom"].is_object());
    // What an event does not name is its room's.
    let lines = "queueing_method = \"reject\"";
    let Some(stage) = Stage::room(5, &format!("{keys}\n{}", event(-60, 600, lines))) else {
        return;
    };
    let page = stage.visitor().get("/");
    assert_eq!(page.status, 202);
    assert!(page.text().contains("<html lang=\"fr"), "{}", page.text());
}

#[test]
fn a_suspended_event_is_not_there() {
    let lines = "suspended = true\nqueueing_method = \"reject\"";
    let Some(stage) = Stage::room(1, &format!("{JSON}\n{}", event(-60, 600, lines))) else {
        return;
    };
    assert!(is_in(&stage.visitor().json().get("/")));
    let json = stage.visitor().json().get("/").json();
    assert_eq!(json["cfWaitingRoom"]["isFIFOQueue"], true);
    assert_eq!(json["cfWaitingRoom"]["isEventActive"], false);
}
