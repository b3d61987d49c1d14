//! As much HTTP/1.1 as the demo's shop and its visitors need: heads, and bodies of a stated length. Bounded, and no more.

use std::io::{self, BufRead, Read, Write};

/// Longest head line.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// Most head lines.
const LINES_MAX: usize = 200;
/// Longest body.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A request's or response's head and body.
#[derive(Debug)]
pub(super) struct Message {
    /// The first line's words.
    pub(super) first: Vec<String>,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    /// Empty where no length is stated.
    pub(super) body: Vec<u8>,
}

impl Message {
    /// Reads one message. `None` where the peer closed before it began.
    pub(super) fn read(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(first) = line(stream)? else {
            return Ok(None);
        };
        let mut message = Self {
            first: first.split(' ').map(str::to_owned).collect(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let next = line(stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if next.is_empty() {
                break;
            }
            let (name, value) = next.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
            let pair = (name.to_ascii_lowercase(), value.trim().to_owned());
            message.headers.push(pair);
            if message.headers.len() > LINES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let length = message
            .all("content-length")
            .next()
            .map(|length| length.parse().map_err(|_| io::ErrorKind::InvalidData))
            .transpose()?;
        let chunked = message
            .all("transfer-encoding")
            .any(|value| value.eq_ignore_ascii_case("chunked"));
        if chunked {
            message.body = chunks(stream)?;
        } else if let Some(length) = length {
            message.body = exactly(stream, length)?;
        }
        Ok(Some(message))
    }

    /// Every value of a header, by its name in lower case.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// A cookie that a request brings.
    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        self.all("cookie")
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }
}

fn line(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    let text = String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Some(text))
}

fn exactly(stream: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    if length > BODY_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn chunks(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = size.split(';').next().unwrap_or("").trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        body.extend(exactly(stream, size)?);
        line(stream)?;
        if size == 0 || body.len() > BODY_BYTES_MAX {
            return Ok(body);
        }
    }
}

/// Writes a response with a body.
pub(super) fn respond(
    stream: &mut impl Write,
    status: &str,
    headers: &[(&str, String)],
    body: &str,
) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(body);
    stream.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_request_and_its_cookies() {
        let mut bytes =
            &b"GET /drop HTTP/1.1\r\nHost: a\r\nCookie: a=1; shop=7\r\n\r\nGET / HTTP/1.1\r\n\r\n"
                [..];
        let message = Message::read(&mut bytes).unwrap().unwrap();
        assert_eq!(message.first[1], "/drop");
        assert_eq!(message.cookie("shop"), Some("7"));
        assert!(Message::read(&mut bytes).unwrap().is_some());
        assert!(Message::read(&mut bytes).unwrap().is_none());
    }

    #[test]
    fn reads_chunks() {
        let mut bytes =
            &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"[..];
        let message = Message::read(&mut bytes).unwrap().unwrap();
        assert_eq!(message.body, b"abc");
    }

    #[test]
    fn nonsense_is_an_error() {
        for nonsense in ["GET / HTTP/1.1", "GET / HTTP/1.1\r\nno colon\r\n\r\n"] {
            let mut bytes = nonsense.as_bytes();
            assert!(Message::read(&mut bytes).is_err(), "{nonsense:?}");
        }
    }
}
