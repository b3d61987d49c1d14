//! A real browser in front of a full room: it shows the line, waits, and gets in without anybody touching it; by the page's own
//! script, and without scripts by the `Refresh` header.

use std::time::Duration;

use gate_tests::browser::{Browser, Cookies, Script, Setup};
use gate_tests::curl::Curl;
use gate_tests::http::Visitor;
use gate_tests::{Gate, Need, Nginx, need};

/// The rate's minute, a refresh, and time for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn browsers_wait_and_get_in_by_themselves() {
    let needs = ["nginx", "curl", "chromium", "chromedriver"].map(Need::Command);
    if !need::all(&needs) {
        return;
    }
    let origin = Nginx::with(
        "location / { default_type text/html; return 200 '<title>Shop</title><h1>Welcome in</h1>'; }
         location = /logout { add_header Cf-Waiting-Room-Command revoke; return 200 'bye'; }",
    );
    let gate = Gate::configured(
        &"listen = [\"{listen}\"]
origin = \"{origin}\"
state_file = \"{folder}/state\"
key_file = \"{folder}/keys\"

[[rooms]]
name = \"shop\"
host = \"shop.test\"
path = \"/\"
total_active_users = 2
new_users_per_minute = 2
session_duration = 5
refresh_interval_seconds = 5
json_response_enabled = true
enabled_origin_commands = [\"revoke\"]
"
        .replace("{origin}", &origin.url()),
    );
    let inside: Vec<Curl> = (0..2)
        .map(|_| Curl::new(gate.address(), "shop.test"))
        .collect();
    for visitor in &inside {
        assert!(visitor.get("/").body.contains("Welcome in"));
    }

    let url = format!("http://shop.test:{}/", gate.address().port());
    let scripted = Browser::start();
    let plain = Browser::with(&Setup {
        script: Script::Off,
        ..Setup::default()
    });
    for browser in [&scripted, &plain] {
        browser.open(&url);
        let text = browser.visible_text();
        assert!(!text.contains("Welcome in"), "the room is full: {text}");
        assert!(text.len() > 20, "the page says something: {text:?}");
    }
    let mark = "window.untouched = true; return true";
    scripted.eval(mark);

    for visitor in &inside {
        assert!(visitor.get("/logout").body.contains("bye"));
    }
    // The page refreshes its numbers in place: no reload while it waits.
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(
        scripted.eval("return window.untouched === true"),
        true,
        "the script does not reload a page that waits"
    );
    for browser in [&scripted, &plain] {
        browser.wait_for_text("Welcome in", PATIENCE);
        assert_eq!(browser.title(), "Shop");
        assert_eq!(browser.url(), url, "the address never changed");
    }
}

#[test]
fn without_script_a_fragment_does_not_keep_the_page_from_coming_back() {
    if !need::all(&["nginx", "chromium", "chromedriver"].map(Need::Command)) {
        return;
    }
    let origin = Nginx::with(
        "location / { default_type text/html; return 200 '<title>Shop</title><h1>Welcome in</h1>'; }
         location = /logout { add_header Cf-Waiting-Room-Command revoke; return 200 'bye'; }",
    );
    let gate = Gate::configured(&format!(
        "listen = \"{{listen}}\"
origin = \"{}\"
[[rooms]]
name = \"shop\"
total_active_users = 1
new_users_per_minute = 1
refresh_interval_seconds = 5
enabled_origin_commands = [\"revoke\"]
",
        origin.url()
    ));
    let mut inside = Visitor::new(gate.address(), "localhost");
    assert!(inside.get("/").text().contains("Welcome in"));

    // Browsers say what they fetch a page for at hosts that they trust: those of HTTPS, and this one.
    let url = format!(
        "http://localhost:{}/sale?day=1#seats",
        gate.address().port()
    );
    let plain = Browser::with(&Setup {
        script: Script::Off,
        ..Setup::default()
    });
    plain.open(&url);
    assert!(!plain.visible_text().contains("Welcome in"));
    assert!(inside.get("/logout").text().contains("bye"));
    plain.wait_for_text("Welcome in", PATIENCE);
    assert!(plain.url().contains("/sale?day=1"), "{}", plain.url());
}

#[test]
fn who_keeps_no_cookies_is_told() {
    if !need::all(&["nginx", "chromium", "chromedriver"].map(Need::Command)) {
        return;
    }
    let origin = Nginx::with("location / { return 200 'Welcome in'; }");
    let gate = Gate::configured(&format!(
        "listen = \"{{listen}}\"
origin = \"{}\"
[[rooms]]
name = \"shop\"
total_active_users = 1
new_users_per_minute = 1
queue_all = true
",
        origin.url()
    ));
    let url = format!("http://shop.test:{}/", gate.address().port());
    for (cookies, is_told) in [(Cookies::Kept, false), (Cookies::Refused, true)] {
        let browser = Browser::with(&Setup {
            cookies,
            ..Setup::default()
        });
        browser.open(&url);
        let text = browser.visible_text();
        assert_eq!(
            text.contains("takes cookies"),
            is_told,
            "{cookies:?}: {text}"
        );
    }
}
