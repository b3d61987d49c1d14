//! The fields an expression may ask for, and how each is read from a request. Reading copies nothing but a host in capitals.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::ControlFlow;

use http::HeaderMap;
use http::header::{COOKIE, REFERER, USER_AGENT};

/// What a rule may look at.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'r> {
    /// Of the client behind trusted proxies.
    pub client: IpAddr,
    pub transport: Transport,
    pub method: &'r str,
    /// Such as `HTTP/1.1`.
    pub version: &'static str,
    /// What the request is for: the target's authority, else `Host`, as sent.
    pub host: &'r [u8],
    /// The path as sent, without its query.
    pub path: &'r [u8],
    /// What follows the `?`, without it; empty where there is none.
    pub query: &'r [u8],
    pub headers: &'r HeaderMap,
}

/// How the client reached the gate, or the trusted proxy before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Plain,
    Tls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    ClientAddress,
    Host,
    Path,
    PathExtension,
    Uri,
    FullUri,
    Query,
    Method,
    Version,
    UserAgent,
    Referer,
    Cookie,
    ForwardedFor,
    Tls,
    HeaderNames,
    HeaderValues,
    Headers,
    Cookies,
    Arguments,
    ArgumentNames,
    ArgumentValues,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Address,
    Truth,
    /// Texts in order.
    List,
    /// Lists by name.
    Map,
}

/// One value of a request.
#[derive(Clone, Debug)]
pub(super) enum Value<'r> {
    Text(Cow<'r, [u8]>),
    Address(IpAddr),
    Number(i64),
    Truth(bool),
}

/// Fields by name.
pub(super) const FIELDS: [(&str, Field, Shape); 21] = [
    ("ip.src", Field::ClientAddress, Shape::Address),
    ("http.host", Field::Host, Shape::Text),
    ("http.request.uri.path", Field::Path, Shape::Text),
    (
        "http.request.uri.path.extension",
        Field::PathExtension,
        Shape::Text,
    ),
    ("http.request.uri", Field::Uri, Shape::Text),
    ("http.request.full_uri", Field::FullUri, Shape::Text),
    ("http.request.uri.query", Field::Query, Shape::Text),
    ("http.request.method", Field::Method, Shape::Text),
    ("http.request.version", Field::Version, Shape::Text),
    ("http.user_agent", Field::UserAgent, Shape::Text),
    ("http.referer", Field::Referer, Shape::Text),
    ("http.cookie", Field::Cookie, Shape::Text),
    ("http.x_forwarded_for", Field::ForwardedFor, Shape::Text),
    ("ssl", Field::Tls, Shape::Truth),
    (
        "http.request.headers.names",
        Field::HeaderNames,
        Shape::List,
    ),
    (
        "http.request.headers.values",
        Field::HeaderValues,
        Shape::List,
    ),
    ("http.request.headers", Field::Headers, Shape::Map),
    ("http.request.cookies", Field::Cookies, Shape::Map),
    ("http.request.uri.args", Field::Arguments, Shape::Map),
    (
        "http.request.uri.args.names",
        Field::ArgumentNames,
        Shape::List,
    ),
    (
        "http.request.uri.args.values",
        Field::ArgumentValues,
        Shape::List,
    ),
];

/// Fields of the language that mean nothing here, by the beginning of their name, and why.
const UNSUPPORTED: [(&str, &str); 10] = [
    ("ip.src.", GEOGRAPHY),
    ("ip.geoip.", GEOGRAPHY),
    ("cf.threat_score", VENDOR),
    ("cf.bot_management.", VENDOR),
    (
        "cf.client.bot",
        "set search_engine_crawler_bypass in [settings] for verified crawlers",
    ),
    ("cf.", VENDOR),
    (
        "http.response.",
        "rules are decided before the origin has answered",
    ),
    (
        "http.request.body.",
        "a request's body is not read before it is let through",
    ),
    (
        "raw.",
        "a raw path can be spelled so that it slips past a rule; take the field without `raw.`",
    ),
    (
        "http.request.timestamp.",
        "a rule that depends on the time is an event; write [[rooms.events]]",
    ),
];

const GEOGRAPHY: &str = "it needs a database of networks, which the gate does not have; take ip.src with a list of addresses";
const VENDOR: &str = "it needs the vendor's network";

/// Why a field cannot be used.
pub(super) fn unsupported(name: &str) -> Option<&'static str> {
    UNSUPPORTED
        .iter()
        .find(|(beginning, _)| name.starts_with(beginning))
        .map(|(_, reason)| *reason)
}

impl<'r> Facts<'r> {
    /// A field of one value; `None` where the request has none.
    pub(super) fn single(&self, field: Field) -> Option<Value<'r>> {
        let text = match field {
            Field::ClientAddress => return Some(Value::Address(self.client)),
            Field::Tls => return Some(Value::Truth(self.transport == Transport::Tls)),
            Field::Host => self.host(),
            Field::Path => Cow::Borrowed(self.path),
            Field::PathExtension => self.extension(),
            Field::Uri => self.uri(),
            Field::FullUri => {
                let scheme: &[u8] = match self.transport {
                    Transport::Plain => b"http://",
                    Transport::Tls => b"https://",
                };
                Cow::Owned([scheme, &self.host(), &self.uri()].concat())
            }
            Field::Query => Cow::Borrowed(self.query),
            Field::Method => Cow::Borrowed(self.method.as_bytes()),
            Field::Version => Cow::Borrowed(self.version.as_bytes()),
            Field::UserAgent => self.header(USER_AGENT.as_str()),
            Field::Referer => self.header(REFERER.as_str()),
            Field::Cookie => self.header(COOKIE.as_str()),
            Field::ForwardedFor => self.header("x-forwarded-for"),
            Field::HeaderNames
            | Field::HeaderValues
            | Field::Headers
            | Field::Cookies
            | Field::Arguments
            | Field::ArgumentNames
            | Field::ArgumentValues => return None,
        };
        Some(Value::Text(text))
    }

    /// The values of a list, or those of a map under `key`, in order, until `visit` breaks.
    pub(super) fn each(
        &self,
        field: Field,
        key: Option<&str>,
        visit: &mut dyn FnMut(&'r [u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match (field, key) {
            (Field::HeaderNames, _) => self
                .headers
                .iter()
                .try_for_each(|(name, _)| visit(name.as_str().as_bytes())),
            (Field::HeaderValues, _) => self
                .headers
                .iter()
                .try_for_each(|(_, value)| visit(value.as_bytes())),
            (Field::Headers, Some(key)) => self
                .headers
                .get_all(key)
                .iter()
                .try_for_each(|value| visit(value.as_bytes())),
            (Field::Cookies, Some(key)) => self
                .cookies()
                .filter(|(name, _)| *name == key.as_bytes())
                .try_for_each(|(_, value)| visit(value)),
            (Field::Arguments, Some(key)) => self
                .arguments()
                .filter(|(name, _)| *name == key.as_bytes())
                .try_for_each(|(_, value)| visit(value)),
            (Field::ArgumentNames, _) => self.arguments().try_for_each(|(name, _)| visit(name)),
            (Field::ArgumentValues, _) => self.arguments().try_for_each(|(_, value)| visit(value)),
            _ => ControlFlow::Continue(()),
        }
    }

    /// The host as routes compare it: in lower case, without port and final dot.
    fn host(&self) -> Cow<'r, [u8]> {
        let name = crate::route::host_name_of(self.host);
        if name.iter().any(u8::is_ascii_uppercase) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        }
    }

    fn uri(&self) -> Cow<'r, [u8]> {
        if self.query.is_empty() {
            Cow::Borrowed(self.path)
        } else {
            Cow::Owned([self.path, b"?", self.query].concat())
        }
    }

    /// What follows the last dot of the path's last segment, in lower case.
    fn extension(&self) -> Cow<'r, [u8]> {
        let last = self.path.rsplit(|byte| *byte == b'/').next().unwrap_or(b"");
        let dot = last.iter().rposition(|byte| *byte == b'.');
        Cow::Owned(
            dot.map_or(&b""[..], |dot| &last[dot + 1..])
                .to_ascii_lowercase(),
        )
    }

    /// All fields of a name; several are put together as the field does.
    fn header(&self, name: &str) -> Cow<'r, [u8]> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next().map_or(&b""[..], |value| value.as_bytes());
        let between: &[u8] = if name == "cookie" { b"; " } else { b", " };
        let mut text = Cow::Borrowed(first);
        for value in values {
            text = Cow::Owned([&text, between, value.as_bytes()].concat());
        }
        text
    }

    fn cookies(&self) -> impl Iterator<Item = (&'r [u8], &'r [u8])> {
        let fields = self.headers.get_all(COOKIE).into_iter();
        fields
            .flat_map(|field| field.as_bytes().split(|byte| *byte == b';'))
            .map(|cookie| halves(cookie.trim_ascii()))
    }

    fn arguments(&self) -> impl Iterator<Item = (&'r [u8], &'r [u8])> {
        let pairs = self.query.split(|byte| *byte == b'&');
        pairs.filter(|pair| !pair.is_empty()).map(halves)
    }
}

/// A name and its value, as sent; the value is empty where there is no `=`.
fn halves(pair: &[u8]) -> (&[u8], &[u8]) {
    match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, b""),
    }
}
