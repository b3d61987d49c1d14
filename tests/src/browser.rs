//! A real, headless Chromium, driven through ChromeDriver by its HTTP protocol (W3C WebDriver).

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::Visitor;
use crate::need;
use crate::ports;
use crate::process::Process;
use crate::wait::{DEADLINE, until};

/// Nothing that talks to anybody but the page, and nothing that needs a screen.
const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
];

/// Whether the browser keeps cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookies {
    /// As in every browser.
    Kept,
    /// As for those who refuse them all, or in a frame of a browser that refuses those of third parties.
    Refused,
}

/// Whether pages may run their scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// As in every browser.
    On,
    /// As with a blocker or an old device.
    Off,
}

/// How a browser is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whether scripts run.
    pub script: Script,
    /// Whether cookies are kept.
    pub cookies: Cookies,
    /// Width and height of the window in CSS pixels.
    pub window: (u32, u32),
    /// Device pixels for each CSS pixel.
    pub scale: u32,
    /// More flags.
    pub flags: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            script: Script::On,
            cookies: Cookies::Kept,
            window: (1280, 800),
            scale: 1,
            flags: Vec::new(),
        }
    }
}

/// One window of one browser with an empty profile. Ends with the test.
#[derive(Debug)]
pub struct Browser {
    driver: Process,
    address: SocketAddr,
    session: String,
    profile: TempDir,
}

impl Browser {
    /// Starts a browser as most people have it.
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&Setup::default())
    }

    /// Starts a browser.
    ///
    /// # Panics
    /// Where it does not start.
    #[track_caller]
    pub fn with(setup: &Setup) -> Self {
        let program = need::command("chromedriver")
            .expect("chromedriver: ask for Need::Command(\"chromedriver\") first");
        let profile = tempfile::tempdir().expect("a temporary folder");
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let port = format!("--port={}", address.port());
        let driver = Process::start(&program, &[&port]);
        until("chromedriver accepts connections", DEADLINE, || {
            std::net::TcpStream::connect(address).ok()
        });
        let mut browser = Self {
            driver,
            address,
            session: String::new(),
            profile,
        };
        let capabilities = capabilities(setup, browser.profile.path());
        let answer = browser.ask("POST", "/session", &capabilities);
        browser.session = answer["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("no session: {answer}"))
            .to_owned();
        browser
    }

    /// Opens a page and waits until it is loaded.
    #[track_caller]
    pub fn open(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url }));
    }

    /// The address in the location bar.
    #[track_caller]
    pub fn url(&self) -> String {
        text(&self.command("GET", "/url", &Value::Null))
    }

    /// The page's title.
    #[track_caller]
    pub fn title(&self) -> String {
        text(&self.command("GET", "/title", &Value::Null))
    }

    /// The page as the browser has it now.
    #[track_caller]
    pub fn source(&self) -> String {
        text(&self.command("GET", "/source", &Value::Null))
    }

    /// What a script returns; `return` is part of it. Works with scripts off in pages, too.
    #[track_caller]
    pub fn eval(&self, script: &str) -> Value {
        self.command(
            "POST",
            "/execute/sync",
            &json!({ "script": script, "args": [] }),
        )
    }

    /// The text that a person sees.
    #[track_caller]
    pub fn visible_text(&self) -> String {
        text(&self.eval("return document.body ? document.body.innerText : ''"))
    }

    /// Waits until the page shows this text.
    ///
    /// # Panics
    /// Where it does not.
    #[track_caller]
    pub fn wait_for_text(&self, wanted: &str, deadline: Duration) {
        until(&format!("the page shows {wanted:?}"), deadline, || {
            self.visible_text().contains(wanted).then_some(())
        });
    }

    /// A picture of the window, as PNG.
    ///
    /// # Panics
    /// Where there is none.
    #[track_caller]
    pub fn screenshot(&self) -> Vec<u8> {
        let encoded = text(&self.command("GET", "/screenshot", &Value::Null));
        decode_base64(&encoded).expect("a picture in base64")
    }

    /// Sends a DevTools command, for what WebDriver does not know.
    #[track_caller]
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command(
            "POST",
            "/goog/cdp/execute",
            &json!({ "cmd": command, "params": parameters }),
        )
    }

    #[track_caller]
    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.ask(method, &format!("/session/{}{path}", self.session), body)
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let response = Visitor::new(self.address, "127.0.0.1")
            .json()
            .with("Content-Type", "application/json")
            .request(method, path, body.as_bytes())
            .unwrap_or_else(|error| panic!("chromedriver, {method} {path}: {error}"));
        let answer = response.json();
        assert_eq!(
            response.status, 200,
            "chromedriver, {method} {path}: {answer}"
        );
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser itself; the driver goes with its process.
        if !self.session.is_empty() && self.driver.is_running() {
            let path = format!("/session/{}", self.session);
            Visitor::new(self.address, "127.0.0.1")
                .request("DELETE", &path, b"")
                .ok();
        }
    }
}

fn capabilities(setup: &Setup, profile: &Path) -> Value {
    let mut arguments: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    arguments.push(format!("--user-data-dir={}", profile.display()));
    arguments.push(format!(
        "--window-size={},{}",
        setup.window.0, setup.window.1
    ));
    arguments.push(format!("--force-device-scale-factor={}", setup.scale));
    // Names of the tests' own: every one of them is this machine.
    arguments.push("--host-resolver-rules=MAP * 127.0.0.1".to_owned());
    arguments.extend(setup.flags.iter().cloned());
    let script = match setup.script {
        Script::On => 1,
        Script::Off => 2,
    };
    let cookies = match setup.cookies {
        Cookies::Kept => 1,
        Cookies::Refused => 2,
    };
    let mut options = json!({
        "args": arguments,
        "prefs": {
            "profile.managed_default_content_settings.javascript": script,
            "profile.default_content_setting_values.cookies": cookies,
        },
    });
    if let Some(chromium) = need::command("chromium") {
        options["binary"] = json!(chromium);
    }
    json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": options,
    } } })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for letter in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_is_read() {
        assert_eq!(super::decode_base64("aGVsbG8=").unwrap(), b"hello");
        assert_eq!(super::decode_base64("aGVsbG8h").unwrap(), b"hello!");
        assert!(super::decode_base64("a*b").is_none());
    }
}
