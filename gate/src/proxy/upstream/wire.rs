//! The origin's answer head and the framing of bodies. Pure: bytes in, values out.

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};

/// Fields an answer may have. More are malformed.
const FIELDS_MAX: usize = 128;

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Framing {
    Empty,
    Length(u64),
    Chunked,
    /// The connection's end is the body's.
    UntilClose,
}

/// Whether the connection can serve another request afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    KeepAlive,
    Close,
}

/// An answer's head; its fields are in the map given to [`parse_head`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) framing: Framing,
    pub(super) reuse: Reuse,
}

/// Fields that concern one connection only and are never passed on. `name` is in lower case.
pub(in crate::proxy) fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Takes an answer's head out of `input` and its end-to-end fields into `fields`. `None` where it is not yet complete.
pub(super) fn parse_head(
    input: &mut BytesMut,
    method: &Method,
    fields: &mut HeaderMap,
) -> Result<Option<Head>, &'static str> {
    let mut storage = [const { std::mem::MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let status = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut parsed,
        input,
        &mut storage,
    );
    let length = match status {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err("too many fields"),
        Err(_) => return Err("head"),
    };
    let status = parsed
        .code
        .and_then(|code| StatusCode::from_u16(code).ok())
        .ok_or("status")?;
    let minor = parsed.version.ok_or("version")?;
    // Ranges instead of slices, so that the head can be cut off the buffer and shared by the values.
    let base = input.as_ptr() as usize;
    let count = parsed.headers.len();
    let mut ranges = [(0_u32, 0_u32, 0_u32, 0_u32); FIELDS_MAX];
    for (range, field) in ranges.iter_mut().zip(parsed.headers.iter()) {
        let name = field.name.as_ptr() as usize - base;
        let value = field.value.as_ptr() as usize - base;
        let at = |offset: usize| u32::try_from(offset).map_err(|_| "head");
        *range = (
            at(name)?,
            at(name + field.name.len())?,
            at(value)?,
            at(value + field.value.len())?,
        );
    }
    let head: Bytes = input.split_to(length).freeze();
    let ranges = &ranges[..count];
    let framing_fields = collect(&head, ranges, status, fields)?;
    let framing = framing_fields.framing(method, status)?;
    let reuse = framing_fields.reuse(minor, framing);
    Ok(Some(Head {
        status,
        framing,
        reuse,
    }))
}

#[derive(Default)]
struct FramingFields {
    content_length: Option<u64>,
    transfer_encoding: Option<TransferEncoding>,
    close: bool,
    keep_alive: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransferEncoding {
    Chunked,
    Other,
}

fn collect(
    head: &Bytes,
    ranges: &[(u32, u32, u32, u32)],
    status: StatusCode,
    fields: &mut HeaderMap,
) -> Result<FramingFields, &'static str> {
    let mut found = FramingFields::default();
    let mut named_by_connection = Vec::new();
    fields.clear();
    fields.reserve(ranges.len() + 4);
    for &(name_from, name_to, value_from, value_to) in ranges {
        let name = HeaderName::from_bytes(&head[name_from as usize..name_to as usize])
            .map_err(|_| "field name")?;
        let value = head.slice(value_from as usize..value_to as usize);
        match name.as_str() {
            "connection" => {
                for token in tokens(&value) {
                    if token.eq_ignore_ascii_case(b"close") {
                        found.close = true;
                    } else if token.eq_ignore_ascii_case(b"keep-alive") {
                        found.keep_alive = true;
                    } else if let Ok(name) = HeaderName::from_bytes(token) {
                        named_by_connection.push(name);
                    }
                }
                continue;
            }
            "transfer-encoding" => {
                let chunked =
                    value.eq_ignore_ascii_case(b"chunked") && found.transfer_encoding.is_none();
                found.transfer_encoding = Some(if chunked {
                    TransferEncoding::Chunked
                } else {
                    TransferEncoding::Other
                });
                continue;
            }
            "content-length" => {
                let length = parse_length(&value).ok_or("Content-Length")?;
                if found.content_length.is_some_and(|other| other != length) {
                    return Err("two lengths");
                }
                if found.content_length.replace(length).is_some() {
                    continue;
                }
            }
            "upgrade" if status == StatusCode::SWITCHING_PROTOCOLS => {}
            other if is_hop_by_hop(other) => continue,
            _ => {}
        }
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| "field value")?;
        fields.append(name, value);
    }
    for name in named_by_connection {
        // The body's end is settled by these; a field that names them is nonsense or an attack.
        if name != header::CONTENT_LENGTH && status != StatusCode::SWITCHING_PROTOCOLS {
            fields.remove(name);
        }
    }
    if found.transfer_encoding.is_some() {
        fields.remove(header::CONTENT_LENGTH);
    }
    Ok(found)
}

impl FramingFields {
    fn framing(&self, method: &Method, status: StatusCode) -> Result<Framing, &'static str> {
        let bodiless = status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if bodiless || method == Method::HEAD {
            return Ok(Framing::Empty);
        }
        Ok(match (self.transfer_encoding, self.content_length) {
            (Some(TransferEncoding::Chunked), _) => Framing::Chunked,
            (Some(TransferEncoding::Other), _) => return Err("Transfer-Encoding"),
            (None, Some(0)) => Framing::Empty,
            (None, Some(length)) => Framing::Length(length),
            (None, None) => Framing::UntilClose,
        })
    }

    fn reuse(&self, minor_version: u8, framing: Framing) -> Reuse {
        let both = self.transfer_encoding.is_some() && self.content_length.is_some();
        let persistent = if minor_version == 0 {
            self.keep_alive && self.transfer_encoding.is_none()
        } else {
            true
        };
        if persistent && !self.close && !both && framing != Framing::UntilClose {
            Reuse::KeepAlive
        } else {
            Reuse::Close
        }
    }
}

/// Digits only: no sign, no list, no space within.
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The members of a comma-separated list.
pub(in crate::proxy) fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(wire: &[u8], method: &Method) -> Result<Option<(Head, HeaderMap)>, &'static str> {
        let mut input = BytesMut::from(wire);
        let mut fields = HeaderMap::new();
        Ok(parse_head(&mut input, method, &mut fields)?.map(|head| (head, fields)))
    }

    fn framing(wire: &[u8]) -> Result<(Framing, Reuse), &'static str> {
        parse(wire, &Method::GET).map(|found| {
            let (head, _) = found.expect("complete");
            (head.framing, head.reuse)
        })
    }

    #[test]
    fn frames_bodies_as_rfc_9112_has_it() {
        use Reuse::{Close, KeepAlive};
        let cases: [(&[u8], (Framing, Reuse)); 8] = [
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
                (Framing::Length(5), KeepAlive),
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                (Framing::Chunked, KeepAlive),
            ),
            (b"HTTP/1.1 200 OK\r\n\r\n", (Framing::UntilClose, Close)),
            (
                b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n",
                (Framing::Empty, KeepAlive),
            ),
            (
                b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
                (Framing::Length(5), Close),
            ),
            (
                b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n",
                (Framing::Length(5), KeepAlive),
            ),
            (
                b"HTTP/1.1 200 OK\r\nConnection: a, Close\r\nContent-Length: 5\r\n\r\n",
                (Framing::Length(5), Close),
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                (Framing::Chunked, Close),
            ),
        ];
        for (wire, expected) in cases {
            assert_eq!(
                framing(wire),
                Ok(expected),
                "{}",
                String::from_utf8_lossy(wire)
            );
        }
        let head = parse(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            &Method::HEAD,
        );
        let (head, fields) = head.unwrap().unwrap();
        assert_eq!(head.framing, Framing::Empty);
        assert_eq!(fields["content-length"], "5");
    }

    #[test]
    fn refuses_answers_that_two_readers_could_frame_differently() {
        for wire in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            b"SSH-2.0-OpenSSH_9\r\n\r\n",
        ] {
            assert!(framing(wire).is_err(), "{}", String::from_utf8_lossy(wire));
        }
        assert!(
            parse(b"HTTP/1.1 200 OK\r\nA: b\r\n", &Method::GET)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn fields_of_the_connection_are_left_out() {
        let wire = b"HTTP/1.1 200 OK\r\nConnection: X-Hop, Content-Length\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\
            Proxy-Connection: a\r\nUpgrade: h2c\r\nX-End: 2\r\nContent-Length: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n";
        let (_, fields) = parse(wire, &Method::GET).unwrap().unwrap();
        let mut names: Vec<_> = fields.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-length", "set-cookie", "x-end"]);
        assert_eq!(fields.get_all("set-cookie").iter().count(), 2);
    }
}
