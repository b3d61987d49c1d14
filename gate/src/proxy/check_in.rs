//! Check-ins of visitors who wait, answered without the HTTP machinery: most of what a full room receives.
//!
//! A request that is one for certain (a plain `GET` with the ticket of a waiter, nothing unusual about it) is parsed, decided and
//! answered here, as `service` would have answered it. Everything else is handed over untouched, with the bytes read so far;
//! once that has happened the connection stays there until it is parked.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

use super::answers::{self, Wish};
use super::check;
use super::forward::{Peer, Sender};
use super::gate::{Core, Scratch};
use super::service;
use super::visit;
use super::watch::{Decided, Watch};
use crate::config::{Bound, Scheme};
use crate::page::{refresh_address, write_refresh};
use crate::registry::OpenRoom;
use crate::room::{Decision, Ticket};
use crate::ticket::Binding;

/// Fields of a head that is looked at here. A head with more is handed over.
const FIELDS_MAX: usize = 48;
/// Longest field name that means anything here.
const NAME_BYTES_MAX: usize = 24;

/// How this part of a connection's life ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By the client, or after an answer that was the last.
    Closed,
    /// A request that is not for here; these are its bytes and what follows them.
    HandOver(Bytes),
}

/// A connection on which only check-ins have come so far.
#[derive(Debug)]
pub(super) struct CheckIns {
    pub(super) stream: TcpStream,
    /// What the client has not yet taken of the last answer.
    unsent: Bytes,
    /// What came behind a request whose answer is still on its way.
    unread: Bytes,
    closes: bool,
}

/// What became of the bytes at hand.
enum Outcome {
    /// They are one request, which was answered, and `length` bytes long.
    Answered {
        length: usize,
    },
    NotForHere,
}

impl CheckIns {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            unsent: Bytes::new(),
            unread: Bytes::new(),
            closes: false,
        }
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.unsent.is_empty() && self.unread.is_empty()
    }

    /// Answers what comes, until something comes that is not for here.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        core: &Core,
        watch: &Watch,
        sender: &Sender,
    ) -> Poll<Ended> {
        let mut scratch = core.scratch.borrow_mut();
        loop {
            if !self.unsent.is_empty() {
                let written = Pin::new(&mut self.stream).poll_write(cx, &self.unsent);
                watch.client_write(written.is_pending());
                match ready!(written) {
                    Ok(0) | Err(_) => return Poll::Ready(Ended::Closed),
                    Ok(count) => drop(self.unsent.split_to(count)),
                }
                continue;
            }
            if self.closes {
                return Poll::Ready(Ended::Closed);
            }
            let input = std::mem::take(&mut self.unread);
            if !input.is_empty() {
                if let Some(ended) = self.answer_all(cx, core, watch, sender, &input, &mut scratch)
                {
                    return Poll::Ready(ended);
                }
                continue;
            }
            // Taken out of the scratch while it is read: the answers are written there.
            let mut buffer = std::mem::take(&mut scratch.input);
            let mut read = ReadBuf::new(&mut buffer);
            let result = Pin::new(&mut self.stream).poll_read(cx, &mut read);
            let ended = match result {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                    self.answer_all(cx, core, watch, sender, read.filled(), &mut scratch)
                }
                Poll::Ready(_) => Some(Ended::Closed),
                Poll::Pending => {
                    scratch.input = buffer;
                    return Poll::Pending;
                }
            };
            scratch.input = buffer;
            if let Some(ended) = ended {
                return Poll::Ready(ended);
            }
        }
    }

    fn answer_all(
        &mut self,
        cx: &mut Context<'_>,
        core: &Core,
        watch: &Watch,
        sender: &Sender,
        input: &[u8],
        scratch: &mut Scratch,
    ) -> Option<Ended> {
        let mut rest = input;
        while !rest.is_empty() {
            if self.closes {
                break;
            }
            if !self.unsent.is_empty() {
                self.unread = Bytes::copy_from_slice(rest);
                break;
            }
            match self.answer(core, watch, sender, rest, scratch) {
                Outcome::Answered { length } => {
                    rest = &rest[length..];
                    if self.send(cx, scratch).is_err() {
                        return Some(Ended::Closed);
                    }
                    watch.answered();
                }
                Outcome::NotForHere => {
                    return Some(Ended::HandOver(Bytes::copy_from_slice(rest)));
                }
            }
        }
        None
    }

    /// Sends the answer in `scratch`, and keeps what the client does not take at once.
    fn send(&mut self, cx: &mut Context<'_>, scratch: &Scratch) -> Result<(), ()> {
        let (head, body) = (scratch.head.as_bytes(), scratch.body.as_bytes());
        let slices = [IoSlice::new(head), IoSlice::new(body)];
        let written = match Pin::new(&mut self.stream).poll_write_vectored(cx, &slices) {
            Poll::Ready(Ok(count)) => count,
            Poll::Ready(Err(_)) => return Err(()),
            Poll::Pending => 0,
        };
        if written < head.len() + body.len() {
            let of_head = written.min(head.len());
            let unsent = [&head[of_head..], &body[written - of_head..]].concat();
            self.unsent = unsent.into();
        }
        Ok(())
    }

    fn answer(
        &mut self,
        core: &Core,
        watch: &Watch,
        sender: &Sender,
        input: &[u8],
        scratch: &mut Scratch,
    ) -> Outcome {
        let Some((head, length)) = Head::parse(input) else {
            return Outcome::NotForHere;
        };
        // A trusted proxy's word on scheme and client is `service`'s to weigh.
        if sender.peer != Peer::Client {
            return Outcome::NotForHere;
        }
        let local = core.local();
        // Too long a head is refused there.
        if length > local.limits().head_bytes_max {
            return Outcome::NotForHere;
        }
        let Some(room) = local.room_at(head.host, head.path) else {
            return Outcome::NotForHere;
        };
        let Some(ticket) = waiting_ticket(core, room, head.cookies) else {
            return Outcome::NotForHere;
        };
        // Only where a room is concerned: to ask can cost a look-up.
        let crawlers = local.setup.crawlers.as_ref();
        if crawlers.is_some_and(|crawlers| {
            crawlers.is_verified(core.now(), sender.address, head.user_agent)
        }) {
            return Outcome::NotForHere;
        }
        let Some(decision) = room.decide_alone(core.now(), ticket) else {
            return Outcome::NotForHere;
        };
        let Decision::Wait {
            ticket,
            view,
            lifetime_seconds,
        } = decision
        else {
            let decided = Decided::new(&local, room, decision);
            *watch.decided.borrow_mut() = Some(decided);
            return Outcome::NotForHere;
        };
        core.counts.requests.add_one();
        core.counts.queued_answers.add_one();
        let settings = room.page(view.event_index);
        let kind = answers::kind(settings, head.wish, head.accept);
        let language = settings.page.language_for(head.accept_language);
        let prepared = local.prepared(&settings.page, kind, language, &view);
        self.closes = head.closes;

        scratch.body.clear();
        prepared.write_body(&view, &mut scratch.body);
        let out = &mut scratch.head;
        out.clear();
        out.push_str(&prepared.head);
        if let Some(seconds) = prepared.refresh_seconds {
            out.push_str("refresh: ");
            write_refresh(seconds, head.refresh_address, out);
            out.push_str("\r\n");
        }
        out.push_str("set-cookie: ");
        let ticket = Ticket::Waiting(ticket);
        let sealed = core
            .tickets
            .borrow_mut()
            .seal(room.scope(), Binding::NONE, &ticket);
        service::write_cookie(
            &room.config().cookie,
            Scheme::Http,
            &sealed,
            lifetime_seconds,
            out,
        );
        out.push_str("\r\ncontent-length: ");
        out.push_str(itoa::Buffer::new().format(scratch.body.len()));
        out.push_str("\r\ndate: ");
        core.write_date(out);
        out.push_str(if head.closes {
            "\r\nconnection: close\r\n\r\n"
        } else {
            "\r\n\r\n"
        });
        Outcome::Answered { length }
    }
}

/// The ticket of a waiter among these cookies. `None` too where the room looks at more of a request than is looked at here:
/// rules on who bypasses it, tickets bound to more than the visitor.
fn waiting_ticket(core: &Core, room: &OpenRoom, cookies: &[u8]) -> Option<Ticket> {
    let bound = room.config().ticket_binding;
    if bound.client_address != Bound::No
        || bound.user_agent != Bound::No
        || !room.config().bypass_rules.is_empty()
    {
        return None;
    }
    let name = room.config().cookie.name();
    let mut tickets = core.tickets.borrow_mut();
    let ticket = visit::cookies_in(cookies, name)
        .take(visit::COOKIES_TRIED_MAX)
        .find_map(|value| tickets.open(room.scope(), Binding::NONE, value))?;
    matches!(ticket, Ticket::Waiting(_)).then_some(ticket)
}

/// What matters of a request head that may be a check-in.
#[derive(Debug, PartialEq, Eq)]
struct Head<'a> {
    path: &'a [u8],
    host: &'a [u8],
    cookies: &'a [u8],
    accept: Option<&'a str>,
    accept_language: Option<&'a str>,
    user_agent: Option<&'a [u8]>,
    wish: Wish,
    /// Named to browsers, which are known by `Sec-Fetch-Dest`.
    refresh_address: Option<&'a str>,
    closes: bool,
}

impl<'a> Head<'a> {
    /// The head at the beginning of `input` and its length. `None` where it is incomplete, malformed, has a body, or has
    /// anything about it that a check-in has not.
    fn parse(input: &'a [u8]) -> Option<(Self, usize)> {
        let mut storage = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let parsed = request.parse_with_uninit_headers(input, &mut storage);
        let Ok(httparse::Status::Complete(length)) = parsed else {
            return None;
        };
        if request.method != Some("GET") || request.version != Some(1) {
            return None;
        }
        let target = request.path?;
        let path = plain_path(target.as_bytes())?;
        let fields = Fields::of(request.headers)?;
        let host = fields.host.filter(|host| check::is_plain_host(host))?;
        let wish = match fields.destination {
            _ if fields.polls => Wish::Poll,
            None
            | Some(b"document" | b"iframe" | b"frame" | b"embed" | b"object" | b"fencedframe") => {
                Wish::Load
            }
            Some(_) => return None,
        };
        let head = Self {
            path,
            host,
            cookies: fields.cookies?,
            accept: text(fields.accept)?,
            accept_language: text(fields.accept_language)?,
            user_agent: fields.user_agent,
            wish,
            refresh_address: fields.destination.and_then(|_| refresh_address(target)),
            closes: fields.closes,
        };
        Some((head, length))
    }
}

/// A field's value as text; `None` where it is none.
#[expect(
    clippy::option_option,
    reason = "a field that is absent is not one that is no text"
)]
fn text(value: Option<&[u8]>) -> Option<Option<&str>> {
    let Some(value) = value else {
        return Some(None);
    };
    let is_plain = value.iter().all(|byte| matches!(byte, b' '..=b'~'));
    is_plain.then(|| std::str::from_utf8(value).ok())
}

/// The path of a target in origin form without anything that two readers could read differently.
fn plain_path(target: &[u8]) -> Option<&[u8]> {
    let end = target
        .iter()
        .position(|&byte| byte == b'?')
        .unwrap_or(target.len());
    let (path, query) = target.split_at(end);
    let is_plain = path.starts_with(b"/")
        && path
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&byte))
        && query.iter().all(|&byte| {
            byte.is_ascii_alphanumeric() || b"?/-._~!$&'()*+,;=:@%[]|".contains(&byte)
        });
    is_plain.then_some(path)
}

/// The fields that mean something here.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    cookies: Option<&'a [u8]>,
    accept: Option<&'a [u8]>,
    accept_language: Option<&'a [u8]>,
    user_agent: Option<&'a [u8]>,
    destination: Option<&'a [u8]>,
    polls: bool,
    closes: bool,
}

impl<'a> Fields<'a> {
    /// `None` where a field is there that a check-in has not, or twice.
    fn of(fields: &[httparse::Header<'a>]) -> Option<Self> {
        let mut found = Self::default();
        for field in fields {
            let mut name = [0; NAME_BYTES_MAX];
            // No longer name means anything to a GET.
            let Some(name) = name.get_mut(..field.name.len()) else {
                continue;
            };
            name.copy_from_slice(field.name.as_bytes());
            name.make_ascii_lowercase();
            let slot = match &*name {
                b"host" => &mut found.host,
                b"cookie" => &mut found.cookies,
                b"accept" => &mut found.accept,
                b"accept-language" => &mut found.accept_language,
                b"user-agent" => &mut found.user_agent,
                b"sec-fetch-dest" => &mut found.destination,
                b"x-gate-poll" => {
                    found.polls = true;
                    continue;
                }
                b"connection" => {
                    if field.value.eq_ignore_ascii_case(b"close") {
                        found.closes = true;
                    } else if !field.value.eq_ignore_ascii_case(b"keep-alive") {
                        return None;
                    }
                    continue;
                }
                // A body, another protocol, a script of another origin, a guess of the browser, or a script that wants data.
                b"content-length" | b"transfer-encoding" | b"expect" | b"upgrade" | b"te"
                | b"trailer" | b"http2-settings" | b"proxy-connection" | b"keep-alive"
                | b"origin" | b"purpose" | b"sec-purpose" | b"x-requested-with" => return None,
                _ => continue,
            };
            if slot.replace(field.value).is_some() {
                return None;
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "GET /a?b=1 HTTP/1.1\r\nHost: a.example\r\nCookie: x=1; y=2\r\n";

    fn parse(fields: &str) -> Option<(String, Wish, bool)> {
        let wire = format!("{PLAIN}{fields}\r\nrest");
        let (head, length) = Head::parse(wire.as_bytes())?;
        assert_eq!(&wire[length..], "rest");
        assert_eq!(
            (head.host, head.cookies),
            (&b"a.example"[..], &b"x=1; y=2"[..])
        );
        Some((
            String::from_utf8_lossy(head.path).into_owned(),
            head.wish,
            head.closes,
        ))
    }

    #[test]
    fn knows_a_check_in() {
        for (fields, wish, closes) in [
            ("", Wish::Load, false),
            ("Accept: text/html\r\nX-Other: 1\r\n", Wish::Load, false),
            (
                "X-Gate-Poll: 1\r\nSec-Fetch-Dest: empty\r\n",
                Wish::Poll,
                false,
            ),
            (
                "Sec-Fetch-Dest: document\r\nConnection: Close\r\n",
                Wish::Load,
                true,
            ),
            ("connection: keep-alive\r\n", Wish::Load, false),
        ] {
            assert_eq!(
                parse(fields),
                Some(("/a".to_owned(), wish, closes)),
                "{fields}"
            );
        }
    }

    #[test]
    fn leaves_everything_else_alone() {
        for fields in [
            "Content-Length: 0\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Expect: 100-continue\r\n",
            "Connection: upgrade\r\n",
            "Upgrade: websocket\r\n",
            "Origin: https://b\r\n",
            "Sec-Purpose: prefetch\r\n",
            "Sec-Fetch-Dest: image\r\n",
            "Sec-Fetch-Dest: empty\r\n",
            "X-Requested-With: XMLHttpRequest\r\n",
            "Host: b\r\n",
            "COOKIE: z=3\r\n",
            "Accept: a\u{e9}\r\n",
            "Broken\r\n",
        ] {
            assert_eq!(parse(fields), None, "{fields}");
        }
        for wire in [
            "POST / HTTP/1.1\r\nHost: a\r\nCookie: x=1\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\nCookie: x=1\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\nCookie: x=1\r\n\r\n",
            "GET /#a HTTP/1.1\r\nHost: a\r\nCookie: x=1\r\n\r\n",
            "GET /\\a HTTP/1.1\r\nHost: a\r\nCookie: x=1\r\n\r\n",
            "GET / HTTP/1.1\r\nCookie: x=1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\nCookie: x=1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nCookie: x=1\r\n",
            "",
        ] {
            assert_eq!(Head::parse(wire.as_bytes()), None, "{wire}");
        }
    }
}
