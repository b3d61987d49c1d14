//! The helpers against the real peers, so that a case that fails elsewhere fails for the gate's sake.

use std::time::Duration;

use gate_tests::browser::{Browser, Script, Setup};
use gate_tests::curl::Curl;
use gate_tests::http::Visitor;
use gate_tests::redis::Redis;
use gate_tests::{Need, Nginx, need};

#[test]
fn nginx_counts_what_reaches_it() {
    if !need::all(&[Need::Command("nginx"), Need::Command("curl")]) {
        return;
    }
    let nginx = Nginx::start();
    let answer = Curl::new(nginx.address(), "shop.test")
        .with(&["--header", "X-Visitor: one"])
        .get("/a?b=1");
    assert_eq!((answer.status, answer.exit), (200, 0));
    assert!(answer.body.contains("the origin"));
    let response = Visitor::new(nginx.address(), "shop.test")
        .with("X-Visitor", "two")
        .get("/c");
    assert_eq!(response.status, 200);
    let hits = nginx.hits_at_least(2);
    assert_eq!(
        (hits[0].target.as_str(), hits[0].visitor.as_str()),
        ("/a?b=1", "one")
    );
    assert_eq!(
        (hits[1].host.as_str(), hits[1].visitor.as_str()),
        ("shop.test", "two")
    );
}

#[test]
fn redis_starts_and_ends() {
    if !need::all(&[Need::Command("redis-server")]) {
        return;
    }
    let mut redis = Redis::start();
    assert!(redis.process().stop().success());
}

#[test]
fn a_browser_runs_scripts_or_not() {
    if !need::all(&[
        Need::Command("nginx"),
        Need::Command("chromium"),
        Need::Command("chromedriver"),
    ]) {
        return;
    }
    let page = "location / { default_type text/html; return 200 \
        '<title>t</title><p>plain</p><script>document.body.append(\"scripted\")</script>'; }";
    let nginx = Nginx::with(page);
    for (script, shown) in [(Script::On, true), (Script::Off, false)] {
        let browser = Browser::with(&Setup {
            script,
            ..Setup::default()
        });
        // The name is mapped to this machine, but the port is the origin's.
        browser.open(&format!("http://shop.test:{}/", nginx.address().port()));
        browser.wait_for_text("plain", Duration::from_secs(10));
        assert_eq!(browser.visible_text().contains("scripted"), shown);
        assert_eq!(browser.title(), "t");
        assert!(browser.screenshot().starts_with(b"\x89PNG"));
    }
}
