//! The named limits and timeouts of the proxy (`[limits]`). Values only; the proxy applies them.

use super::fields::Section;

/// Everything a client or an origin could make grow or wait in the proxy. Timeouts are in whole seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Longest request head (request line and fields), [`HEAD_BYTES_MIN`] to 1,048,576 bytes. A longer one is answered 431
    /// and the connection closed.
    pub head_bytes_max: usize,
    /// From the first byte of a request head to its last, 1 to 3,600. A slower client is disconnected.
    pub head_timeout_seconds: u32,
    /// Longest request body. A longer one is answered 413, at once where `Content-Length` says so. `None`: no limit; bodies
    /// stream, so none takes memory.
    pub body_bytes_max: Option<u64>,
    /// Between two pieces of a request body, 1 to 3,600. A slower client is answered 408 and disconnected.
    pub body_idle_timeout_seconds: u32,
    /// Between two requests on one connection, and before the first, 1 to 3,600. The client is disconnected.
    pub idle_timeout_seconds: u32,
    /// While an answer waits for the client to read, without any progress, 1 to 3,600. The client is disconnected.
    pub write_stall_timeout_seconds: u32,
    /// Client connections of the whole gate, 1 to 10,000,000. At the limit the longest idle connection is closed for each
    /// new one; where none is idle, new ones wait in the kernel's accept queue.
    pub connections_max: usize,
    /// To open a connection to the origin, name resolution included, 1 to 3,600. The client is answered 504.
    pub upstream_connect_timeout_seconds: u32,
    /// From the request's last byte to the answer's head, 1 to 86,400. The client is answered 504.
    pub upstream_response_timeout_seconds: u32,
    /// Between two pieces of an answer's body, 1 to 86,400. The client is disconnected, since the answer cannot be completed.
    pub upstream_body_idle_timeout_seconds: u32,
    /// Longest head of an answer, [`HEAD_BYTES_MIN`] to 1,048,576 bytes. A longer one is answered 502.
    pub upstream_head_bytes_max: usize,
    /// Unused connections to an origin are closed after this time, 1 to 3,600.
    pub upstream_idle_timeout_seconds: u32,
    /// Unused connections kept per thread and origin, 0 to 65,536. Further ones are closed after use.
    pub upstream_idle_connections_max: usize,
    /// An upgraded connection (WebSocket) without a byte in either direction is closed, 1 to 86,400.
    pub tunnel_idle_timeout_seconds: u32,
    /// How long requests in flight may take to end once the gate is told to stop, 0 to 3,600. Then they are cut.
    pub drain_timeout_seconds: u32,
}

/// The smallest `head_bytes_max`: what the HTTP parser reads at once.
pub(super) const HEAD_BYTES_MIN: usize = 8_192;

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            head_bytes_max: 32_768,
            head_timeout_seconds: 10,
            body_bytes_max: None,
            body_idle_timeout_seconds: 30,
            idle_timeout_seconds: 75,
            write_stall_timeout_seconds: 30,
            connections_max: 65_536,
            upstream_connect_timeout_seconds: 5,
            upstream_response_timeout_seconds: 60,
            upstream_body_idle_timeout_seconds: 60,
            upstream_head_bytes_max: 65_536,
            upstream_idle_timeout_seconds: 30,
            upstream_idle_connections_max: 1_024,
            tunnel_idle_timeout_seconds: 3_600,
            drain_timeout_seconds: 30,
        }
    }
}

const HEAD_BYTES_MAX: usize = 1_048_576;
const HOUR_SECONDS: u32 = 3_600;
const DAY_SECONDS: u32 = 86_400;

pub(super) fn read(mut section: Section<'_>) -> ProxyLimits {
    let mut limits = ProxyLimits::default();
    if let Some(found) = section.integer("body_bytes_max", 0..=i64::MAX.unsigned_abs()) {
        limits.body_bytes_max = Some(found.value);
    }
    for (key, low, high, limit) in [
        (
            "head_bytes_max",
            HEAD_BYTES_MIN,
            HEAD_BYTES_MAX,
            &mut limits.head_bytes_max,
        ),
        (
            "upstream_head_bytes_max",
            HEAD_BYTES_MIN,
            HEAD_BYTES_MAX,
            &mut limits.upstream_head_bytes_max,
        ),
        (
            "connections_max",
            1,
            10_000_000,
            &mut limits.connections_max,
        ),
        (
            "upstream_idle_connections_max",
            0,
            65_536,
            &mut limits.upstream_idle_connections_max,
        ),
    ] {
        if let Some(found) = section.integer(key, low as u64..=high as u64) {
            *limit = usize::try_from(found.value).unwrap_or(high);
        }
    }
    for (key, low, high, limit) in [
        (
            "head_timeout_seconds",
            1,
            HOUR_SECONDS,
            &mut limits.head_timeout_seconds,
        ),
        (
            "body_idle_timeout_seconds",
            1,
            HOUR_SECONDS,
            &mut limits.body_idle_timeout_seconds,
        ),
        (
            "idle_timeout_seconds",
            1,
            HOUR_SECONDS,
            &mut limits.idle_timeout_seconds,
        ),
        (
            "write_stall_timeout_seconds",
            1,
            HOUR_SECONDS,
            &mut limits.write_stall_timeout_seconds,
        ),
        (
            "upstream_connect_timeout_seconds",
            1,
            HOUR_SECONDS,
            &mut limits.upstream_connect_timeout_seconds,
        ),
        (
            "upstream_response_timeout_seconds",
            1,
            DAY_SECONDS,
            &mut limits.upstream_response_timeout_seconds,
        ),
        (
            "upstream_body_idle_timeout_seconds",
            1,
            DAY_SECONDS,
            &mut limits.upstream_body_idle_timeout_seconds,
        ),
        (
            "upstream_idle_timeout_seconds",
            1,
            HOUR_SECONDS,
            &mut limits.upstream_idle_timeout_seconds,
        ),
        (
            "tunnel_idle_timeout_seconds",
            1,
            DAY_SECONDS,
            &mut limits.tunnel_idle_timeout_seconds,
        ),
        (
            "drain_timeout_seconds",
            0,
            HOUR_SECONDS,
            &mut limits.drain_timeout_seconds,
        ),
    ] {
        if let Some(found) = section.small_integer(key, low..=high) {
            *limit = found.value;
        }
    }
    section.finish();
    limits
}
