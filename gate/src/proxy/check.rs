//! Requests that no two readers could understand alike are refused before anything else looks at them. Pure.

use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Version, header};

use super::watch::HeadScan;

/// Why a request is refused, and the status that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: &'static str,
}

const fn bad(reason: &'static str) -> Refusal {
    Refusal {
        status: StatusCode::BAD_REQUEST,
        reason,
    }
}

/// What the request is for.
pub(super) fn host(parts: &Parts) -> &[u8] {
    match parts.uri.authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => parts
            .headers
            .get(header::HOST)
            .map_or(b"", |value| value.as_bytes()),
    }
}

/// Refuses ambiguous framing, an unclear host, and methods that concern proxies only.
pub(super) fn check(parts: &Parts, scan: HeadScan, body_bytes_max: u64) -> Result<(), Refusal> {
    if matches!(parts.method, Method::CONNECT | Method::TRACE) {
        return Err(Refusal {
            status: StatusCode::METHOD_NOT_ALLOWED,
            reason: "CONNECT and TRACE are not served",
        });
    }
    if let Some(encoding) = single(&parts.headers, header::TRANSFER_ENCODING)
        .map_err(|Several| bad("several Transfer-Encoding fields"))?
    {
        if !encoding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(Refusal {
                status: StatusCode::NOT_IMPLEMENTED,
                reason: "a Transfer-Encoding other than chunked",
            });
        }
        if !scan.allows_transfer_encoding() {
            return Err(bad("Content-Length beside Transfer-Encoding"));
        }
    }
    let length = single(&parts.headers, header::CONTENT_LENGTH)
        .map_err(|Several| bad("several Content-Length fields"))?;
    let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > body_bytes_max) {
        return Err(Refusal {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            reason: "the request body is too long",
        });
    }
    check_host(parts)
}

fn check_host(parts: &Parts) -> Result<(), Refusal> {
    let host =
        single(&parts.headers, header::HOST).map_err(|Several| bad("several Host fields"))?;
    if let Some(authority) = parts.uri.authority() {
        let http = parts
            .uri
            .scheme_str()
            .is_some_and(|scheme| matches!(scheme, "http" | "https"));
        if !http || authority.as_str().contains('@') {
            return Err(bad("the target is not one of an HTTP origin"));
        }
        return Ok(());
    }
    match host {
        Some(host) if host.is_empty() => Err(bad("an empty Host")),
        Some(host) if is_plain_host(host.as_bytes()) => Ok(()),
        Some(_) => Err(bad("a malformed Host")),
        None if parts.version == Version::HTTP_10 => Ok(()),
        None => Err(bad("no Host")),
    }
}

/// Whether every reader takes this `Host` for the same.
pub(super) fn is_plain_host(host: &[u8]) -> bool {
    !host.is_empty()
        && host.iter().all(|&byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'[' | b']')
        })
}

struct Several;

fn single(
    headers: &HeaderMap,
    name: header::HeaderName,
) -> Result<Option<&header::HeaderValue>, Several> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Several);
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::watch::Watch;

    fn status(request: http::request::Builder, wire: &[u8]) -> u16 {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let watch = Watch::new();
        watch.client_sent(wire);
        check(&parts, watch.head_scan(), 100)
            .map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    fn get() -> http::request::Builder {
        http::Request::get("/").header("host", "a.example:80")
    }

    #[test]
    fn refuses_what_two_readers_could_read_differently() {
        let plain = b"GET / HTTP/1.1\r\n\r\n";
        assert_eq!(status(get(), plain), 200);
        assert_eq!(status(get().header("host", "b"), plain), 400);
        assert_eq!(status(http::Request::get("/"), plain), 400);
        assert_eq!(
            status(http::Request::get("/").version(Version::HTTP_10), plain),
            200
        );
        for host in ["", "a b", "a/b", "a@b", "a\u{e9}"] {
            assert_eq!(
                status(http::Request::get("/").header("host", host), plain),
                400,
                "{host}"
            );
        }
        assert_eq!(
            status(get().header("transfer-encoding", "chunked"), plain),
            200
        );
        assert_eq!(
            status(get().header("transfer-encoding", "gzip, chunked"), plain),
            501
        );
        let both = b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n";
        assert_eq!(
            status(get().header("transfer-encoding", "chunked"), both),
            400
        );
        assert_eq!(status(get().header("content-length", "101"), plain), 413);
        assert_eq!(status(get().method("TRACE"), plain), 405);
        assert_eq!(status(http::Request::get("http://u@a/"), plain), 400);
        assert_eq!(status(http::Request::get("ftp://a/"), plain), 400);
    }
}
