//! The few requests the benchmark itself makes: to learn what a subject answers and to collect cookies. Not a client for
//! anything else: HTTP/1.1 in the clear, `Content-Length` or chunked, one request at a time on one connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const TIMEOUT: Duration = Duration::from_secs(10);

/// An answer as it came over the wire.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Head and body, chunk framing included.
    pub bytes_total: usize,
}

impl Answer {
    /// The first header of this name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// `name=value` of the first cookie set.
    pub(super) fn cookie(&self) -> Option<&str> {
        self.header("set-cookie")?.split(';').next()
    }
}

/// One kept-alive connection.
#[derive(Debug)]
pub(super) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// # Errors
    ///
    /// Where the address does not accept.
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        Self::connect_within(address, TIMEOUT)
    }

    /// The same with another limit for the connection and for each answer.
    ///
    /// # Errors
    ///
    /// Where the address does not accept in time.
    pub(super) fn connect_within(address: SocketAddr, timeout: Duration) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Asks for `path` with these headers and reads the whole answer.
    ///
    /// # Errors
    ///
    /// Where the connection breaks or the answer is not HTTP/1.1 of the expected kind.
    pub(super) fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        let mut request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        self.stream.get_mut().write_all(request.as_bytes())?;

        let mut bytes_total = 0;
        let start = self.line(&mut bytes_total)?;
        let status = start
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .with_context(|| format!("not an HTTP status line: {start:?}"))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line(&mut bytes_total)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line
                .split_once(':')
                .with_context(|| format!("not a header: {line:?}"))?;
            headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        let mut answer = Answer {
            status,
            headers,
            body: Vec::new(),
            bytes_total,
        };
        self.read_body(&mut answer)?;
        Ok(answer)
    }

    fn read_body(&mut self, answer: &mut Answer) -> Result<()> {
        if answer.status == 204 {
            return Ok(());
        }
        if let Some(length) = answer.header("content-length") {
            let length = length.parse().context("content-length is not a number")?;
            answer.body = self.exactly(length)?;
            answer.bytes_total += length;
        } else if answer.header("transfer-encoding").is_some() {
            loop {
                let line = self.line(&mut answer.bytes_total)?;
                let size = usize::from_str_radix(line.trim(), 16).context("bad chunk size")?;
                answer.body.extend(self.exactly(size)?);
                answer.bytes_total += size;
                self.line(&mut answer.bytes_total)?;
                if size == 0 {
                    break;
                }
            }
        } else {
            bail!("an answer without a length");
        }
        Ok(())
    }

    fn line(&mut self, bytes_total: &mut usize) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            bail!("the connection was closed instead of an answer");
        }
        *bytes_total += line.len();
        Ok(line.trim_end().to_owned())
    }

    fn exactly(&mut self, bytes: usize) -> Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.stream.read_exact(&mut buffer)?;
        Ok(buffer)
    }
}

/// One request on a connection of its own.
///
/// # Errors
///
/// As [`Client::get`].
pub(super) fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
    Client::connect(address)?.get(path, headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn counts_every_byte_of_lengths_and_chunks() {
        let first = "HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 3\r\n\r\nabc";
        let second = "HTTP/1.1 429 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in [first, second] {
                let mut request = [0; 1024];
                assert!(stream.read(&mut request).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let mut client = Client::connect(address).unwrap();
        let answer = client.get("/", &[]).unwrap();
        assert_eq!((answer.status, answer.bytes_total), (200, first.len()));
        assert_eq!(
            (answer.cookie(), answer.body.as_slice()),
            (Some("a=b"), b"abc".as_slice())
        );
        let answer = client.get("/", &[]).unwrap();
        assert_eq!((answer.status, answer.bytes_total), (429, second.len()));
        server.join().unwrap();
    }
}
