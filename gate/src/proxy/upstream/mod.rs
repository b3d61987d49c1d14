//! Requests to an origin and its answers, over connections pooled per thread. Everything runs in the client connection's
//! own task: no task, channel or lock stands between the two sockets.
//!
//! Knows nothing of rooms and tickets: what it writes was decided by `forward`.

mod chunked;
mod exchange;
mod pool;
mod wire;

pub(super) use exchange::{Answer, AnswerBody, Exchange, UpstreamBody};
pub(super) use pool::Pool;
pub(super) use wire::{Framing, is_hop_by_hop, tokens};

use std::fmt;
use std::io;

/// Why the origin gave no answer that could be passed on.
#[derive(Debug)]
pub(super) enum UpstreamError {
    /// No address for the origin's name.
    Resolve(io::Error),
    Connect(io::Error),
    ConnectTimeout,
    ResponseTimeout,
    /// The origin closed before its answer was complete.
    Closed,
    Io(io::Error),
    /// The answer is not HTTP as RFC 9112 has it.
    Malformed(&'static str),
    /// The client stopped sending its request body, or sent a malformed one.
    ClientBody(hyper::Error),
    /// The client sent nothing of its body for too long.
    ClientBodyTimeout,
    /// The request body is longer than `body_bytes_max`.
    ClientBodyTooLong,
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(_) => f.write_str("the origin's name does not resolve"),
            Self::Connect(_) => f.write_str("no connection to the origin"),
            Self::ConnectTimeout => f.write_str("no connection to the origin in time"),
            Self::ResponseTimeout => f.write_str("no answer from the origin in time"),
            Self::Closed => f.write_str("the origin closed the connection before its answer ended"),
            Self::Io(_) => f.write_str("the connection to the origin failed"),
            Self::Malformed(what) => write!(f, "the origin's answer is malformed: {what}"),
            Self::ClientBody(_) => f.write_str("the client's request body broke off"),
            Self::ClientBodyTimeout => f.write_str("the client's request body stalled"),
            Self::ClientBodyTooLong => f.write_str("the client's request body is too long"),
        }
    }
}

impl std::error::Error for UpstreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve(error) | Self::Connect(error) | Self::Io(error) => Some(error),
            Self::ClientBody(error) => Some(error),
            Self::ConnectTimeout
            | Self::ResponseTimeout
            | Self::Closed
            | Self::Malformed(_)
            | Self::ClientBodyTimeout
            | Self::ClientBodyTooLong => None,
        }
    }
}
