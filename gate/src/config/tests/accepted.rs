//! What is accepted, and read back.

use super::*;
use crate::kernel::settings::KernelMode;
use crate::page::{JsonFormat, JsonNegotiation, LanguageChoice, PageSource, QueueingStatusCode};
use crate::room::{
    AdmissionPacing, Millis, Operation, QueueAll, QueueingMethod, RefreshInterval, SessionRenewal,
};

#[test]
fn the_plain_room_is_accepted() {
    let config = parse(HEAD).unwrap();
    assert_eq!(config.rooms[0].name, "a");
    assert_eq!(
        config.rooms[0].plan.settings().limits.total_active_users(),
        10
    );
}

fn fixture(name: &str) -> Config {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/configs")
        .join(name);
    Config::load(&file).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_flash_sale_is_accepted() {
    let config = fixture("flash-sale.toml");
    let [room] = config.rooms.as_slice() else {
        panic!("{:?}", config.rooms);
    };
    let settings = room.plan.settings();
    assert_eq!(room.routes[0].host.to_string(), "promo.example.com");
    assert_eq!(room.routes[0].path.to_string(), "/flash-sale");
    assert_eq!(settings.limits.total_active_users(), 300);
    assert_eq!(settings.limits.new_users_per_minute(), 300);
    assert_eq!(settings.session_duration.as_seconds(), 300);
    assert_eq!(room.cookie.name(), "__aliwaitingroom_flash_sale");
    assert_eq!(room.page.page.json_format, JsonFormat::Esa);
}

#[test]
fn the_file_with_every_key_misses_none() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/configs/full.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    // Each table is given a key that nobody knows: its fault lists the keys that the code knows there.
    let tables = [
        ("listen = [", "zzzz = 1\nlisten = ["),
        ("[limits]\n", "[limits]\nzzzz = 1\n"),
        ("[kernel]\n", "[kernel]\nzzzz = 1\n"),
        ("[settings]\n", "[settings]\nzzzz = 1\n"),
        ("[cluster]\n", "[cluster]\nzzzz = 1\n"),
        ("[[rooms.rules]]\n", "[[rooms.rules]]\nzzzz = 1\n"),
        ("[[rooms]]\n", "[[rooms]]\nzzzz = 1\n"),
        ("[[rooms.events]]\n", "[[rooms.events]]\nzzzz = 1\n"),
        (
            "[rooms.cookie_attributes]\n",
            "[rooms.cookie_attributes]\nzzzz = 1\n",
        ),
        ("{ host = \"tickets.", "{ zzzz = 1, host = \"tickets."),
    ];
    let spoiled = tables.iter().fold(text.clone(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    let error = Config::parse(&spoiled, &file).unwrap_err();
    assert_eq!(error.faults().len(), tables.len(), "{error}");
    for fault in error.faults() {
        let (_, known) = fault.problem.split_once("known here: ").unwrap();
        for key in known.split(", ") {
            let forms = [
                format!("\n{key} = "),
                format!("\n[{key}]"),
                format!("\n[[{key}]]"),
                format!("\n[rooms.{key}]"),
                format!("\n[[rooms.{key}]]"),
                format!(", {key} = "),
                format!("{{ {key} = "),
            ];
            let stands = forms.iter().any(|form| text.contains(form));
            assert!(stands, "{key} of {} is not in full.toml", fault.key);
        }
    }
}

#[test]
fn every_key_is_read_back() {
    let config = fixture("full.toml");
    assert_eq!(
        config.listen,
        [
            "127.0.0.1:8000".parse().unwrap(),
            "[::1]:8000".parse().unwrap()
        ]
    );
    assert_eq!(config.origin.to_string(), "http://127.0.0.1:8080");
    let shown = |path: &Option<PathBuf>| {
        let path = path.as_ref().unwrap();
        path.file_name().unwrap().to_str().unwrap().to_owned()
    };
    assert_eq!(shown(&config.state_file), "gate.state");
    assert_eq!(shown(&config.key_file), "gate.keys");
    assert_eq!(config.admin, Some("127.0.0.1:9000".parse().unwrap()));
    assert_eq!(config.trusted_proxies.len(), 2);
    assert_eq!(config.limits.head_bytes_max, 16_384);
    assert_eq!(config.limits.head_timeout_seconds, 5);
    assert_eq!(config.limits.body_bytes_max, Some(1_000_000));
    assert_eq!(config.limits.body_idle_timeout_seconds, 6);
    assert_eq!(config.limits.idle_timeout_seconds, 7);
    assert_eq!(config.limits.write_stall_timeout_seconds, 8);
    assert_eq!(config.limits.connections_max, 9_000);
    assert_eq!(config.limits.upstream_connect_timeout_seconds, 10);
    assert_eq!(config.limits.upstream_response_timeout_seconds, 11);
    assert_eq!(config.limits.upstream_body_idle_timeout_seconds, 12);
    assert_eq!(config.limits.upstream_head_bytes_max, 16_385);
    assert_eq!(config.limits.upstream_idle_timeout_seconds, 13);
    assert_eq!(config.limits.upstream_idle_connections_max, 14);
    assert_eq!(config.limits.tunnel_idle_timeout_seconds, 15);
    assert_eq!(config.limits.drain_timeout_seconds, 16);
    let crawlers = config.crawlers.as_ref().unwrap();
    assert!(crawlers.ranges.contains("192.0.2.31".parse().unwrap()));
    assert_eq!(crawlers.domains, ["googlebot.com", "search.msn.com"]);
    assert_eq!(crawlers.dns_servers, ["127.0.0.1:53".parse().unwrap()]);
    let kernel = &config.kernel;
    assert_eq!(kernel.mode, KernelMode::Enforce);
    assert_eq!(
        kernel.generic,
        crate::kernel::settings::GenericAttach::Refused
    );
    assert_eq!(kernel.interfaces.len(), 1);
    assert_eq!(kernel.deny.len(), 1);
    assert_eq!(
        (kernel.source_rate.per_minute(), kernel.source_rate.burst()),
        (700, 130)
    );
    assert_eq!(
        (
            kernel.admitted_rate.per_minute(),
            kernel.admitted_rate.burst()
        ),
        (13_000, 2_500)
    );
    assert_eq!(kernel.map_sizes.admitted_entries_max(), 131_072);
    assert_eq!(kernel.map_sizes.source_entries_max(), 32_768);
    let [shop, random, seconds] = config.rooms.as_slice() else {
        panic!("{:?}", config.rooms);
    };
    check_shop(shop);
    assert_eq!(
        random.plan.settings().queueing_method,
        QueueingMethod::Random
    );
    assert_eq!(random.cookie.name(), "own_name");
    assert!(matches!(random.page.page.source, PageSource::Custom(_)));
    assert_eq!(random.plan.settings().operation, Operation::Suspended);
    assert_eq!(seconds.plan.settings().session_duration.as_seconds(), 90);
    assert_eq!(
        seconds.plan.settings().queueing_method,
        QueueingMethod::Reject
    );
    assert!(matches!(seconds.page.page.source, PageSource::Custom(_)));
    let [rule] = seconds.bypass_rules.rules() else {
        panic!("{:?}", seconds.bypass_rules);
    };
    assert_eq!(rule.description, "payments");
    assert_eq!(
        seconds.plan.settings().refresh_interval,
        RefreshInterval::Fixed {
            seconds: 30.try_into().unwrap()
        }
    );
}

fn check_shop(shop: &RoomConfig) {
    let settings = shop.plan.settings();
    assert_eq!(shop.description, "everything at once");
    let routes: Vec<String> = shop
        .routes
        .iter()
        .map(|route| format!("{}{}", route.host, route.path))
        .collect();
    assert_eq!(
        routes,
        [
            "shop.example.com/sale",
            "www.example.com/",
            "tickets.example.com/drop"
        ]
    );
    assert_eq!(shop.path_case, crate::route::PathCase::Insensitive);
    assert_eq!(shop.origin.to_string(), "http://127.0.0.1:8081");
    assert_eq!(
        (
            settings.limits.total_active_users(),
            settings.limits.new_users_per_minute()
        ),
        (500, 200)
    );
    assert_eq!(settings.session_duration.as_seconds(), 600);
    assert_eq!(settings.session_renewal, SessionRenewal::Disabled);
    assert_eq!(settings.queueing_method, QueueingMethod::Fifo);
    assert_eq!(settings.queue_all, QueueAll::Everyone);
    assert_eq!(settings.operation, Operation::Running);
    assert_eq!(settings.admission_pacing, AdmissionPacing::Smooth);
    assert_eq!(
        settings.refresh_interval,
        RefreshInterval::Adaptive {
            seconds_min: 5.try_into().unwrap(),
            seconds_max: 60.try_into().unwrap()
        }
    );
    assert_eq!(settings.queue_place_grace_seconds, 120);
    assert_eq!(settings.waiters_max, 50_000);
    assert_eq!(shop.revoke_command, RevokeCommand::Obeyed);
    assert_eq!(
        shop.ticket_binding,
        TicketBinding {
            client_address: Bound::Yes,
            user_agent: Bound::Yes
        }
    );
    assert_eq!(shop.cookie.name(), "__waitingroom_shop");
    assert_eq!(
        shop.cookie.attributes(Scheme::Http),
        "; Path=/; HttpOnly; Domain=example.com; Secure; SameSite=None; Partitioned"
    );
    assert_eq!(shop.forward_cookie, ForwardCookie::Forwarded);
    assert_eq!(
        shop.cors,
        CorsPolicy::Origins(vec!["https://app.example.com".to_owned()])
    );
    assert!(matches!(shop.page.page.source, PageSource::Custom(_)));
    assert_eq!(shop.page.page.language.tag(), "ar-EG");
    assert_eq!(shop.page.page.language_choice, LanguageChoice::Negotiated);
    assert_eq!(
        Some(shop.page.page.status),
        QueueingStatusCode::from_number(202)
    );
    assert_eq!(shop.page.json_negotiation, JsonNegotiation::QValues);
    assert_eq!(shop.page.page.json_format, JsonFormat::Esa);
    let [event] = shop.events.as_slice() else {
        panic!("{:?}", shop.events);
    };
    assert_eq!(
        (event.name.as_str(), event.description.as_str()),
        ("black-friday", "once a year")
    );
    assert_eq!(event.page.page.language.tag(), "de-DE");
    assert_eq!(event.page.page.language_choice, LanguageChoice::Fixed);
    assert_eq!(
        Some(event.page.page.status),
        QueueingStatusCode::from_number(429)
    );
    assert_eq!(event.page.page.json_format, JsonFormat::Cloudflare);
    assert_eq!(event.page.json_negotiation, JsonNegotiation::Exact);
    let [planned] = shop.plan.events() else {
        panic!("{:?}", shop.plan.events());
    };
    assert_eq!(planned.starts_at(), Millis::new(1_795_770_000_000));
    assert_eq!(planned.ends_at(), Millis::new(1_795_777_200_000));
}
