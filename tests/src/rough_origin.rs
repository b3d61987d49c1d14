//! An origin that misbehaves on purpose, which no real server can be told to do. For everything else there is
//! [`crate::Nginx`].

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A peer that is silent for this long is given up.
const SILENCE: Duration = Duration::from_secs(30);

/// Listens until dropped, and hands every connection to a script in a thread of its own.
#[derive(Debug)]
pub struct RoughOrigin {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// One connection, seen from the origin.
#[derive(Debug)]
pub struct Exchange {
    reader: BufReader<TcpStream>,
}

impl Exchange {
    /// Reads a request's head: the request line and the fields as they came, in lower case. `None` at the end.
    pub fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            let read = self.reader.read_line(&mut line).ok()?;
            if read == 0 {
                return None;
            }
            if line == "\r\n" {
                return Some(head.to_lowercase());
            }
            head.push_str(&line);
        }
    }

    /// Sends bytes; a peer that is gone does not matter here.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.reader.get_mut().write_all(bytes).is_ok()
    }

    /// Answers 200 with this body and keeps the connection.
    pub fn answer(&mut self, body: &str) -> bool {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(answer.as_bytes())
    }

    /// Everything below the head, for scripts that read bodies.
    pub fn reader(&mut self) -> &mut BufReader<TcpStream> {
        &mut self.reader
    }

    /// Closes both ways at once.
    pub fn close(self) {
        // A peer that is gone already is as good.
        self.reader
            .get_ref()
            .shutdown(Shutdown::Both)
            .unwrap_or_default();
    }
}

impl RoughOrigin {
    /// Starts one that runs `script` for each connection, with its number from 0.
    ///
    /// # Panics
    /// Where the machine gives no port.
    pub fn start(script: impl Fn(Exchange, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let stopping = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let script = Arc::new(script);
        let thread = thread::spawn({
            let (stopping, connections) = (Arc::clone(&stopping), Arc::clone(&connections));
            move || {
                while let Ok((stream, _)) = listener.accept() {
                    if stopping.load(Ordering::SeqCst) {
                        return;
                    }
                    let number = connections.fetch_add(1, Ordering::SeqCst);
                    let script = Arc::clone(&script);
                    thread::spawn(move || {
                        if stream.set_read_timeout(Some(SILENCE)).is_ok() {
                            let reader = BufReader::new(stream);
                            script(Exchange { reader }, number);
                        }
                    });
                }
            }
        });
        Self {
            address,
            stopping,
            connections,
            thread: Some(thread),
        }
    }

    /// As the gate's `--origin` wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for RoughOrigin {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread, which then ends.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
