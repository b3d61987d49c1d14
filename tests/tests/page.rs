//! The waiting page in a real browser: how it looks, that its script changes numbers in place and enters when admitted, and
//! that it comes back without script. The answers are those of the `page` module itself, headers included.

#![allow(
    clippy::unwrap_used,
    reason = "everything in this file is a test or serves one"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gate::page::{
    AnswerKind, ErrorPage, JsonFormat, Language, Page, PreviewState, State, admitted_json,
    write_error_page,
};
use gate::room::{WaitTime, WaitView};
use gate_tests::browser::{Browser, Script, Setup};
use gate_tests::{Need, need};
use serde_json::json;

const BROWSER: [Need; 2] = [Need::Command("chromium"), Need::Command("chromedriver")];
const DEADLINE: Duration = Duration::from_secs(20);

/// What the line does to the one visitor of a test.
#[derive(Clone, Copy, Debug)]
enum Line {
    Waits(WaitView),
    Admits,
    /// The gate cannot be reached in any useful way.
    Breaks,
}

/// What the visitor's browser asked for, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Page,
    Poll,
    Leave,
}

#[derive(Debug)]
struct Shared {
    line: Line,
    language: Language,
    asked: Vec<Asked>,
}

/// Serves the answers of the `page` module: `/line…` as the line says, `/preview/STATE/LANGUAGE` and `/error/LANGUAGE` as such.
struct Server {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

impl Server {
    fn start(line: Line) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared {
            line,
            language: Language::EnUs,
            asked: Vec::new(),
        }));
        let theirs = Arc::clone(&shared);
        // Ends with the test's process; a browser that is gone only ends its own thread.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&theirs);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, shared }
    }

    fn url(&self, path: &str) -> String {
        format!("http://shop.example:{}{path}", self.address.port())
    }

    fn set(&self, line: Line) {
        self.shared.lock().unwrap().line = line;
    }

    fn asked(&self, what: &Asked) -> usize {
        let shared = self.shared.lock().unwrap();
        shared.asked.iter().filter(|asked| *asked == what).count()
    }

    fn until_asked(&self, what: &Asked, times: usize) {
        gate_tests::until(
            &format!("{what:?} is asked {times} times"),
            DEADLINE,
            || (self.asked(what) >= times).then_some(()),
        );
    }
}

fn serve(mut stream: TcpStream, shared: &Mutex<Shared>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).ok()? == 0 {
            return None;
        }
        let mut poll = None;
        let mut body_bytes = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if line.trim().is_empty() {
                break;
            }
            let (name, value) = line.split_once(':')?;
            match name.to_ascii_lowercase().as_str() {
                "x-gate-poll" => poll = Some(value.trim().to_owned()),
                "content-length" => body_bytes = value.trim().parse().ok()?,
                _ => {}
            }
        }
        reader
            .by_ref()
            .take(body_bytes)
            .read_to_end(&mut Vec::new())
            .ok()?;
        let path = request.split(' ').nth(1)?;
        stream
            .write_all(&respond(path, poll.as_deref(), shared))
            .ok()?;
    }
}

fn respond(path: &str, poll: Option<&str>, shared: &Mutex<Shared>) -> Vec<u8> {
    let words: Vec<_> = path.split('/').collect();
    if let ["", "preview", state, language] = words[..] {
        let state: PreviewState = state.parse().unwrap();
        let page = Page {
            language: language.parse().unwrap(),
            ..Page::default()
        };
        return whole(&page, AnswerKind::Page, &state.view());
    }
    if let ["", "error", language] = words[..] {
        let mut body = String::new();
        write_error_page(ErrorPage::BadGateway, language.parse().unwrap(), &mut body);
        let mut headers = Default::default();
        ErrorPage::BadGateway.insert_headers(&mut headers);
        return message(502, &headers, &body);
    }
    let mut shared = shared.lock().unwrap();
    if path == "/favicon.ico" && matches!(shared.line, Line::Admits) {
        // The shop's page names no icon; ours does, so that it costs no request.
        return message(404, &Default::default(), "");
    }
    let kind = match poll {
        None => AnswerKind::Page,
        Some("leave") => {
            shared.asked.push(Asked::Leave);
            return message(200, &Default::default(), "{}");
        }
        Some(_) => AnswerKind::Poll,
    };
    shared.asked.push(match kind {
        AnswerKind::Page => Asked::Page,
        AnswerKind::Json | AnswerKind::Poll => Asked::Poll,
    });
    let page = Page {
        language: shared.language,
        ..Page::default()
    };
    match shared.line {
        Line::Waits(view) => whole(&page, kind, &view),
        Line::Admits if kind == AnswerKind::Page => message(
            200,
            &Default::default(),
            "<title>shop</title><h1>Welcome</h1>",
        ),
        Line::Admits => message(
            200,
            &Default::default(),
            admitted_json(JsonFormat::Cloudflare),
        ),
        Line::Breaks => message(502, &Default::default(), "no"),
    }
}

fn whole(page: &Page, kind: AnswerKind, view: &WaitView) -> Vec<u8> {
    let answer = page.answer(kind, None, view);
    message(answer.status.as_u16(), &answer.headers, &answer.body)
}

fn message(status: u16, headers: &http::HeaderMap, body: &str) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n", body.len());
    if headers.is_empty() {
        text.push_str("Content-Type: text/html; charset=utf-8\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

/// Waiting at a position, asked to come back every second so that a test need not wait for long.
fn waiting(position: u64) -> WaitView {
    WaitView {
        position: Some(position),
        wait_time: WaitTime::Known {
            percentile_25_minutes: position,
            percentile_50_minutes: position,
            percentile_75_minutes: position,
        },
        refresh_interval_seconds: 1,
        ..PreviewState::Queueing.view()
    }
}

/// Where pictures go; below `target/`, which no commit holds.
fn pictures() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/screenshots");
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[derive(Clone, Copy, Debug)]
struct Device {
    name: &'static str,
    width: u32,
    height: u32,
}

const PHONE: Device = Device {
    name: "phone",
    width: 390,
    height: 844,
};
const SMALL_PHONE: Device = Device {
    name: "small",
    width: 320,
    height: 568,
};
const DESKTOP: Device = Device {
    name: "desktop",
    width: 1280,
    height: 800,
};

fn emulate(browser: &Browser, device: Device, scheme: &str) {
    browser.devtools(
        "Emulation.setDeviceMetricsOverride",
        &json!({ "width": device.width, "height": device.height, "deviceScaleFactor": 1, "mobile": device.width < 600 }),
    );
    browser.devtools(
        "Emulation.setEmulatedMedia",
        &json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ] }),
    );
}

/// Whatever sticks out of the window or of its box.
const OVERFLOWING: &str = "
    const out = [];
    if (document.documentElement.scrollWidth > innerWidth) out.push('the page: ' + document.documentElement.scrollWidth);
    for (const element of document.querySelectorAll('main, main *')) {
        const box = element.getBoundingClientRect();
        if (box.width && (element.scrollWidth > element.clientWidth + 1 && element.clientWidth || box.left < 0 || box.right > innerWidth))
            out.push(element.tagName + ': ' + element.textContent);
    }
    return out;";

#[test]
fn every_state_is_pictured() {
    if !need::all(&BROWSER) {
        return;
    }
    let server = Server::start(Line::Breaks);
    let browser = Browser::start();
    let folder = pictures();
    let picture = |path: &str, name: &str, device: Device, scheme: &str| {
        emulate(&browser, device, scheme);
        browser.open(&server.url(path));
        assert_eq!(browser.eval(OVERFLOWING), json!([]), "{path} {device:?}");
        let file = folder.join(format!("{name}-{}-{scheme}.png", device.name));
        fs::write(file, browser.screenshot()).unwrap();
    };
    for language in [Language::EnUs, Language::ZhCn, Language::ArEg] {
        for state in PreviewState::ALL {
            let path = format!("/preview/{}/{language}", state.as_str());
            let name = format!("{}-{language}", state.as_str());
            picture(&path, &name, PHONE, "light");
            picture(&path, &name, DESKTOP, "light");
            if state == PreviewState::Queueing || language == Language::ArEg {
                picture(&path, &name, PHONE, "dark");
                picture(&path, &name, DESKTOP, "dark");
            }
        }
        let path = format!("/error/{language}");
        picture(&path, &format!("error-{language}"), PHONE, "light");
        picture(&path, &format!("error-{language}"), DESKTOP, "dark");
    }
}

#[test]
fn no_language_breaks_the_layout() {
    if !need::all(&BROWSER) {
        return;
    }
    let server = Server::start(Line::Breaks);
    let browser = Browser::start();
    emulate(&browser, SMALL_PHONE, "light");
    for language in Language::ALL {
        for state in PreviewState::ALL {
            browser.open(&server.url(&format!("/preview/{}/{language}", state.as_str())));
            assert_eq!(
                browser.eval(OVERFLOWING),
                json!([]),
                "{language} {}",
                state.as_str()
            );
        }
        let file = pictures().join(format!("event-{language}-small.png"));
        fs::write(file, browser.screenshot()).unwrap();
    }
}

#[test]
fn the_script_changes_numbers_in_place_and_enters() {
    if !need::all(&BROWSER) {
        return;
    }
    let browser = Browser::start();
    // Browsers load an address with a fragment again in another way.
    for path in ["/line?x=1", "/line?x=1#part"] {
        let server = Server::start(Line::Waits(waiting(3)));
        browser.open(&server.url(path));
        browser.wait_for_text("3 minutes", DEADLINE);
        browser.wait_for_text("shop.example", DEADLINE);
        browser.eval("window.isTheSame = true");
        server.set(Line::Waits(waiting(1)));
        browser.wait_for_text("1 minute\n", DEADLINE);
        assert_eq!(browser.title(), "1 minute · You are in line");
        // Long past the second after which the Refresh header would have reloaded.
        server.until_asked(&Asked::Poll, 4);
        assert_eq!(server.asked(&Asked::Page), 1, "the page was reloaded");
        assert_eq!(browser.eval("return window.isTheSame"), json!(true));
        server.set(Line::Admits);
        browser.wait_for_text("Welcome", DEADLINE);
        assert!(browser.url().ends_with(path));
        assert_eq!(server.asked(&Asked::Page), 2);
    }
}

#[test]
fn the_page_comes_back_without_script() {
    if !need::all(&BROWSER) {
        return;
    }
    let server = Server::start(Line::Waits(waiting(3)));
    let browser = Browser::with(&Setup {
        script: Script::Off,
        ..Setup::default()
    });
    browser.open(&server.url("/line"));
    let text = browser.visible_text();
    assert!(
        text.contains("3 minutes") && !text.contains("Leave"),
        "{text}"
    );
    server.until_asked(&Asked::Page, 2);
    server.set(Line::Admits);
    browser.wait_for_text("Welcome", DEADLINE);
    assert_eq!(server.asked(&Asked::Poll), 0);
}

#[test]
fn a_state_that_changes_is_told_in_place() {
    if !need::all(&BROWSER) {
        return;
    }
    let server = Server::start(Line::Waits(waiting(2)));
    let browser = Browser::start();
    browser.open(&server.url("/line"));
    browser.wait_for_text("You are in line", DEADLINE);
    for (state, heading) in [
        (PreviewState::QueueAll, "Entry is paused"),
        (PreviewState::QueueFull, "The line is very long"),
        (PreviewState::Prequeue, "Time until the start"),
        (PreviewState::Event, "Time until the end"),
        // Ends the polling, so it comes last.
        (PreviewState::Reject, "Closed at the moment"),
    ] {
        let mut view = state.view();
        view.refresh_interval_seconds = view.refresh_interval_seconds.min(1);
        server.set(Line::Waits(view));
        browser.wait_for_text(heading, DEADLINE);
        let shown = browser.eval("return document.documentElement.dataset.state");
        assert_eq!(shown, json!(State::of(&view).as_str()));
    }
    assert!(!browser.visible_text().contains("Leave the line"));
    assert_eq!(server.asked(&Asked::Page), 1);
}

#[test]
fn trouble_is_told_and_passes() {
    if !need::all(&BROWSER) {
        return;
    }
    let server = Server::start(Line::Waits(waiting(2)));
    let browser = Browser::start();
    browser.open(&server.url("/line"));
    browser.wait_for_text("2 minutes", DEADLINE);
    server.set(Line::Breaks);
    browser.wait_for_text("The connection is lost", DEADLINE);
    browser.wait_for_text("2 minutes", DEADLINE);
    server.set(Line::Waits(waiting(1)));
    browser.wait_for_text("1 minute\n", DEADLINE);
    assert!(!browser.visible_text().contains("The connection is lost"));
    assert_eq!(server.asked(&Asked::Page), 1);
}

#[test]
fn leaving_is_asked_for_and_ends_the_polling() {
    if !need::all(&BROWSER) {
        return;
    }
    let server = Server::start(Line::Waits(waiting(2)));
    let browser = Browser::start();
    browser.open(&server.url("/line"));
    browser.wait_for_text("Leave the line", DEADLINE);
    browser.eval("window.confirm = question => (window.question = question, true)");
    browser.eval("document.getElementById('leave').click()");
    browser.wait_for_text("You have left the line", DEADLINE);
    assert_eq!(
        browser.eval("return window.question"),
        json!("Leave the line? You will lose your place.")
    );
    assert_eq!(server.asked(&Asked::Leave), 1);
    browser.eval("document.getElementById('again').click()");
    browser.wait_for_text("You are in line", DEADLINE);
    assert_eq!(server.asked(&Asked::Page), 2);
}
