//! What a room answers to whom. Pure: a request's head in, an answer's head and body out.
//!
//! | request | while it cannot enter | takes a place |
//! | --- | --- | --- |
//! | page load (any method, any client not named below) | waiting page, `queueing_status_code` | yes |
//! | `Accept` asks for JSON, where the room has JSON | JSON, `queueing_status_code` | yes |
//! | script: `Sec-Fetch-Dest: empty` or `X-Requested-With` | JSON; `queueing_status_code` where the room has JSON, else 503 | yes |
//! | the waiting page's own script: `X-Gate-Poll: 1` | JSON, 200 | yes |
//! | the same with `DELETE` and `X-Gate-Poll: leave` | 204; the place or session is given back | no |
//! | form post | waiting page; once admitted the page is loaded with `GET`, the form is not kept | yes |
//! | sub-resource (`Sec-Fetch-Dest: image`, `script`, …), prefetch | 503 without a body | no |
//! | WebSocket upgrade | 503 without a body | no |
//! | CORS preflight | answered 204 where `cors_allowed_origins` allows its origin, else forwarded | no |
//! | `HEAD` | as `GET`, without the body | yes |
//!
//! Every answer is `no-store`, and has `Retry-After` while coming back makes sense. A room that rejects answers the same, without a
//! cookie and without `Refresh`.

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD,
    CACHE_CONTROL, CONTENT_TYPE, ORIGIN, REFRESH, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::gate::Local;
use crate::config::{CorsPolicy, PageSettings};
use crate::page::{
    AnswerKind, CACHE_CONTROL_NEVER, JsonFormat, JsonNegotiation, POLL_HEADER, POLL_LEAVE,
    Prepared, admitted_json, refresh_address, refresh_header, write_refresh,
};
use crate::registry::Asks;
use crate::room::WaitView;

/// How long a browser may remember that a preflight was allowed.
const PREFLIGHT_SECONDS: u32 = 600;

/// What kind of client asks, as far as its head tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// A page, or whatever else a client expects that says nothing about it.
    Load,
    /// An answer for a script.
    Script,
    /// The waiting page's own script asks how things stand.
    Poll,
    /// The waiting page's own script gives the place back.
    Leave,
    /// A part of a page, or a guess of the browser.
    Part,
    Upgrade,
    Preflight,
}

/// What a head says about the kind of client; collected in one pass over the fields.
#[derive(Default)]
struct Hints<'a> {
    poll: Option<&'a [u8]>,
    dest: Option<&'a [u8]>,
    is_guess: bool,
    requested_with: bool,
    has_origin: bool,
    asks_for_method: bool,
    has_upgrade: bool,
}

impl<'a> Hints<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let mut hints = Self::default();
        for (name, value) in headers {
            let value = value.as_bytes();
            match name.as_str() {
                "sec-fetch-dest" => hints.dest = hints.dest.or(Some(value)),
                "sec-purpose" | "purpose" => {
                    hints.is_guess |= value.windows(8).any(|part| part == b"prefetch");
                }
                "x-requested-with" => hints.requested_with = true,
                "origin" => hints.has_origin = true,
                "access-control-request-method" => hints.asks_for_method = true,
                "upgrade" => hints.has_upgrade = true,
                other if other == POLL_HEADER => hints.poll = hints.poll.or(Some(value)),
                _ => {}
            }
        }
        hints
    }
}

impl Wish {
    pub(super) fn of(parts: &Parts) -> Self {
        let hints = Hints::of(&parts.headers);
        if let Some(poll) = hints.poll {
            return if parts.method == Method::DELETE && poll == POLL_LEAVE.as_bytes() {
                Self::Leave
            } else {
                Self::Poll
            };
        }
        if parts.method == Method::OPTIONS && hints.has_origin && hints.asks_for_method {
            return Self::Preflight;
        }
        if hints.has_upgrade && super::service::upgrade(parts).is_some() {
            return Self::Upgrade;
        }
        if hints.is_guess {
            return Self::Part;
        }
        match hints.dest {
            Some(b"document" | b"iframe" | b"frame" | b"embed" | b"object" | b"fencedframe") => {
                Self::Load
            }
            Some(b"empty") => Self::Script,
            Some(_) => Self::Part,
            None if hints.requested_with => Self::Script,
            None => Self::Load,
        }
    }

    pub(super) fn asks(self) -> Asks {
        match self {
            Self::Load | Self::Script | Self::Poll | Self::Leave => Asks::ForAPlace,
            Self::Part | Self::Upgrade | Self::Preflight => Asks::ForNow,
        }
    }
}

/// An answer without the room's cookie.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The answer to a visitor who cannot enter.
pub(super) fn waiting(
    local: &Local,
    settings: &PageSettings,
    cors: &CorsPolicy,
    wish: Wish,
    parts: &Parts,
    view: &WaitView,
) -> Reply {
    let mut reply = match wish {
        Wish::Load | Wish::Script | Wish::Poll => page(local, settings, wish, parts, view),
        Wish::Part | Wish::Upgrade | Wish::Preflight | Wish::Leave => unavailable(view),
    };
    add_cors(&mut reply.headers, cors, &parts.headers);
    reply
}

/// The answer to the waiting page's own script once its visitor is admitted.
pub(super) fn admitted(cors: &CorsPolicy, parts: &Parts) -> Reply {
    let mut headers = HeaderMap::with_capacity(6);
    headers.insert(CACHE_CONTROL, CACHE_CONTROL_NEVER);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    add_cors(&mut headers, cors, &parts.headers);
    Reply {
        status: StatusCode::OK,
        headers,
        body: Bytes::from_static(admitted_json(JsonFormat::Cloudflare).as_bytes()),
    }
}

/// The answer to a visitor who has left.
pub(super) fn left() -> Reply {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CACHE_CONTROL, CACHE_CONTROL_NEVER);
    Reply {
        status: StatusCode::NO_CONTENT,
        headers,
        body: Bytes::new(),
    }
}

/// The answer to a preflight, where the room knows the asking origin.
pub(super) fn preflight(cors: &CorsPolicy, parts: &Parts) -> Option<Reply> {
    let mut headers = HeaderMap::with_capacity(8);
    add_cors(&mut headers, cors, &parts.headers);
    if !headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
        return None;
    }
    headers.remove(ACCESS_CONTROL_EXPOSE_HEADERS);
    headers.insert(CACHE_CONTROL, CACHE_CONTROL_NEVER);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(PREFLIGHT_SECONDS));
    for (asked, allowed) in [
        (ACCESS_CONTROL_REQUEST_METHOD, ACCESS_CONTROL_ALLOW_METHODS),
        (ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_ALLOW_HEADERS),
    ] {
        if let Some(value) = parts.headers.get(asked) {
            headers.insert(allowed, value.clone());
        }
    }
    Some(Reply {
        status: StatusCode::NO_CONTENT,
        headers,
        body: Bytes::new(),
    })
}

/// What a visitor who waits is answered with.
pub(super) fn kind(settings: &PageSettings, wish: Wish, accept: Option<&str>) -> AnswerKind {
    match wish {
        Wish::Poll => AnswerKind::Poll,
        Wish::Script => AnswerKind::Json,
        Wish::Load | Wish::Part | Wish::Upgrade | Wish::Preflight | Wish::Leave => {
            let wants = settings.json_negotiation != JsonNegotiation::Off
                && accept.is_some_and(|accept| settings.json_negotiation.wants_json(accept));
            if wants {
                AnswerKind::Json
            } else {
                AnswerKind::Page
            }
        }
    }
}

fn page(
    local: &Local,
    settings: &PageSettings,
    wish: Wish,
    parts: &Parts,
    view: &WaitView,
) -> Reply {
    let text = |name| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let kind = kind(settings, wish, text(ACCEPT));
    let language = settings.page.language_for(text(ACCEPT_LANGUAGE));
    let answer = local.prepared(&settings.page, kind, language, view);
    let mut body = String::new();
    answer.write_body(view, &mut body);
    // A script that expects data must not take the line's for it, unless its room speaks JSON on purpose.
    let status = if wish == Wish::Script && settings.json_negotiation == JsonNegotiation::Off {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        answer.status
    };
    let mut headers = answer.headers.clone();
    if let Some(refresh) = named_refresh(&answer, parts) {
        headers.insert(REFRESH, refresh);
    }
    Reply {
        status,
        headers,
        body: Bytes::from(body),
    }
}

/// `Refresh` with the page's address, for browsers, which are known by `Sec-Fetch-Dest`.
fn named_refresh(answer: &Prepared, parts: &Parts) -> Option<HeaderValue> {
    let seconds = answer.refresh_seconds?;
    parts.headers.get("sec-fetch-dest")?;
    let address = refresh_address(parts.uri.path_and_query()?.as_str())?;
    let mut value = String::new();
    write_refresh(seconds, Some(address), &mut value);
    HeaderValue::try_from(value).ok()
}

fn unavailable(view: &WaitView) -> Reply {
    let mut headers = HeaderMap::with_capacity(6);
    headers.insert(CACHE_CONTROL, CACHE_CONTROL_NEVER);
    if let Some(seconds) = refresh_header(view) {
        headers.insert(http::header::RETRY_AFTER, seconds);
    }
    Reply {
        status: StatusCode::SERVICE_UNAVAILABLE,
        headers,
        body: Bytes::new(),
    }
}

/// Lets scripts of allowed origins read the answer.
fn add_cors(headers: &mut HeaderMap, cors: &CorsPolicy, request: &HeaderMap) {
    let Some(origin) = request.get(ORIGIN) else {
        return;
    };
    let is_allowed = match cors {
        CorsPolicy::NoOrigin => return,
        CorsPolicy::AnyOrigin => true,
        CorsPolicy::Origins(origins) => origins
            .iter()
            .any(|allowed| origin.as_bytes().eq_ignore_ascii_case(allowed.as_bytes())),
    };
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if is_allowed {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(
            ACCESS_CONTROL_ALLOW_CREDENTIALS,
            HeaderValue::from_static("true"),
        );
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("Retry-After"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(request: http::request::Builder) -> Wish {
        Wish::of(&request.body(()).unwrap().into_parts().0)
    }

    fn get() -> http::request::Builder {
        http::Request::get("/").header("host", "a")
    }

    #[test]
    fn tells_clients_apart() {
        for (request, expected) in [
            (get(), Wish::Load),
            (get().header("sec-fetch-dest", "document"), Wish::Load),
            (get().header("sec-fetch-dest", "empty"), Wish::Script),
            (
                get().header("x-requested-with", "XMLHttpRequest"),
                Wish::Script,
            ),
            (get().header("sec-fetch-dest", "image"), Wish::Part),
            (
                get()
                    .header("sec-fetch-dest", "document")
                    .header("sec-purpose", "prefetch;prerender"),
                Wish::Part,
            ),
            (
                get()
                    .header("connection", "Upgrade")
                    .header("upgrade", "websocket"),
                Wish::Upgrade,
            ),
            (get().header("x-gate-poll", "1"), Wish::Poll),
            (
                get().method("DELETE").header("x-gate-poll", "leave"),
                Wish::Leave,
            ),
            (get().header("x-gate-poll", "leave"), Wish::Poll),
            (
                get()
                    .method("OPTIONS")
                    .header("origin", "https://b")
                    .header("access-control-request-method", "POST"),
                Wish::Preflight,
            ),
            (get().method("OPTIONS"), Wish::Load),
            (get().method("POST"), Wish::Load),
        ] {
            let shown = format!("{request:?}");
            assert_eq!(wish(request), expected, "{shown}");
        }
    }

    #[test]
    fn only_allowed_origins_read_the_answer() {
        let asked = |origin: &str| {
            let mut request = HeaderMap::new();
            request.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
            request
        };
        let list = CorsPolicy::Origins(vec!["https://shop.example".to_owned()]);
        for (cors, origin, allowed) in [
            (&CorsPolicy::NoOrigin, "https://shop.example", false),
            (&CorsPolicy::AnyOrigin, "https://any.example", true),
            (&list, "https://SHOP.example", true),
            (&list, "https://shop.example.evil", false),
        ] {
            let mut headers = HeaderMap::new();
            add_cors(&mut headers, cors, &asked(origin));
            let found = headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN);
            assert_eq!(found, allowed, "{origin}");
        }
    }
}
