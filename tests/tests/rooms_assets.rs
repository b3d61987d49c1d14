//! Files of custom pages through a running gate: outside every room, whatever it does, and never from the origin.

use std::fs;
use std::path::Path;

use gate_tests::gate::run;
use gate_tests::http::Visitor;
use gate_tests::{DEADLINE, Gate, Need, Nginx, need, until};
use rustix::process::Signal;

const PAGE: &str = "<link rel=stylesheet href=/__waitingroom/style.css><p>{{waitTimeFormatted}}";

/// A room in which everybody waits, with files for its page in `assets`.
fn configuration(origin: &str, assets: &Path) -> String {
    format!(
        "listen = \"{{listen}}\"\norigin = \"{origin}\"\npage_assets_folder = \"{}\"\n[[rooms]]\nname = \"shop\"\n\
         total_active_users = 1\nnew_users_per_minute = 1\nqueue_all = true\ncustom_page_html = \"{PAGE}\"\n",
        assets.display()
    )
}

#[test]
fn files_of_a_page_cost_no_place_and_no_cookie() {
    if !need::all(&[Need::Command("nginx")]) {
        return;
    }
    let assets = tempfile::tempdir().unwrap();
    fs::write(assets.path().join("style.css"), "p { color: red }").unwrap();
    fs::write(assets.path().join(".hidden"), "no").unwrap();
    fs::create_dir(assets.path().join("img")).unwrap();
    fs::write(assets.path().join("img/logo.png"), [0x89, b'P', 0, 255]).unwrap();
    let origin = Nginx::start();
    let mut gate = Gate::configured(&configuration(&origin.url(), assets.path()));
    let visitor = || Visitor::new(gate.address(), "shop.test");

    assert!(visitor().get("/").text().contains("style.css"));
    let style = visitor().get("/__waitingroom/style.css?v=2");
    assert_eq!(
        (style.status, style.text().as_str()),
        (200, "p { color: red }")
    );
    assert_eq!(
        style.header("content-type"),
        Some("text/css; charset=utf-8")
    );
    assert_eq!(style.header("set-cookie"), None);
    let logo = visitor().get("/__waitingroom/img/logo.png");
    assert_eq!(logo.body, [0x89, b'P', 0, 255]);
    let head = visitor()
        .request("HEAD", "/__waitingroom/style.css", b"")
        .unwrap();
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("16"))
    );
    let tag = style.header("etag").expect("an ETag").to_owned();
    let again = visitor()
        .with("if-none-match", &tag)
        .get("/__waitingroom/style.css");
    assert_eq!((again.status, again.body.len()), (304, 0));
    let posted = visitor()
        .request("POST", "/__waitingroom/style.css", b"x")
        .unwrap();
    assert_eq!(
        (posted.status, posted.header("allow")),
        (405, Some("GET, HEAD"))
    );
    // What is not there is not asked of the origin, nor is any spelling that leads out again.
    for path in [
        "/__waitingroom/",
        "/__waitingroom/.hidden",
        "/__waitingroom/../",
        "/__waitingroom/%2e%2e/",
        "/__waitingroom/style.css/",
    ] {
        let answer = visitor().get(path);
        assert_eq!(
            (answer.status, answer.header("set-cookie")),
            (404, None),
            "{path}"
        );
    }
    // Only that spelling is outside the room.
    for path in [
        "/x/../__waitingroom/style.css",
        "//__waitingroom/style.css",
        "/__WAITINGROOM/style.css",
    ] {
        assert!(visitor().get(path).text().contains("<p>"), "{path}");
    }

    // SIGHUP takes new files, and none of them where one cannot be taken.
    fs::write(assets.path().join("style.css"), "p { color: blue }").unwrap();
    let address = gate.address();
    gate.process().signal(Signal::HUP);
    until("the new file is there", DEADLINE, || {
        let text = Visitor::new(address, "shop.test")
            .get("/__waitingroom/style.css")
            .text();
        text.contains("blue").then_some(())
    });
    fs::write(assets.path().join("style.css"), "p { color: green }").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", assets.path().join("link")).unwrap();
    gate.process().signal(Signal::HUP);
    until("the fault is told", DEADLINE, || {
        gate.process()
            .log()
            .contains("links are not followed")
            .then_some(())
    });
    let text = Visitor::new(address, "shop.test")
        .get("/__waitingroom/style.css")
        .text();
    assert!(text.contains("blue"), "{text}");
}

#[test]
fn a_folder_that_cannot_be_served_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let assets = folder.path().join("assets");
    let file = folder.path().join("gate.toml");
    let check = |lines: &str| {
        let rest = "[[rooms]]\nname = \"a\"\ntotal_active_users = 1\nnew_users_per_minute = 1\n";
        let head = "listen = \"127.0.0.1:0\"\norigin = \"http://127.0.0.1:1\"\n";
        fs::write(&file, format!("{head}{lines}\n{rest}")).unwrap();
        run(&["check", "--config", &file.display().to_string()])
    };
    let (code, _, err) = check("page_assets_folder = \"assets\"");
    assert_eq!(code, 2);
    assert!(
        err.contains(":3: page_assets_folder = \"assets\": ") && err.contains("No such file"),
        "{err}"
    );
    fs::create_dir(&assets).unwrap();
    let (code, _, err) = check("page_assets_folder = \"assets\"\npage_assets_path = \"/files/\"");
    assert_eq!((code, err.as_str()), (0, ""));
    let (code, _, err) = check("page_assets_folder = \"assets\"\npage_assets_path = \"/a/../\"");
    assert_eq!(code, 2);
    assert!(
        err.contains(":4: page_assets_path = \"/a/../\": must begin and end with /"),
        "{err}"
    );
    let (code, _, err) = check("page_assets_path = \"/files/\"");
    assert_eq!(code, 2);
    assert!(
        err.contains("has no effect without page_assets_folder"),
        "{err}"
    );
    fs::write(assets.join("two words.css"), "").unwrap();
    let (code, _, err) = check("page_assets_folder = \"assets\"");
    assert_eq!(code, 2);
    assert!(
        err.contains("two words.css: names must be of letters"),
        "{err}"
    );
}

#[test]
fn keys_of_what_is_not_there_take_only_their_harmless_values() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.toml");
    let check = |keys: &str| {
        let head =
            "listen = \"127.0.0.1:0\"\norigin = \"http://127.0.0.1:1\"\n[[rooms]]\nname = \"a\"\n";
        let text = format!("{head}total_active_users = 1\nnew_users_per_minute = 1\n{keys}\n");
        fs::write(&file, text).unwrap();
        run(&["check", "--config", &file.display().to_string()])
    };
    let (code, _, err) =
        check("description = \"The shop\"\nturnstile_mode = \"off\"\nturnstile_action = \"log\"");
    assert_eq!((code, err.as_str()), (0, ""));
    for (keys, expected) in [
        (
            "turnstile_mode = \"invisible\"",
            "rooms[0].turnstile_mode = \"invisible\": must be \"off\"",
        ),
        ("turnstile_action = \"infinite_queue\"", "must be \"log\""),
        ("id = \"0123\"", "rooms[0].id = \"0123\": unknown key"),
        ("created_on = 2026-01-01T00:00:00Z", "unknown key"),
    ] {
        let (code, _, err) = check(keys);
        assert_eq!(code, 2, "{keys}");
        assert!(err.contains(expected), "{keys}: {err}");
    }
}
