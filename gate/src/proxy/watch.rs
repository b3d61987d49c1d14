//! What a client connection is waiting for, and for how long. One tick a second looks at it; requests only write cells, so
//! that no timer is touched on the request path. Decides when to cut; does no I/O.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use tokio::net::TcpStream;

use super::gate::Local;
use crate::config::ProxyLimits;
use crate::registry::OpenRoom;
use crate::room::Decision;

/// Seconds without a request after which a connection's buffers are given back.
const PARK_AFTER_TICKS: u32 = 1;

/// What stands between the connection and its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaiting {
    /// The first byte of a request.
    Request,
    /// The rest of a request head.
    Head,
    /// A connection to the origin.
    Connect,
    /// The origin's answer, or the rest of the request body (see `request_body_wanted`).
    Response,
    /// The rest of the answer's body.
    ResponseBody,
}

/// What a tick found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    /// Idle for a while: take the connection out of the HTTP machinery.
    Park,
    /// The exchange with the origin has taken too long; it ends itself with an answer.
    Expired,
    /// Disconnect, for the reason named.
    Cut(&'static str),
}

/// Both ends of a connection that has left HTTP.
#[derive(Debug)]
pub(super) struct Upgraded {
    pub(super) stream: TcpStream,
    /// What the origin sent behind its head.
    pub(super) already_read: Bytes,
}

/// The state of one client connection.
#[derive(Debug)]
pub(super) struct Watch {
    awaiting: Cell<Awaiting>,
    /// Seconds since the last progress.
    ticks: Cell<u32>,
    expired: Cell<bool>,
    request_body_wanted: Cell<bool>,
    client_write_blocked: Cell<bool>,
    head_scan: Cell<HeadScan>,
    /// Closing now could destroy an answer that the client has yet to read, because it is still sending.
    pub(super) linger: Cell<bool>,
    /// HTTP is to end without ending the socket, which is parked then.
    pub(super) keep_socket: Cell<bool>,
    pub(super) upgraded: RefCell<Option<Upgraded>>,
    /// Of the request that comes next.
    pub(super) decided: RefCell<Option<Decided>>,
}

/// A decision that was taken before it turned out that its request needs all of HTTP. Taken again, it could count twice.
#[derive(Debug)]
pub(super) struct Decided {
    /// Keeps the room where it is, so that no other can come to have its address.
    _local: Rc<Local>,
    room: *const OpenRoom,
    decision: Decision,
}

impl Decided {
    /// `room` is one of `local`.
    pub(super) fn new(local: &Rc<Local>, room: &OpenRoom, decision: Decision) -> Self {
        Self {
            _local: Rc::clone(local),
            room,
            decision,
        }
    }

    /// The decision, if `room` took it. A reload in between makes another room of it, which decides for itself.
    pub(super) fn by(self, room: &OpenRoom) -> Option<Decision> {
        std::ptr::eq(self.room, room).then_some(self.decision)
    }
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            awaiting: Cell::new(Awaiting::Request),
            ticks: Cell::new(0),
            expired: Cell::new(false),
            request_body_wanted: Cell::new(false),
            client_write_blocked: Cell::new(false),
            head_scan: Cell::new(HeadScan::START),
            linger: Cell::new(false),
            keep_socket: Cell::new(false),
            upgraded: RefCell::new(None),
            decided: RefCell::new(None),
        }
    }

    /// Enters a phase; its time starts now.
    pub(super) fn enter(&self, phase: Awaiting) {
        self.awaiting.set(phase);
        self.ticks.set(0);
        self.request_body_wanted.set(false);
    }

    /// The answer is complete, or its connection lost.
    pub(super) fn answered(&self) {
        self.enter(Awaiting::Request);
        self.expired.set(false);
        self.head_scan.set(HeadScan::START);
    }

    /// Something arrived or left: the phase's time starts anew.
    pub(super) fn progress(&self) {
        self.ticks.set(0);
    }

    pub(super) fn want_request_body(&self, wanted: bool) {
        self.request_body_wanted.set(wanted);
    }

    /// Whether the exchange should end with a timeout; which one is in [`Self::client_is_late`].
    pub(super) fn is_expired(&self) -> bool {
        self.expired.get()
    }

    /// Whether the client, not the origin, is the one who is waited for.
    pub(super) fn client_is_late(&self) -> bool {
        self.request_body_wanted.get()
    }

    /// Bytes came from the client.
    pub(super) fn client_sent(&self, bytes: &[u8]) {
        match self.awaiting.get() {
            Awaiting::Request if !bytes.is_empty() => {
                // A request after all: its answer may need the end of the socket.
                self.keep_socket.set(false);
                self.enter(Awaiting::Head);
                self.head_scan.set(self.head_scan.get().over(bytes));
            }
            Awaiting::Head => self.head_scan.set(self.head_scan.get().over(bytes)),
            Awaiting::Request | Awaiting::Connect | Awaiting::Response | Awaiting::ResponseBody => {
            }
        }
    }

    /// The head just parsed, as it was on the wire.
    pub(super) fn head_scan(&self) -> HeadScan {
        self.head_scan.get()
    }

    pub(super) fn client_write(&self, blocked: bool) {
        if self.client_write_blocked.get() != blocked {
            self.client_write_blocked.set(blocked);
            self.ticks.set(0);
        } else if !blocked {
            self.ticks.set(0);
        }
    }

    /// To be called once a second.
    pub(super) fn tick(&self, limits: &ProxyLimits) -> Verdict {
        let ticks = self.ticks.get().saturating_add(1);
        self.ticks.set(ticks);
        // The first tick may come right after the phase began: more than N ticks are at least N seconds.
        let past = |limit_seconds: u32| ticks > limit_seconds;
        if self.client_write_blocked.get() {
            return if past(limits.write_stall_timeout_seconds) {
                Verdict::Cut("the client does not read its answer")
            } else {
                Verdict::Keep
            };
        }
        match self.awaiting.get() {
            Awaiting::Request if past(limits.idle_timeout_seconds) => Verdict::Cut("idle"),
            Awaiting::Request if ticks > PARK_AFTER_TICKS => Verdict::Park,
            Awaiting::Head if past(limits.head_timeout_seconds) => {
                Verdict::Cut("the request head is too slow")
            }
            Awaiting::Connect if past(limits.upstream_connect_timeout_seconds) => self.expire(),
            Awaiting::Response if self.request_body_wanted.get() => {
                if past(limits.body_idle_timeout_seconds) {
                    self.expire()
                } else {
                    Verdict::Keep
                }
            }
            Awaiting::Response if past(limits.upstream_response_timeout_seconds) => self.expire(),
            Awaiting::ResponseBody if past(limits.upstream_body_idle_timeout_seconds) => {
                Verdict::Cut("the answer's body stalled")
            }
            Awaiting::Request
            | Awaiting::Head
            | Awaiting::Connect
            | Awaiting::Response
            | Awaiting::ResponseBody => Verdict::Keep,
        }
    }

    fn expire(&self) -> Verdict {
        self.expired.set(true);
        Verdict::Expired
    }
}

/// What stood in a request head on the wire. The HTTP parser drops `Content-Length` beside `Transfer-Encoding` without a
/// word; a client or proxy before us that believed the length is one we must not share a connection with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadScan {
    /// Bytes of `content-length:` matched from the start of the line; [`Self::NO_MATCH`] where the line is another.
    matched: u8,
    /// Nothing but a carriage return stood on the line so far.
    line_is_empty: bool,
    is_complete: bool,
    has_content_length: bool,
}

impl HeadScan {
    const NO_MATCH: u8 = u8::MAX;
    const NAME: &'static [u8] = b"content-length:";
    const START: Self = Self {
        matched: 0,
        line_is_empty: false,
        is_complete: false,
        has_content_length: false,
    };

    /// Whether a request with `Transfer-Encoding` may pass: its head was seen whole, without `Content-Length`.
    pub(super) fn allows_transfer_encoding(self) -> bool {
        self.is_complete && !self.has_content_length
    }

    fn over(mut self, bytes: &[u8]) -> Self {
        let mut rest = bytes;
        while let Some((&byte, tail)) = rest.split_first() {
            if self.is_complete {
                break;
            }
            rest = tail;
            if byte == b'\n' {
                self.is_complete = self.line_is_empty;
                self.line_is_empty = true;
                self.matched = 0;
                continue;
            }
            if byte != b'\r' {
                self.line_is_empty = false;
            }
            if self.matched == Self::NO_MATCH {
                // Nothing on this line matters any more.
                match memchr::memchr(b'\n', rest) {
                    Some(at) => rest = &rest[at..],
                    None => break,
                }
            } else if Self::NAME[usize::from(self.matched)] == byte.to_ascii_lowercase() {
                self.matched += 1;
                if usize::from(self.matched) == Self::NAME.len() {
                    self.has_content_length = true;
                    self.matched = Self::NO_MATCH;
                }
            } else {
                self.matched = Self::NO_MATCH;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(pieces: &[&[u8]]) -> HeadScan {
        pieces
            .iter()
            .fold(HeadScan::START, |scan, piece| scan.over(piece))
    }

    #[test]
    fn finds_content_length_however_the_head_is_cut() {
        let head = b"POST / HTTP/1.1\r\nHost: a\r\ncOnTent-Length: 4\r\nX: y\r\n\r\nbody";
        for at in 0..head.len() {
            let (a, b) = head.split_at(at);
            assert!(scan(&[a, b]).has_content_length, "cut at {at}");
            assert!(!scan(&[a, b]).allows_transfer_encoding(), "cut at {at}");
        }
    }

    #[test]
    fn looks_at_names_of_the_head_only() {
        for head in [
            &b"POST / HTTP/1.1\r\nA: content-length: 4\r\nX-Content-Length: 1\r\n\r\nContent-Length: 4\r\n"[..],
            b"POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n",
        ] {
            assert!(scan(&[head]).allows_transfer_encoding());
        }
        assert!(!scan(&[b"POST / HTTP/1.1\r\nA: b\r\n"]).allows_transfer_encoding());
        assert!(!HeadScan::START.allows_transfer_encoding());
    }

    #[test]
    fn each_phase_is_cut_after_its_own_limit_and_never_before() {
        let limits = ProxyLimits {
            head_timeout_seconds: 3,
            body_idle_timeout_seconds: 4,
            write_stall_timeout_seconds: 4,
            upstream_body_idle_timeout_seconds: 4,
            idle_timeout_seconds: 5,
            upstream_connect_timeout_seconds: 7,
            upstream_response_timeout_seconds: 8,
            ..ProxyLimits::default()
        };
        let ends_after = |prepare: &dyn Fn(&Watch)| {
            let watch = Watch::new();
            prepare(&watch);
            let ends = |verdict| matches!(verdict, Verdict::Cut(_) | Verdict::Expired);
            (1..100).find(|_| ends(watch.tick(&limits))).unwrap()
        };
        assert_eq!(ends_after(&|_| ()), 6);
        assert_eq!(ends_after(&|w| w.client_sent(b"GET /")), 4);
        assert_eq!(ends_after(&|w| w.enter(Awaiting::Connect)), 8);
        assert_eq!(ends_after(&|w| w.enter(Awaiting::Response)), 9);
        assert_eq!(ends_after(&|w| w.enter(Awaiting::ResponseBody)), 5);
        assert_eq!(ends_after(&|w| w.client_write(true)), 5);
        let body = |w: &Watch| {
            w.enter(Awaiting::Response);
            w.want_request_body(true);
        };
        assert_eq!(ends_after(&body), 5);
    }

    #[test]
    fn more_bytes_of_a_head_do_not_prolong_it() {
        let limits = ProxyLimits {
            head_timeout_seconds: 2,
            ..ProxyLimits::default()
        };
        let watch = Watch::new();
        for second in 1..=3 {
            watch.client_sent(b"X");
            let cut = matches!(watch.tick(&limits), Verdict::Cut(_));
            assert_eq!(cut, second == 3);
        }
    }
}
