//! What an admitted request looks like to the origin. Fields are written once, straight to the wire's form; nothing is
//! removed from or added to a map. Pure.
//!
//! Passed on: method, target (in origin form), every end-to-end field, `Host` as the client sent it. Left out: fields of the
//! connection (RFC 9110, 7.6.1) and those it names, `Expect` (the gate answers it), our cookie. `TE: trailers` is passed on,
//! and trailers are.
//!
//! `X-Forwarded-For`, `-Proto` and `-Host` say who the client is. From a trusted proxy they are kept and its address is added;
//! from anybody else they, `Forwarded` and `X-Real-IP` are dropped and written anew.

use std::net::IpAddr;

use http::header::HeaderMap;
use http::request::Parts;

use super::upstream::{Framing, is_hop_by_hop, tokens};
use crate::registry::HiddenCookies;

/// Whose word on the client is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// The client itself, as far as is known.
    Client,
    /// A proxy listed in the configuration.
    TrustedProxy,
}

/// Who sent a request, as the socket says.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) address: IpAddr,
    /// `address` as text.
    pub(super) text: Box<str>,
    pub(super) peer: Peer,
}

/// What becomes of the request beside the fields of the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rewrite<'a> {
    pub(super) sender: &'a Sender,
    /// What the client asked for: the target's authority, else `Host`.
    pub(super) host: &'a [u8],
    pub(super) framing: Framing,
    /// The protocol to change to, where the client asks for one.
    pub(super) upgrade: Option<&'a [u8]>,
    /// The cookies that the origin does not see.
    pub(super) hidden_cookies: HiddenCookies<'a>,
}

/// Writes the request's head to `out`.
pub(super) fn write_head(out: &mut Vec<u8>, parts: &Parts, rewrite: &Rewrite<'_>) {
    let target = parts
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str());
    put(out, &[parts.method.as_str().as_bytes(), b" "]);
    if !target.starts_with(['/', '*']) {
        out.push(b'/');
    }
    put(
        out,
        &[
            target.as_bytes(),
            b" HTTP/1.1\r\nhost: ",
            rewrite.host,
            b"\r\n",
        ],
    );

    let named = NamedByConnection::of(&parts.headers);
    let trusted = rewrite.sender.peer == Peer::TrustedProxy;
    let (mut has_proto, mut has_host, mut wants_trailers) = (false, false, false);
    for (name, value) in &parts.headers {
        let value = value.as_bytes();
        match name.as_str() {
            "host" | "expect" | "x-forwarded-for" => continue,
            "te" => {
                wants_trailers |= tokens(value).any(|t| t.eq_ignore_ascii_case(b"trailers"));
                continue;
            }
            other if is_hop_by_hop(other) => continue,
            // The body follows by it: `Connection` has no say in where it ends.
            "content-length" if rewrite.framing == Framing::Chunked => continue,
            "content-length" => {}
            "cookie" => {
                write_cookies(out, value, rewrite.hidden_cookies);
                continue;
            }
            "forwarded" | "x-real-ip" if !trusted => continue,
            "x-forwarded-proto" => {
                if !trusted {
                    continue;
                }
                has_proto = true;
            }
            "x-forwarded-host" => {
                if !trusted {
                    continue;
                }
                has_host = true;
            }
            other if named.contains(other) => continue,
            _ => {}
        }
        put(out, &[name.as_str().as_bytes(), b": ", value, b"\r\n"]);
    }

    out.extend_from_slice(b"x-forwarded-for: ");
    if trusted {
        for value in parts.headers.get_all("x-forwarded-for") {
            put(out, &[value.as_bytes(), b", "]);
        }
    }
    put(out, &[rewrite.sender.text.as_bytes(), b"\r\n"]);
    if !has_proto {
        out.extend_from_slice(b"x-forwarded-proto: http\r\n");
    }
    if !has_host {
        put(out, &[b"x-forwarded-host: ", rewrite.host, b"\r\n"]);
    }
    if rewrite.framing == Framing::Chunked {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    match (rewrite.upgrade, wants_trailers) {
        (Some(protocol), _) => put(
            out,
            &[b"connection: upgrade\r\nupgrade: ", protocol, b"\r\n"],
        ),
        (None, true) => out.extend_from_slice(b"connection: te\r\nte: trailers\r\n"),
        (None, false) => {}
    }
    out.extend_from_slice(b"\r\n");
}

fn put(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// The cookies of one field without those that are ours: as it came where there is none, nothing where no other is left.
fn write_cookies(out: &mut Vec<u8>, value: &[u8], hidden: HiddenCookies<'_>) {
    let is_ours = |cookie: &[u8]| {
        let name = cookie.split(|&byte| byte == b'=').next();
        hidden.contains(name.unwrap_or(cookie).trim_ascii())
    };
    let cookies = || value.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    if !cookies().any(is_ours) {
        put(out, &[b"cookie: ", value, b"\r\n"]);
        return;
    }
    let mut is_first = true;
    for cookie in cookies().filter(|cookie| !cookie.is_empty() && !is_ours(cookie)) {
        out.extend_from_slice(if is_first { b"cookie: " } else { b"; " });
        out.extend_from_slice(cookie);
        is_first = false;
    }
    if !is_first {
        out.extend_from_slice(b"\r\n");
    }
}

/// Fields that `Connection` names as its own.
struct NamedByConnection<'a> {
    headers: &'a HeaderMap,
    any: bool,
}

impl<'a> NamedByConnection<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let any = headers.get_all("connection").iter().any(|value| {
            let value = value.as_bytes();
            !(value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close"))
        });
        Self { headers, any }
    }

    fn contains(&self, name: &str) -> bool {
        self.any
            && self.headers.get_all("connection").iter().any(|value| {
                tokens(value.as_bytes()).any(|token| token.eq_ignore_ascii_case(name.as_bytes()))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(peer: Peer) -> Sender {
        Sender {
            address: IpAddr::from([192, 0, 2, 7]),
            text: "192.0.2.7".into(),
            peer,
        }
    }

    fn head_of(request: http::request::Builder, peer: Peer, hidden: &[&'static str]) -> String {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let mut out = Vec::new();
        let rewrite = Rewrite {
            sender: &sender(peer),
            host: b"shop.example",
            framing: Framing::Empty,
            upgrade: None,
            hidden_cookies: HiddenCookies::of_names(hidden),
        };
        write_head(&mut out, &parts, &rewrite);
        String::from_utf8(out).unwrap()
    }

    fn request() -> http::request::Builder {
        http::Request::get("http://elsewhere/a?b=1").header("host", "elsewhere")
    }

    #[test]
    fn the_client_cannot_say_who_it_is() {
        let forged = || {
            request()
                .header("x-forwarded-for", "10.0.0.1")
                .header("x-forwarded-proto", "https")
                .header("x-forwarded-host", "bank.example")
                .header("forwarded", "for=10.0.0.1")
                .header("x-real-ip", "10.0.0.1")
        };
        assert_eq!(
            head_of(forged(), Peer::Client, &[]),
            "GET /a?b=1 HTTP/1.1\r\nhost: shop.example\r\nx-forwarded-for: 192.0.2.7\r\n\
             x-forwarded-proto: http\r\nx-forwarded-host: shop.example\r\n\r\n"
        );
        let trusted = head_of(forged(), Peer::TrustedProxy, &[]);
        assert!(trusted.contains("x-forwarded-for: 10.0.0.1, 192.0.2.7\r\n"));
        assert!(trusted.contains("x-forwarded-proto: https\r\n"));
        assert!(trusted.contains("x-forwarded-host: bank.example\r\n"));
        assert!(!trusted.contains("x-forwarded-proto: http\r\n"));
    }

    #[test]
    fn fields_of_the_connection_stay_here() {
        let head = head_of(
            request()
                .header("connection", "keep-alive, X-Hop")
                .header("x-hop", "1")
                .header("keep-alive", "5")
                .header("proxy-authorization", "secret")
                .header("te", "gzip, trailers")
                .header("expect", "100-continue")
                .header("x-end", "1"),
            Peer::Client,
            &[],
        );
        for gone in ["x-hop", "keep-alive", "secret", "gzip", "expect"] {
            assert!(!head.contains(gone), "{gone} in {head}");
        }
        assert!(head.contains("x-end: 1\r\n"));
        assert!(head.contains("te: trailers\r\n"));
    }

    #[test]
    fn connection_cannot_take_the_length_from_a_body() {
        let (parts, ()) = http::Request::post("/a")
            .header("connection", "Content-Length, X-Hop")
            .header("content-length", "5")
            .header("x-hop", "1")
            .body(())
            .unwrap()
            .into_parts();
        let mut out = Vec::new();
        let rewrite = Rewrite {
            sender: &sender(Peer::Client),
            host: b"shop.example",
            framing: Framing::Length(5),
            upgrade: None,
            hidden_cookies: HiddenCookies::of_names(&[]),
        };
        write_head(&mut out, &parts, &rewrite);
        let head = String::from_utf8(out).unwrap();
        assert!(head.contains("content-length: 5\r\n"), "{head}");
        assert!(!head.contains("x-hop"), "{head}");
    }

    #[test]
    fn only_our_cookie_is_taken_out() {
        for (value, left) in [
            ("__waitingroom=x", ""),
            ("a=1; __waitingroom=x; b=2", "cookie: a=1; b=2\r\n"),
            (
                "__waitingroom=x; __waitingroom_2=y",
                "cookie: __waitingroom_2=y\r\n",
            ),
            ("__waitingroom", ""),
            (";; a = 1 ;", "cookie: ;; a = 1 ;\r\n"),
            (";; a = 1 ; __waitingroom = x", "cookie: a = 1\r\n"),
            ("__other_room=x; a=1", "cookie: a=1\r\n"),
        ] {
            let mut out = Vec::new();
            let hidden = HiddenCookies::of_names(&["__waitingroom", "__other_room"]);
            write_cookies(&mut out, value.as_bytes(), hidden);
            assert_eq!(String::from_utf8(out).unwrap(), left, "{value}");
        }
        let kept = head_of(
            request().header("cookie", "__waitingroom=x"),
            Peer::Client,
            &[],
        );
        assert!(kept.contains("cookie: __waitingroom=x\r\n"));
    }
}
