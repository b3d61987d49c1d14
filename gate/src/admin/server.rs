//! The admin endpoint's own small server, on a thread of its own: a slow operator never waits for visitors, nor they for him.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, oneshot};

use super::metrics;
use super::preview;
use super::status::{self, Report};
use crate::config::Config;

/// Connections at a time. Others wait to be accepted.
const CONNECTIONS_MAX: usize = 64;
/// A head must have come within this time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What there is to see. Called for each request, on the admin thread.
pub trait View: Send + Sync + 'static {
    fn report(&self) -> Report;
    /// The configuration in force.
    fn config(&self) -> Arc<Config>;
}

/// The running endpoint.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl AdminServer {
    /// Binds and serves.
    ///
    /// # Errors
    /// The address cannot be bound, or the system gives no thread.
    pub fn start(address: SocketAddr, view: Arc<dyn View>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("gate-admin".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        served = accept(listener, view) => {
                            if let Err(error) = served {
                                log::error!("admin endpoint: {error}");
                            }
                        }
                        // A dropped sender stops it as well.
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            address,
            stop,
            thread,
        })
    }

    /// Where it listens; the port is the real one where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it, open connections included.
    pub fn stop(self) {
        drop(self.stop);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

async fn accept(listener: TcpListener, view: Arc<dyn View>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Never closed.
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
            return Ok(());
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                log::warn!("admin endpoint: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let view = Arc::clone(&view);
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let response = answer(&request, &*view);
                async { Ok::<_, Infallible>(response) }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), answer)
                .await;
            if let Err(error) = served {
                log::debug!("admin endpoint: {error}");
            }
            drop(seat);
        });
    }
}

fn answer(request: &Request<Incoming>, view: &dyn View) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET only\n");
        refused
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/status" => text(
            StatusCode::OK,
            "application/json",
            status::json(&view.report()),
        ),
        "/metrics" => text(
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            metrics::text(&view.report()),
        ),
        "/preview" => previewed(request.uri().query().unwrap_or_default(), view),
        "/health" => text(StatusCode::OK, "text/plain", "ok\n"),
        _ => text(
            StatusCode::NOT_FOUND,
            "text/plain",
            "/status, /metrics, /preview or /health\n",
        ),
    }
}

fn previewed(query: &str, view: &dyn View) -> Response<Full<Bytes>> {
    match preview::page(query, &view.config()) {
        Ok(page) => {
            let mut response = text(StatusCode::OK, "text/html; charset=utf-8", page);
            // A room's page runs its scripts, but not as one of this endpoint's.
            response.headers_mut().insert(
                header::CONTENT_SECURITY_POLICY,
                HeaderValue::from_static("sandbox allow-scripts"),
            );
            response
        }
        Err(error) => text(
            StatusCode::BAD_REQUEST,
            "text/plain; charset=utf-8",
            format!("{error}\n"),
        ),
    }
}

fn text(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    struct Shown;

    impl View for Shown {
        fn report(&self) -> Report {
            super::super::status::tests::report()
        }

        fn config(&self) -> Arc<Config> {
            Arc::new(preview::tests::config())
        }
    }

    fn get(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn answers_its_paths_and_nothing_else() {
        let server = AdminServer::start("127.0.0.1:0".parse().unwrap(), Arc::new(Shown)).unwrap();
        for (line, status, part) in [
            ("GET /status", "200", "\"active_users\":5"),
            ("GET /metrics", "200", "gate_active_users{room=\"shop\"} 5"),
            ("GET /health", "200", "ok"),
            ("GET /preview?room=shop", "200", "sandbox allow-scripts"),
            (
                "GET /preview?room=other",
                "400",
                "must be one of shop, quiet",
            ),
            ("GET /other", "404", "/status"),
            ("POST /status", "405", "GET only"),
        ] {
            let answer = get(
                server.address(),
                &format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"),
            );
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
            assert!(answer.contains(part), "{answer}");
        }
        server.stop();
    }
}
