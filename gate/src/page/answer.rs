//! A whole answer to a visitor who is not let in: status, headers, body.

use std::sync::Arc;

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFRESH, RETRY_AFTER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::room::WaitView;

use super::builtin;
use super::json::{JsonFormat, write_json, write_poll_json};
use super::language::Language;
use super::template::Template;

/// `Cache-Control` of everything that depends on the visitor: neither browsers nor proxies keep it.
pub const CACHE_CONTROL_NEVER: HeaderValue =
    HeaderValue::from_static("private, no-store, no-cache, must-revalidate, max-age=0");

/// The status of an answer to a waiting visitor (`queueing_status_code`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueingStatusCode {
    #[default]
    Ok,
    Accepted,
    TooManyRequests,
}

impl QueueingStatusCode {
    /// 200, 202 or 429; `None` for any other number.
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            200 => Some(Self::Ok),
            202 => Some(Self::Accepted),
            429 => Some(Self::TooManyRequests),
            _ => None,
        }
    }

    /// The status itself.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Ok => StatusCode::OK,
            Self::Accepted => StatusCode::ACCEPTED,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

/// How a page's language is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LanguageChoice {
    /// Always `default_template_language`.
    #[default]
    Fixed,
    /// What the visitor's `Accept-Language` asks for, else `default_template_language`.
    Negotiated,
}

/// Which page a room shows.
#[derive(Clone, Debug, Default)]
pub enum PageSource {
    #[default]
    BuiltIn,
    /// `custom_page_html`.
    Custom(Arc<Template>),
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnswerKind {
    /// HTML for people.
    Page,
    /// JSON for API clients.
    Json,
    /// JSON for the built-in page's script, known by its header [`POLL_HEADER`].
    Poll,
}

/// The request header by which the built-in page's script is known: `1` for a check-in, [`POLL_LEAVE`] (with `DELETE`) to
/// leave the line.
pub const POLL_HEADER: &str = "x-gate-poll";
/// Value of [`POLL_HEADER`] with which a visitor leaves the line.
pub const POLL_LEAVE: &str = "leave";

/// How one room, or one event of it, answers visitors it does not let in.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub source: PageSource,
    pub language: Language,
    pub language_choice: LanguageChoice,
    pub json_format: JsonFormat,
    pub status: QueueingStatusCode,
}

/// Status, headers and body of one answer. The cookie is added by `proxy`.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Page {
    /// The whole answer for one view. `accept_language` is the request's header, if it is text.
    pub fn answer(
        &self,
        kind: AnswerKind,
        accept_language: Option<&str>,
        view: &WaitView,
    ) -> Answer {
        let mut headers = HeaderMap::with_capacity(8);
        self.insert_headers(kind, view, &mut headers);
        let mut body = String::with_capacity(match kind {
            AnswerKind::Page => 12 * 1024,
            AnswerKind::Json | AnswerKind::Poll => 1536,
        });
        self.write_body(kind, self.language_for(accept_language), view, &mut body);
        Answer {
            status: self.status_for(kind),
            headers,
            body,
        }
    }

    /// The language to answer in.
    pub fn language_for(&self, accept_language: Option<&str>) -> Language {
        match (self.language_choice, accept_language) {
            (LanguageChoice::Negotiated, Some(header)) => {
                Language::negotiate(header, self.language)
            }
            (LanguageChoice::Fixed, _) | (LanguageChoice::Negotiated, None) => self.language,
        }
    }

    /// The status of an answer. The page's own script is always answered 200: it reads the body, and a 429 would look like an
    /// error in the visitor's browser.
    pub const fn status_for(&self, kind: AnswerKind) -> StatusCode {
        match kind {
            AnswerKind::Page | AnswerKind::Json => self.status.status(),
            AnswerKind::Poll => StatusCode::OK,
        }
    }

    /// Sets every header of an answer but the cookie and the length.
    pub fn insert_headers(&self, kind: AnswerKind, view: &WaitView, headers: &mut HeaderMap) {
        headers.insert(CACHE_CONTROL, CACHE_CONTROL_NEVER);
        headers.insert(
            VARY,
            HeaderValue::from_static("Accept, Accept-Language, Cookie, X-Gate-Poll"),
        );
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static(match kind {
                AnswerKind::Page => "text/html; charset=utf-8",
                AnswerKind::Json | AnswerKind::Poll => "application/json",
            }),
        );
        if let Some(seconds) = refresh_header(view) {
            headers.insert(RETRY_AFTER, seconds.clone());
            if kind == AnswerKind::Page {
                headers.insert(REFRESH, seconds);
            }
        }
        if kind == AnswerKind::Page && matches!(self.source, PageSource::BuiltIn) {
            headers.insert(
                CONTENT_SECURITY_POLICY,
                builtin::content_security_policy().clone(),
            );
        }
    }

    /// Appends the body of an answer.
    pub fn write_body(
        &self,
        kind: AnswerKind,
        language: Language,
        view: &WaitView,
        out: &mut String,
    ) {
        match (kind, &self.source) {
            (AnswerKind::Page, PageSource::BuiltIn) => {
                builtin::template().fill(language, view, out);
            }
            (AnswerKind::Page, PageSource::Custom(template)) => template.fill(language, view, out),
            (AnswerKind::Json, _) => write_json(self.json_format, view, out),
            (AnswerKind::Poll, _) => write_poll_json(language, view, out),
        }
    }
}

/// When to come back, in seconds; none where the visitor need not (`reject`).
pub fn refresh_header(view: &WaitView) -> Option<HeaderValue> {
    (view.refresh_interval_seconds > 0).then(|| HeaderValue::from(view.refresh_interval_seconds))
}

/// Longest address that `Refresh` names. A page at a longer one comes back to where it is.
const REFRESH_ADDRESS_BYTES_MAX: usize = 2_048;

/// The address that `Refresh` names to a browser that asked for `target`. It is the page's own, without a fragment: told to
/// refresh and nothing more, a browser at `/shop#part` jumps within the page and never asks again. `None` where naming it could
/// lead elsewhere (`//other.example` is another host).
pub fn refresh_address(target: &str) -> Option<&str> {
    let names_this_host = target.starts_with('/') && !target.starts_with("//");
    let is_plain = target
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"\\#".contains(&byte));
    (names_this_host && is_plain && target.len() <= REFRESH_ADDRESS_BYTES_MAX).then_some(target)
}

/// Appends the value of `Refresh`.
pub fn write_refresh(seconds: u32, address: Option<&str>, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(seconds));
    if let Some(address) = address {
        out.push_str("; url=");
        out.push_str(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::preview::PreviewState;

    fn page() -> Page {
        Page {
            status: QueueingStatusCode::TooManyRequests,
            ..Page::default()
        }
    }

    #[test]
    fn a_page_is_never_stored_and_comes_back_by_itself() {
        let answer = page().answer(AnswerKind::Page, None, &PreviewState::Queueing.view());
        assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
        let headers = &answer.headers;
        assert_eq!(
            headers[CACHE_CONTROL],
            "private, no-store, no-cache, must-revalidate, max-age=0"
        );
        assert_eq!(headers[CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(headers[REFRESH], "20");
        assert_eq!(headers[RETRY_AFTER], "20");
        assert!(headers.contains_key(VARY));
        assert!(headers.contains_key(CONTENT_SECURITY_POLICY));
        assert!(answer.body.starts_with("<!doctype html>"));
    }

    #[test]
    fn refresh_names_no_other_host() {
        for (target, named) in [
            ("/", true),
            ("/shop?a=1;b='2'&c=//d", true),
            ("//other.example/", false),
            ("/\\other.example/", false),
            ("https://other.example/", false),
            ("*", false),
            ("", false),
            ("/a b", false),
            ("/a\r\nset-cookie:b", false),
            ("/\u{e9}", false),
            ("/a#b", false),
        ] {
            assert_eq!(refresh_address(target).is_some(), named, "{target:?}");
        }
        let longest = format!("/{}", "a".repeat(REFRESH_ADDRESS_BYTES_MAX - 1));
        assert!(refresh_address(&longest).is_some());
        assert_eq!(refresh_address(&(longest + "a")), None);
        let mut value = String::new();
        write_refresh(20, refresh_address("/shop"), &mut value);
        assert_eq!(value, "20; url=/shop");
    }

    #[test]
    fn a_rejecting_page_does_not_come_back() {
        let answer = page().answer(AnswerKind::Page, None, &PreviewState::Reject.view());
        assert!(!answer.headers.contains_key(REFRESH));
        assert!(!answer.headers.contains_key(RETRY_AFTER));
    }

    #[test]
    fn json_says_when_to_come_back_but_does_not_reload() {
        for kind in [AnswerKind::Json, AnswerKind::Poll] {
            let answer = page().answer(kind, None, &PreviewState::Queueing.view());
            assert_eq!(answer.headers[CONTENT_TYPE], "application/json");
            assert_eq!(answer.headers[RETRY_AFTER], "20");
            assert!(!answer.headers.contains_key(REFRESH));
            serde_json::from_str::<serde_json::Value>(&answer.body).unwrap();
        }
        assert_eq!(page().status_for(AnswerKind::Json), 429);
        assert_eq!(page().status_for(AnswerKind::Poll), 200);
    }

    #[test]
    fn a_custom_page_sets_its_own_policy() {
        let (template, _) = Template::parse("<p>{{position}}</p>", Default::default()).unwrap();
        let page = Page {
            source: PageSource::Custom(Arc::new(template)),
            ..Page::default()
        };
        let answer = page.answer(AnswerKind::Page, None, &PreviewState::Queueing.view());
        assert_eq!(answer.body, "<p>1284</p>");
        assert!(!answer.headers.contains_key(CONTENT_SECURITY_POLICY));
    }

    #[test]
    fn only_a_negotiating_room_listens_to_the_visitor() {
        let mut page = Page {
            language: Language::SvSe,
            ..Page::default()
        };
        assert_eq!(page.language_for(Some("de")), Language::SvSe);
        page.language_choice = LanguageChoice::Negotiated;
        assert_eq!(page.language_for(Some("de")), Language::DeDe);
        assert_eq!(page.language_for(Some("xx")), Language::SvSe);
        assert_eq!(page.language_for(None), Language::SvSe);
    }

    #[test]
    fn only_the_fields_three_codes_are_known() {
        for (number, known) in [
            (200, true),
            (202, true),
            (429, true),
            (503, false),
            (0, false),
        ] {
            let code = QueueingStatusCode::from_number(number);
            assert_eq!(code.is_some(), known, "{number}");
            assert!(code.is_none_or(|code| code.status() == number));
        }
    }
}
