//! Faults of rooms, their cookies, pages and events.

use super::*;

#[test]
fn limits_of_a_room() {
    for (total, rate, expected) in [
        (
            "5",
            "6",
            "gate.toml:6: rooms[0].new_users_per_minute = 6: must be at most total_active_users, which is 5",
        ),
        (
            "0",
            "1",
            "gate.toml:5: rooms[0].total_active_users = 0: must be an integer from 1 to 2147483647",
        ),
        (
            "5",
            "0",
            "gate.toml:6: rooms[0].new_users_per_minute = 0: must be an integer from 1 to 2147483647",
        ),
        (
            "2147483648",
            "1",
            "gate.toml:5: rooms[0].total_active_users = 2147483648: must be an integer from 1 to 2147483647",
        ),
        (
            "-5",
            "1",
            "gate.toml:5: rooms[0].total_active_users = -5: must be an integer from 1 to 2147483647",
        ),
    ] {
        let text = HEAD
            .replace("users = 10", &format!("users = {total}"))
            .replace("minute = 5", &format!("minute = {rate}"));
        complains(&text, &[expected]);
    }
    for (total, rate) in [("1", "1"), ("2147483647", "2147483647")] {
        let text = HEAD
            .replace("users = 10", &format!("users = {total}"))
            .replace("minute = 5", &format!("minute = {rate}"));
        parse(&text).unwrap();
    }
}

#[test]
fn names_hosts_and_paths() {
    for (name, problem) in [
        ("", "must be 1 to 100 letters"),
        ("a b", "must be 1 to 100 letters"),
        ("ä", "must be 1 to 100 letters"),
    ] {
        let text = HEAD.replace("\"a\"", &format!("{name:?}"));
        complains(
            &text,
            &[&format!("gate.toml:4: rooms[0].name = {name:?}: {problem}")],
        );
    }
    room_rows(&[
        (
            "host = \"https://a.example\"",
            &[
                "gate.toml:7: rooms[0].host = \"https://a.example\": must be a host name such as shop.example.com, or \"*\" for every host: leave out the scheme",
            ],
        ),
        (
            "host = \"*.example\"",
            &[
                "gate.toml:7: rooms[0].host = \"*.example\": must be a host name such as shop.example.com, or \"*\" for every host: no wildcards within a name",
            ],
        ),
        (
            "path = \"shop\"",
            &["gate.toml:7: rooms[0].path = \"shop\": must begin with \"/\""],
        ),
        (
            "path = \"/shop/*\"",
            &["gate.toml:7: rooms[0].path = \"/shop/*\": must have no \"*\""],
        ),
        (
            "path = \"/shop?a\"",
            &["gate.toml:7: rooms[0].path = \"/shop?a\": must have no query or fragment"],
        ),
    ]);
}

#[test]
fn rooms_must_not_collide() {
    let other = |name: &str, rest: &str| {
        format!(
            "[[rooms]]\nname = \"{name}\"\ntotal_active_users = 1\nnew_users_per_minute = 1\n{rest}\n"
        )
    };
    for (text, expected) in [
        (
            format!("{HEAD}{}", other("a", "path = \"/b\"")),
            "gate.toml:8: rooms[1].name = \"a\": must be unique: rooms[0] has this name",
        ),
        (
            format!(
                "{HEAD}host = \"x.example\"\npath = \"/p\"\n{}",
                other("b", "host = \"X.example.\"\npath = \"/p/\"")
            ),
            "gate.toml:14: rooms[1].path = \"/p/\": host and path must be unique over all rooms: rooms[0] already covers x.example/p",
        ),
        (
            format!(
                "{HEAD}host = \"x.example\"\n{}",
                other(
                    "b",
                    "host = \"y.example\"\ncookie_suffix = \"b\"\nadditional_routes = [{ host = \"x.example\" }]"
                )
            ),
            "rooms[1].additional_routes[0].host = \"x.example\": host and path must be unique over all rooms: rooms[0] already covers x.example/",
        ),
        (
            format!(
                "{HEAD}host = \"x.example\"\ncookie_suffix = \"s\"\nadditional_routes = [{{ host = \"x.example\" }}]\n"
            ),
            "host and path must be unique over all rooms: this room already covers x.example/",
        ),
        (
            format!(
                "{HEAD}cookie_name = \"c\"\n{}",
                other("b", "path = \"/b\"\ncookie_name = \"c\"")
            ),
            "gate.toml:13: rooms[1].cookie_name = \"c\": two rooms on one host must not share a cookie: rooms[0] also uses c",
        ),
        (
            format!(
                "{HEAD}cookie_suffix = \"c\"\n{}",
                other("b", "path = \"/b\"\ncookie_suffix = \"c\"")
            ),
            "rooms[1].cookie_suffix = \"c\": two rooms on one host must not share a cookie: rooms[0] also uses __waitingroom_c",
        ),
        (
            format!(
                "{HEAD}cookie_name = \"__waitingroom_b\"\n{}{}",
                other("c", "path = \"/c\""),
                other("b", "path = \"/b\"")
            ),
            "needs a cookie_suffix of its own: rooms[0] already uses __waitingroom_b",
        ),
    ] {
        complains(&text, &[expected]);
    }
    let apart = format!(
        "{HEAD}host = \"x.example\"\ncookie_name = \"c\"\n{}",
        other("b", "host = \"y.example\"\ncookie_name = \"c\"")
    );
    parse(&apart).unwrap();
}

#[test]
fn rooms_of_one_host_get_cookies_of_their_own() {
    let text = format!(
        "{HEAD}[[rooms]]\nname = \"b\"\npath = \"/b\"\ntotal_active_users = 1\nnew_users_per_minute = 1\n"
    );
    let config = parse(&text).unwrap();
    let names: Vec<&str> = config.rooms.iter().map(|room| room.cookie.name()).collect();
    assert_eq!(names, ["__waitingroom", "__waitingroom_b"]);
}

#[test]
fn cookies_that_browsers_or_rooms_refuse() {
    room_rows(&[
        (
            "[rooms.cookie_attributes]\nsamesite = \"none\"\nsecure = \"never\"",
            &[
                "gate.toml:9: rooms[0].cookie_attributes.secure = \"never\": must be \"auto\" or \"always\" where samesite is \"none\"",
            ],
        ),
        (
            "[rooms.cookie_attributes]\nsamesite = \"some\"",
            &[
                "gate.toml:8: rooms[0].cookie_attributes.samesite = \"some\": must be one of \"auto\", \"lax\", \"none\", \"strict\"",
            ],
        ),
        (
            "host = \"x.example\"\n[[rooms.additional_routes]]\nhost = \"y.example\"",
            &[
                "gate.toml:3: rooms[0].cookie_suffix: missing; a room with additional_routes needs a cookie_suffix (or cookie_name) of its own",
            ],
        ),
        (
            "cookie_suffix = \"s\"\n[[rooms.additional_routes]]\npath = \"/y\"",
            &[
                "gate.toml:8: rooms[0].additional_routes[0].host: missing; an additional route needs a host",
            ],
        ),
        (
            "cookie_suffix = \"a b\"",
            &[
                "gate.toml:7: rooms[0].cookie_suffix = \"a b\": must have only letters, digits, \"_\", \"-\" and \".\"",
            ],
        ),
        (
            "cookie_name = \"a;b\"",
            &["gate.toml:7: rooms[0].cookie_name = \"a;b\": must be a cookie name"],
        ),
        (
            "cookie_name = \"a\"\ncookie_suffix = \"b\"",
            &["gate.toml:7: rooms[0].cookie_name = \"a\": must not stand beside cookie_suffix"],
        ),
        (
            "cookie_name = \"__Host-a\"",
            &[
                "gate.toml:7: rooms[0].cookie_name = \"__Host-a\": browsers take a cookie of this name only with cookie_attributes.secure = \"always\"",
            ],
        ),
        (
            "host = \"x.example\"\ncookie_domain = \"other.example\"",
            &[
                "gate.toml:8: rooms[0].cookie_domain = \"other.example\": must be the domain of every host of the room; x.example is not below it",
            ],
        ),
    ]);
}

#[test]
fn a_bot_check_of_a_vendor_is_refused() {
    room_rows(&[
        (
            "turnstile_mode = \"invisible\"",
            &["gate.toml:7: rooms[0].turnstile_mode = \"invisible\": must be \"off\": "],
        ),
        (
            "turnstile_action = \"infinite_queue\"",
            &["gate.toml:7: rooms[0].turnstile_action = \"infinite_queue\": must be \"log\": "],
        ),
    ]);
    parse(&format!(
        "{HEAD}turnstile_mode = \"off\"\nturnstile_action = \"log\"\n"
    ))
    .unwrap();
}

#[test]
fn pages_are_checked_with_line_and_column() {
    room_rows(&[
        (
            "custom_page_html = \"\"\"\n<p>\n  {{#waitTimeKnown}}x\n\"\"\"",
            &["line 2, column 3: the section \"waitTimeKnown\" is not closed"],
        ),
        (
            "custom_page_html = \"a {{b\"",
            &[
                "gate.toml:7: rooms[0].custom_page_html = \"a {{b\": line 1, column 3: the tag that begins here is not closed",
            ],
        ),
        (
            "custom_page_html = \"a\"\ncustom_page_file = \"b\"",
            &[
                "gate.toml:8: rooms[0].custom_page_file = \"b\": must not stand beside custom_page_html",
            ],
        ),
        (
            "custom_page_file = \"/nowhere/page.html\"",
            &[
                "gate.toml:7: rooms[0].custom_page_file = \"/nowhere/page.html\": /nowhere/page.html cannot be read: ",
            ],
        ),
        (
            "json_response_negotiation = \"exact\"",
            &[
                "gate.toml:7: rooms[0].json_response_negotiation = \"exact\": has no effect without json_response_enabled = true",
            ],
        ),
    ]);
    let long = "x".repeat(PAGE_BYTES_MAX + 1);
    complains(
        &format!("{HEAD}custom_page_html = \"{long}\"\n"),
        &["must have at most 1048576 bytes"],
    );
    let most = "x".repeat(PAGE_BYTES_MAX);
    parse(&format!("{HEAD}custom_page_html = \"{most}\"\n")).unwrap();
}

#[test]
fn events_that_cannot_be() {
    let event = |rest: &str| format!("[[rooms.events]]\nname = \"e\"\n{rest}");
    let at = |start: &str, end: &str| {
        format!(
            "event_start_time = \"2026-11-27T{start}Z\"\nevent_end_time = \"2026-11-27T{end}Z\"\n"
        )
    };
    let rows: Vec<(String, &str)> = vec![
        (
            event("event_start_time = \"tomorrow\"\nevent_end_time = \"2026-11-27T10:00:00Z\""),
            "gate.toml:9: rooms[0].events[0].event_start_time = \"tomorrow\": must be an RFC 3339 time with an offset",
        ),
        (
            event("event_start_time = 2026-11-27\nevent_end_time = \"2026-11-27T10:00:00Z\""),
            "gate.toml:9: rooms[0].events[0].event_start_time = 2026-11-27: must be an RFC 3339 time with an offset",
        ),
        (
            event("event_start_time = 5\nevent_end_time = \"2026-11-27T10:00:00Z\""),
            "rooms[0].events[0].event_start_time = 5: must be an RFC 3339 time, not an integer",
        ),
        (
            event("event_start_time = \"2026-11-27T10:00:00Z\""),
            "gate.toml:7: rooms[0].events[0].event_end_time: missing; an event needs a time to end",
        ),
        (
            event(&at("10:00:00", "10:00:59")),
            "gate.toml:10: rooms[0].events[0].event_end_time = \"2026-11-27T10:00:59Z\": event_end_time must be at least 1 minute after event_start_time",
        ),
        (
            event(&format!(
                "{}prequeue_start_time = \"2026-11-27T09:55:01Z\"",
                at("10:00:00", "11:00:00")
            )),
            "gate.toml:11: rooms[0].events[0].prequeue_start_time = \"2026-11-27T09:55:01Z\": prequeue_start_time must be at least 5 minutes before event_start_time",
        ),
        (
            event(&format!(
                "{}shuffle_at_event_start = true",
                at("10:00:00", "11:00:00")
            )),
            "gate.toml:11: rooms[0].events[0].shuffle_at_event_start = true: shuffle_at_event_start needs a prequeue_start_time",
        ),
        (
            event(&format!(
                "{}total_active_users = 5",
                at("10:00:00", "11:00:00")
            )),
            "gate.toml:11: rooms[0].events[0].total_active_users = 5: an event sets both limits or none; new_users_per_minute is missing",
        ),
        (
            event(&format!(
                "{}new_users_per_minute = 5",
                at("10:00:00", "11:00:00")
            )),
            "gate.toml:11: rooms[0].events[0].new_users_per_minute = 5: an event sets both limits or none; total_active_users is missing",
        ),
        (
            event(&format!(
                "{}total_active_users = 5\nnew_users_per_minute = 6",
                at("10:00:00", "11:00:00")
            )),
            "gate.toml:12: rooms[0].events[0].new_users_per_minute = 6: must be at most total_active_users, which is 5",
        ),
        (
            event(&format!(
                "{}queueing_status_code = 203",
                at("10:00:00", "11:00:00")
            )),
            "rooms[0].events[0].queueing_status_code = 203: must be 200, 202 or 429",
        ),
        (
            event(&format!("{}queue_all = true", at("10:00:00", "11:00:00"))),
            "rooms[0].events[0].queue_all = true: unknown key",
        ),
        (
            event(&format!(
                "{}custom_page_html = \"{{{{#a}}}}\"",
                at("10:00:00", "11:00:00")
            )),
            "rooms[0].events[0].custom_page_html = \"{{#a}}\": line 1, column 1: the section \"a\" is not closed",
        ),
        (
            format!(
                "{}{}",
                event(&at("10:00:00", "11:00:00")),
                event(&format!(
                    "{}prequeue_start_time = \"2026-11-27T10:50:00Z\"",
                    at("11:10:00", "12:00:00")
                ))
            )
            .replacen("name = \"e\"", "name = \"f\"", 1),
            "gate.toml:11: rooms[0].events[1]: overlaps rooms[0].events[0] (\"f\"): one event of a room must end before the next one, prequeue included, begins",
        ),
        (
            format!(
                "{}{}",
                event(&at("10:00:00", "11:00:00")),
                event(&at("12:00:00", "13:00:00"))
            ),
            "gate.toml:12: rooms[0].events[1].name = \"e\": must be unique in the room: rooms[0].events[0] has this name",
        ),
    ];
    for (added, expected) in rows {
        complains(&format!("{HEAD}{added}"), &[expected]);
    }
    // The one ends when the next begins; the other begins its prequeue exactly five minutes before.
    let good = format!(
        "{HEAD}{}{}",
        event(&at("10:00:00", "10:01:00")),
        event(&format!(
            "{}prequeue_start_time = 2026-11-27T10:01:00Z\nshuffle_at_event_start = true",
            at("10:06:00", "10:07:00")
        ))
        .replace("\"e\"", "\"f\"")
    );
    assert_eq!(parse(&good).unwrap().rooms[0].events.len(), 2);
}

#[test]
fn rules_are_checked_when_written() {
    let rule = |rest: &str| format!("[[rooms.rules]]\naction = \"bypass_waiting_room\"\n{rest}\n");
    for (added, expected) in [
        (
            rule("expression = \"http.hots eq 1\""),
            "gate.toml:9: rooms[0].rules[0].expression = \"http.hots eq 1\": line 1, column 1: no field http.hots; did you mean http.host?",
        ),
        (
            rule("expression = \"ssl or\"\nenabled = false"),
            "gate.toml:9: rooms[0].rules[0].expression = \"ssl or\": line 1, column 7: the expression ends where a field or function must stand",
        ),
        (
            rule(""),
            "gate.toml:7: rooms[0].rules[0].expression: missing; a rule needs an expression",
        ),
        (
            rule("expression = \"ssl\"").replace("bypass_waiting_room", "log"),
            "gate.toml:8: rooms[0].rules[0].action = \"log\": must be one of \"bypass_waiting_room\"",
        ),
        (
            rule("expression = \"ssl\"").replace("action = \"bypass_waiting_room\"", ""),
            "gate.toml:7: rooms[0].rules[0].action: missing; a rule needs its action, \"bypass_waiting_room\"",
        ),
        (
            rule("expression = \"ip.src in $home\""),
            "line 1, column 11: no list home in [lists]",
        ),
        (
            "[lists]\noffice = [\"192.0.2.1/24\"]".to_owned(),
            "gate.toml:8: lists.office[0] = \"192.0.2.1/24\": ",
        ),
        (
            "[lists]\noffice = [\"192.0.2.1\", \"shop.example.com\"]".to_owned(),
            "gate.toml:8: lists.office = [\"192.0.2.1\", \"shop.example.com\"]: holds addresses and host names",
        ),
        (
            "[lists]\nshops = [\"https://shop.example.com/\"]".to_owned(),
            "gate.toml:8: lists.shops[0] = \"https://shop.example.com/\": is neither an address",
        ),
        (
            "[lists]\noffice = \"192.0.2.1\"".to_owned(),
            "gate.toml:8: lists.office = \"192.0.2.1\": must be an array of strings, not a string",
        ),
        (
            "[lists]\nOffice = []".to_owned(),
            "gate.toml:8: lists.Office = []: the name must be 1 to 50 small letters",
        ),
    ] {
        complains(&format!("{HEAD}{added}"), &[expected]);
    }
}

#[test]
fn crawlers_must_be_verified_by_something() {
    for (added, expected) in [
        (
            "[settings]\nsearch_engine_crawler_bypass = true",
            "gate.toml:8: settings.search_engine_crawler_bypass = true: nobody can be verified without crawler_ranges_files or crawler_domains",
        ),
        (
            "[settings]\ncrawler_domains = [\"com\"]",
            "gate.toml:8: settings.crawler_domains[0] = \"com\": must be a domain, such as googlebot.com",
        ),
        (
            "[settings]\ncrawler_dns_servers = [\"dns\"]",
            "gate.toml:8: settings.crawler_dns_servers[0] = \"dns\": must be IP:PORT",
        ),
        (
            "[settings]\ncrawler_ranges_files = [\"/nowhere/a.json\"]",
            "gate.toml:8: settings.crawler_ranges_files[0] = \"/nowhere/a.json\": /nowhere/a.json cannot be read: ",
        ),
        (
            "[settings]\ncrawler_ranges_files = [\"/proc/self/comm\"]",
            "settings.crawler_ranges_files[0] = \"/proc/self/comm\": must be JSON such as",
        ),
    ] {
        complains(&format!("{HEAD}{added}"), &[expected]);
    }
}
