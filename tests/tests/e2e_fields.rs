//! The documented fields of a room, each shown through a running gate with nginx behind it. The README's table of fields names
//! these cases.

use std::time::Duration;

use gate_tests::http::{Connection, Response, Visitor};
use gate_tests::{DEADLINE, Gate, Need, Nginx, need, ports, until};
use serde_json::Value;

/// A gate with rooms, and the origin behind it.
struct Stage {
    origin: Nginx,
    gate: Gate,
    admin: std::net::SocketAddr,
}

impl Stage {
    /// With these `[[rooms]]`.
    #[track_caller]
    fn with(rooms: &str) -> Option<Self> {
        if !need::all(&[Need::Command("nginx")]) {
            return None;
        }
        let origin = Nginx::start();
        let admin = std::net::SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let configuration = format!(
            "listen = [\"{{listen}}\"]\norigin = \"{}\"\nadmin = \"{admin}\"\n\n{rooms}",
            origin.url()
        );
        let gate = Gate::configured(&configuration);
        Some(Self {
            origin,
            gate,
            admin,
        })
    }

    /// One room on `shop.test` with these limits and more keys.
    #[track_caller]
    fn room(total: u32, per_minute: u32, keys: &str) -> Option<Self> {
        Self::with(&format!(
            "[[rooms]]\nname = \"shop\"\nhost = \"shop.test\"\ntotal_active_users = {total}\nnew_users_per_minute = {per_minute}\n{keys}\n"
        ))
    }

    fn visitor(&self) -> Visitor {
        self.at("shop.test")
    }

    fn at(&self, host: &str) -> Visitor {
        Visitor::new(self.gate.address(), host)
    }

    /// One count of the only room.
    fn count(&self, member: &str) -> u64 {
        let status = Visitor::new(self.admin, "admin").get("/status").json();
        status["rooms"][0][member].as_u64().expect("a count")
    }
}

fn is_in(response: &Response) -> bool {
    response.status == 200 && response.text().contains("the origin")
}

/// What a waiting visitor's JSON holds.
#[track_caller]
fn waiting(response: &Response) -> Value {
    let json = response.json();
    assert!(json["cfWaitingRoom"]["inWaitingRoom"] == true, "{json}");
    json["cfWaitingRoom"].clone()
}

/// The name and the attributes of the cookie that an answer sets.
#[track_caller]
fn cookie(response: &Response) -> (String, String) {
    let set = response.header("set-cookie").expect("a cookie");
    let (pair, attributes) = set.split_once(';').expect("attributes");
    let (name, _) = pair.split_once('=').expect("a name");
    (name.to_owned(), attributes.to_ascii_lowercase())
}

const JSON: &str = "json_response_enabled = true";

#[test]
fn host_and_path_find_the_most_specific_room() {
    let Some(stage) = Stage::with(
        "[[rooms]]\nname = \"shop\"\nhost = \"shop.test\"\ntotal_active_users = 1\nnew_users_per_minute = 1
[[rooms]]\nname = \"drop\"\nhost = \"shop.test\"\npath = \"/drop\"\ntotal_active_users = 1\nnew_users_per_minute = 1\ncookie_suffix = \"drop\"\n",
    ) else {
        return;
    };
    // One slot in each: whoever gets in second is in another room.
    assert!(is_in(&stage.visitor().get("/a")));
    assert!(!is_in(&stage.visitor().get("/b")));
    assert!(is_in(&stage.visitor().get("/drop/today")));
    for spelling in [
        "/drop",
        "/drop/x?y=z",
        "//drop",
        "/./drop/",
        "/a/../drop",
        "/%64rop",
    ] {
        assert!(
            !is_in(&stage.visitor().get(spelling)),
            "{spelling} is in a full room"
        );
    }
    for host in ["SHOP.test", "shop.test.", "shop.test:80"] {
        assert!(!is_in(&stage.at(host).get("/")), "{host} is the same host");
    }
}

#[test]
fn requests_outside_every_room_pass_untouched() {
    let Some(stage) = Stage::room(1, 1, "path = \"/shop\"") else {
        return;
    };
    for _ in 0..3 {
        let mut elsewhere = stage.at("other.test");
        let mut beside = stage.visitor();
        for response in [elsewhere.get("/shop"), beside.get("/")] {
            assert!(is_in(&response));
            assert_eq!(response.header("set-cookie"), None);
        }
    }
    assert_eq!(stage.count("active_users"), 0);
}

#[test]
fn additional_routes_share_one_room() {
    let Some(stage) = Stage::room(
        1,
        1,
        "cookie_suffix = \"all\"\nadditional_routes = [{ host = \"tickets.test\", path = \"/buy\" }]",
    ) else {
        return;
    };
    let first = stage.visitor().get("/");
    assert!(is_in(&first));
    assert_eq!(cookie(&first).0, "__waitingroom_all");
    assert!(!is_in(&stage.at("tickets.test").get("/buy/now")));
    assert!(
        is_in(&stage.at("tickets.test").get("/")),
        "outside the route"
    );
}

#[test]
fn cookies_have_the_name_and_the_attributes_asked_for() {
    for (keys, name, expected, absent) in [
        (
            "",
            "__waitingroom",
            &["httponly", "path=/", "samesite=lax"][..],
            &["secure"][..],
        ),
        ("cookie_suffix = \"x\"", "__waitingroom_x", &[], &[]),
        ("cookie_name = \"queue\"", "queue", &[], &[]),
        (
            "cookie_attributes = { samesite = \"strict\", secure = \"always\" }",
            "__waitingroom",
            &["samesite=strict", "secure"],
            &["partitioned"],
        ),
        (
            "cookie_attributes = { samesite = \"none\" }",
            "__waitingroom",
            &["samesite=none", "secure", "partitioned"],
            &[],
        ),
        (
            "cookie_domain = \"shop.test\"",
            "__waitingroom",
            &["domain=shop.test"],
            &[],
        ),
    ] {
        let Some(stage) = Stage::room(5, 5, keys) else {
            return;
        };
        let (found, attributes) = cookie(&stage.visitor().get("/"));
        assert_eq!(found, name, "{keys}");
        for attribute in expected {
            assert!(attributes.contains(attribute), "{keys}: {attributes}");
        }
        for attribute in absent {
            assert!(!attributes.contains(attribute), "{keys}: {attributes}");
        }
    }
}

#[test]
fn a_session_lives_as_long_as_session_duration() {
    let Some(stage) = Stage::room(5, 5, "session_duration = 7") else {
        return;
    };
    let (_, attributes) = cookie(&stage.visitor().get("/"));
    assert!(attributes.contains("max-age=420"), "minutes: {attributes}");

    let Some(stage) = Stage::room(5, 5, "session_duration_seconds = 2") else {
        return;
    };
    let mut visitor = stage.visitor();
    visitor.get("/");
    assert_eq!(stage.count("active_users"), 1);
    until("the session ends", DEADLINE, || {
        (stage.count("active_users") == 0).then_some(())
    });
    assert!(is_in(&visitor.get("/")), "a new user, and there is room");
    assert_eq!(stage.count("admitted_total"), 2);
}

#[test]
fn requests_renew_a_session_unless_renewal_is_disabled() {
    for (keys, admitted) in [
        ("session_duration_seconds = 3", 1),
        (
            "session_duration_seconds = 3\ndisable_session_renewal = true",
            2,
        ),
    ] {
        let Some(stage) = Stage::room(5, 5, keys) else {
            return;
        };
        let mut visitor = stage.visitor();
        for _ in 0..9 {
            assert!(is_in(&visitor.get("/")));
            std::thread::sleep(Duration::from_millis(500));
        }
        assert_eq!(stage.count("admitted_total"), admitted, "{keys}");
    }
}

#[test]
fn queue_all_lets_nobody_in_and_knows_no_wait() {
    let Some(stage) = Stage::room(5, 5, &format!("queue_all = true\n{JSON}")) else {
        return;
    };
    let answer = waiting(&stage.visitor().json().get("/"));
    assert_eq!(answer["queueAll"], true);
    assert_eq!(answer["waitTimeKnown"], false);
    assert_eq!(answer["waitTimeFormatted"], "unavailable");
    assert_eq!(stage.count("active_users"), 0);
}

#[test]
fn each_queueing_method_is_itself() {
    let method = |name: &str| Stage::room(1, 1, &format!("queueing_method = \"{name}\"\n{JSON}"));
    let (Some(fifo), Some(random)) = (method("fifo"), method("random")) else {
        return;
    };
    for (stage, flag, ordered) in [
        (&fifo, "isFIFOQueue", true),
        (&random, "isRandomQueue", false),
    ] {
        assert!(is_in(&stage.visitor().json().get("/")));
        let response = stage.visitor().json().get("/");
        assert_eq!(waiting(&response)[flag], true);
        assert_eq!(response.position().is_some(), ordered);
    }
    let passthrough = method("passthrough").expect("nginx is there");
    for _ in 0..5 {
        assert!(
            is_in(&passthrough.visitor().json().get("/")),
            "everybody passes"
        );
    }
    assert_eq!(passthrough.count("active_users"), 5, "and is counted");
    let reject = method("reject").expect("nginx is there");
    let response = reject.visitor().json().get("/");
    let answer = waiting(&response);
    assert_eq!(answer["isRejectQueue"], true);
    assert_eq!(answer["refreshIntervalSeconds"], 0);
    assert_eq!(
        response.header("refresh"),
        None,
        "a rejecting page does not refresh"
    );
    let esa = method("reject-all").expect("nginx is there");
    assert_eq!(
        waiting(&esa.visitor().json().get("/"))["isRejectQueue"],
        true
    );
}

#[test]
fn waiting_answers_have_the_status_asked_for_and_are_not_stored() {
    for status in [200, 202, 429] {
        let Some(stage) = Stage::room(1, 1, &format!("queueing_status_code = {status}")) else {
            return;
        };
        stage.visitor().get("/");
        let response = stage.visitor().get("/");
        assert_eq!(response.status, status);
        assert_eq!(response.header("refresh"), Some("20"));
        let cache = response.header("cache-control").expect("cache-control");
        assert!(cache.contains("no-store"), "{cache}");
        assert!(response.text().contains("<html"), "a page");
    }
}

#[test]
fn a_suspended_room_is_not_there() {
    let Some(stage) = Stage::room(1, 1, "suspended = true") else {
        return;
    };
    for _ in 0..5 {
        let response = stage.visitor().get("/");
        assert!(is_in(&response));
        assert_eq!(response.header("set-cookie"), None);
    }
    assert_eq!(stage.count("active_users"), 0);
}

#[test]
fn json_is_for_those_who_ask_for_exactly_that() {
    let Some(stage) = Stage::room(1, 1, JSON) else {
        return;
    };
    stage.visitor().get("/");
    let response = stage.visitor().json().get("/");
    let members = response.json()["cfWaitingRoom"]
        .as_object()
        .expect("an object")
        .len();
    assert_eq!(members, 25, "the field's members");
    assert_eq!(response.position(), Some(1));
    let ask = |accept: &str| {
        let mut connection = Connection::open(stage.gate.address()).expect("a connection");
        let head = format!(
            "GET / HTTP/1.1\r\nHost: shop.test\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        );
        connection.send(head.as_bytes()).expect("a request");
        connection.receive().expect("an answer")
    };
    for accept in ["application/json, text/html", "*/*", "text/html"] {
        let kind = ask(accept)
            .header("content-type")
            .map(str::to_owned)
            .expect("a type");
        assert!(kind.starts_with("text/html"), "{accept}: {kind}");
    }
}

#[test]
fn json_of_the_other_field_has_its_envelope() {
    let Some(stage) = Stage::room(1, 1, &format!("json_response_format = \"esa\"\n{JSON}")) else {
        return;
    };
    stage.visitor().get("/");
    // Contained is enough there.
    let response = stage.visitor().with("Accept", "text/html").json().get("/");
    let json = response.json();
    let room = json["WaitingRoom"].as_object().expect("an object");
    assert_eq!(room.len(), 8, "{json}");
    assert_eq!(response.position(), Some(1));
}

#[test]
fn a_page_of_ones_own_is_rendered() {
    let page = "custom_page_html = '<title>Mine</title><p>{{waitTime}} {{#queueAll}}all{{/queueAll}}{{^queueAll}}some{{/queueAll}}</p>'";
    let Some(stage) = Stage::room(1, 1, page) else {
        return;
    };
    stage.visitor().get("/");
    let text = stage.visitor().get("/").text();
    assert!(text.contains("<title>Mine</title>"), "{text}");
    assert!(text.contains("some</p>") && !text.contains("{{"), "{text}");
}

#[test]
fn the_page_speaks_the_language_asked_for() {
    for (keys, accept, language) in [
        ("", "", "en"),
        ("default_template_language = \"zh-CN\"", "", "zh-CN"),
        ("accept_language = true", "ar;q=0.9, de;q=0.2", "ar"),
        (
            "default_template_language = \"fr-FR\"\naccept_language = true",
            "tlh",
            "fr",
        ),
    ] {
        let Some(stage) = Stage::room(1, 1, keys) else {
            return;
        };
        stage.visitor().get("/");
        let text = stage
            .visitor()
            .with("Accept-Language", accept)
            .get("/")
            .text();
        assert!(
            text.contains(&format!("lang=\"{language}")),
            "{keys}: {}",
            &text[..200]
        );
        let right_to_left = text.contains("dir=\"rtl\"");
        assert_eq!(right_to_left, language == "ar");
    }
}

#[test]
fn origins_see_our_cookie_only_where_they_should() {
    for (keys, seen) in [("", false), ("forward_cookie = true", true)] {
        let Some(stage) = Stage::room(5, 5, keys) else {
            return;
        };
        let mut visitor = stage.visitor();
        visitor.get("/");
        visitor.cookies_mut().insert("cart".into(), "7".into());
        visitor.get("/");
        let hits = stage.origin.hits_at_least(2);
        assert!(hits[1].cookie.contains("cart=7"), "{:?}", hits[1]);
        assert_eq!(hits[1].cookie.contains("__waitingroom="), seen, "{keys}");
    }
}

#[test]
fn a_bound_ticket_is_worth_nothing_to_another_client() {
    let Some(stage) = Stage::room(1, 1, "ticket_binding = [\"user_agent\"]") else {
        return;
    };
    let mut visitor = stage.visitor().with("User-Agent", "one");
    assert!(is_in(&visitor.get("/")));
    assert!(is_in(&visitor.get("/")));
    let mut thief = stage.visitor().with("User-Agent", "two");
    thief.cookies_mut().extend(visitor.cookies().clone());
    assert!(!is_in(&thief.get("/")));
}

/// RFC 3339, so many minutes from now.
fn minutes_from_now(minutes: i64) -> String {
    let now = jiff::Timestamp::now();
    let then = now + jiff::SignedDuration::from_mins(minutes);
    format!("{then:.0}")
}

fn event(lines: &str) -> String {
    format!("{JSON}\n[[rooms.events]]\nname = \"sale\"\n{lines}\n")
}

#[test]
fn before_an_event_everybody_gathers() {
    let (from, start, end) = (
        minutes_from_now(-1),
        minutes_from_now(10),
        minutes_from_now(60),
    );
    let lines = format!(
        "prequeue_start_time = \"{from}\"\nevent_start_time = \"{start}\"\nevent_end_time = \"{end}\"\nshuffle_at_event_start = true"
    );
    let Some(stage) = Stage::room(5, 5, &event(&lines)) else {
        return;
    };
    let answer = waiting(&stage.visitor().json().get("/"));
    assert_eq!(answer["isEventPrequeueing"], true);
    assert_eq!(answer["isEventActive"], true, "from the prequeue on");
    assert_eq!(answer["shuffleAtEventStart"], true);
    let until_start = answer["timeUntilEventStart"].as_u64().expect("minutes");
    assert!((9..=10).contains(&until_start), "{answer}");
    assert_eq!(stage.count("active_users"), 0);
}

#[test]
fn an_event_overrides_its_room() {
    let (start, end) = (minutes_from_now(-5), minutes_from_now(60));
    let lines = format!(
        "event_start_time = \"{start}\"\nevent_end_time = \"{end}\"\ntotal_active_users = 2\nnew_users_per_minute = 2\nqueueing_status_code = 202"
    );
    let Some(stage) = Stage::room(50, 50, &event(&lines)) else {
        return;
    };
    assert!(is_in(&stage.visitor().json().get("/")));
    assert!(is_in(&stage.visitor().json().get("/")));
    let response = stage.visitor().json().get("/");
    assert_eq!(response.status, 202);
    let answer = waiting(&response);
    assert_eq!(
        (&answer["isEventActive"], &answer["isEventPrequeueing"]),
        (&true.into(), &false.into())
    );
    assert!(
        answer["timeUntilEventEnd"].as_u64().expect("minutes") >= 58,
        "{answer}"
    );
}

#[test]
fn maintenance_is_an_event_that_rejects_in_a_room_that_lets_pass() {
    let (start, end) = (minutes_from_now(-5), minutes_from_now(60));
    let lines = format!(
        "event_start_time = \"{start}\"\nevent_end_time = \"{end}\"\nqueueing_method = \"reject\""
    );
    let keys = format!("queueing_method = \"passthrough\"\n{}", event(&lines));
    let Some(stage) = Stage::room(5, 5, &keys) else {
        return;
    };
    let answer = waiting(&stage.visitor().json().get("/"));
    assert_eq!(answer["isRejectQueue"], true);
}

#[test]
fn an_event_does_nothing_in_a_suspended_room() {
    let (start, end) = (minutes_from_now(-5), minutes_from_now(60));
    let lines = format!(
        "event_start_time = \"{start}\"\nevent_end_time = \"{end}\"\nqueueing_method = \"reject\""
    );
    let Some(stage) = Stage::room(5, 5, &format!("suspended = true\n{}", event(&lines))) else {
        return;
    };
    assert!(is_in(&stage.visitor().get("/")));
}
