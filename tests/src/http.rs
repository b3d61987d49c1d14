//! A tiny HTTP/1.1 client over plain sockets: what it sends is what the test wrote, byte for byte, so that it can also
//! misbehave. Follows no redirect and decodes no content.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A peer that says nothing for this long has failed the test.
const SILENCE: Duration = Duration::from_secs(30);

/// A response's head and body.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// The whole body, chunks joined.
    pub body: Vec<u8>,
}

impl Response {
    /// The first value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Every value of a header, by its name in lower case.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// Where it is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }

    /// The `position` member of a waiting answer; `None` where it is null.
    ///
    /// # Panics
    /// Where the body is no such answer.
    #[track_caller]
    pub fn position(&self) -> Option<u64> {
        let json = self.json();
        json.get("position")
            .unwrap_or_else(|| panic!("no position: {json}"))
            .as_u64()
    }
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// As the socket says.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, SILENCE)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// As the socket says.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads one response to a request that was not `HEAD`.
    ///
    /// # Errors
    /// As the socket says; `UnexpectedEof` where it closes early, `InvalidData` where what comes is no HTTP.
    pub fn receive(&mut self) -> io::Result<Response> {
        self.receive_to("GET")
    }

    /// Reads one response to a request of this method.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_to(&mut self, method: &str) -> io::Result<Response> {
        loop {
            let (status, headers) = self.head()?;
            if (100..200).contains(&status) && status != 101 {
                continue;
            }
            let bodiless = method == "HEAD" || matches!(status, 101 | 204 | 304);
            let mut response = Response {
                status,
                headers,
                body: Vec::new(),
            };
            if !bodiless {
                response.body = self.body(&response)?;
            }
            return Ok(response);
        }
    }

    /// Whether the peer has closed: waits for it, as long as it may take to notice.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Reads what is there, buffered bytes first: for what follows an upgrade.
    ///
    /// # Errors
    /// As the socket says.
    pub fn read_some(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.read(bytes)
    }

    /// The socket below, for half-closing and timeouts.
    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    fn head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let first = self.line()?;
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| invalid(format!("no status line: {first:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok((status, headers));
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| invalid(format!("no header: {line:?}")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn body(&mut self, response: &Response) -> io::Result<Vec<u8>> {
        if response
            .header("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
        {
            return self.chunks();
        }
        let mut body = Vec::new();
        match response.header("content-length") {
            Some(length) => {
                let length: usize = length
                    .parse()
                    .map_err(|_| invalid(format!("content-length {length:?}")))?;
                body.resize(length, 0);
                self.stream.read_exact(&mut body)?;
            }
            None => {
                self.stream.read_to_end(&mut body)?;
            }
        }
        Ok(body)
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or("").trim();
            let size = usize::from_str_radix(size, 16)
                .map_err(|_| invalid(format!("no chunk size: {line:?}")))?;
            let begin = body.len();
            body.resize(begin + size, 0);
            self.stream.read_exact(&mut body[begin..])?;
            let end = self.line()?;
            if size == 0 {
                return Ok(body);
            }
            if !end.is_empty() {
                return Err(invalid(format!("after a chunk: {end:?}")));
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).map_err(|_| invalid("not UTF-8".to_owned()))
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A visitor: an address to ask, a host to ask for, and a cookie jar. Each request takes a connection of its own.
#[derive(Clone, Debug)]
pub struct Visitor {
    address: SocketAddr,
    host: String,
    accept: &'static str,
    headers: Vec<(String, String)>,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    /// A browser without cookies.
    pub fn new(address: SocketAddr, host: &str) -> Self {
        Self {
            address,
            host: host.to_owned(),
            accept: "text/html",
            headers: Vec::new(),
            cookies: BTreeMap::new(),
        }
    }

    /// The same, asking for JSON.
    #[must_use]
    pub fn json(mut self) -> Self {
        self.accept = "application/json";
        self
    }

    /// The same, with a header on each request.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The jar.
    pub fn cookies(&self) -> &BTreeMap<String, String> {
        &self.cookies
    }

    /// The jar, to tamper with.
    pub fn cookies_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.cookies
    }

    /// Asks for a path and keeps the cookies of the answer.
    ///
    /// # Panics
    /// Where there is no answer.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, b"")
            .unwrap_or_else(|error| panic!("GET {path} of {}: {error}", self.host))
    }

    /// Sends any request and keeps the cookies of the answer.
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub fn request(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Response> {
        let mut connection = Connection::open(self.address)?;
        let mut bytes = self.head(method, path, body.len()).into_bytes();
        bytes.extend_from_slice(body);
        connection.send(&bytes)?;
        let response = connection.receive_to(method)?;
        self.keep(&response);
        Ok(response)
    }

    /// The head of a request as this visitor sends it, to send by hand.
    pub fn head(&self, method: &str, path: &str, body_bytes: usize) -> String {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAccept: {}\r\nConnection: close\r\n",
            self.host, self.accept
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.cookies.is_empty() {
            let pairs: Vec<String> = self
                .cookies
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            head.push_str(&format!("Cookie: {}\r\n", pairs.join("; ")));
        }
        if body_bytes > 0 {
            head.push_str(&format!("Content-Length: {body_bytes}\r\n"));
        }
        head.push_str("\r\n");
        head
    }

    /// Puts the cookies of an answer into the jar, and takes out what it expires.
    pub fn keep(&mut self, response: &Response) {
        for set in response.all("set-cookie") {
            let mut parts = set.split(';');
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            let expired = parts.any(|part| part.trim().eq_ignore_ascii_case("max-age=0"));
            if expired {
                self.cookies.remove(name.trim());
            } else {
                self.cookies
                    .insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answer(bytes: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                seen.push(byte[0]);
            }
            stream.write_all(bytes).unwrap();
        });
        address
    }

    #[test]
    fn reads_chunks_and_keeps_cookies() {
        let address = answer(
            b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nSet-Cookie: b=; Max-Age=0\r\n\
              Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
        );
        let mut visitor = Visitor::new(address, "shop.test");
        visitor.cookies_mut().insert("b".into(), "2".into());
        let response = visitor.get("/");
        assert_eq!(response.text(), "abcde");
        assert_eq!(visitor.cookies().get("a").map(String::as_str), Some("1"));
        assert!(!visitor.cookies().contains_key("b"));
    }

    #[test]
    fn an_early_end_is_an_error() {
        let address = answer(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
        let mut visitor = Visitor::new(address, "shop.test");
        let error = visitor.request("GET", "/", b"").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
