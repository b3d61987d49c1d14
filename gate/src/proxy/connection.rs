//! The life of one client connection: HTTP while requests come, parked without buffers while none does, a tunnel once it has
//! been upgraded.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::check_in::{self, CheckIns};
use super::client_io::ClientIo;
use super::gate::{Core, Seat};
use super::watch::{Upgraded, Verdict, Watch};
use super::{service, tunnel};

const TICK: Duration = Duration::from_secs(1);
/// What is read and thrown away before a connection is closed under a client that still sends, and for how long.
const LINGER_BYTES_MAX: usize = 1024 * 1024;
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Why HTTP ended on a connection.
enum End {
    Close,
    /// Close, but let the client read our answer first.
    Linger(TcpStream),
    Park(TcpStream),
    Tunnel {
        client: TcpStream,
        from_client: Bytes,
        upgraded: Upgraded,
    },
}

/// What follows the check-ins of a connection.
enum Phase {
    Over,
    Idle,
    /// A request for all of HTTP, which begins with these bytes.
    Http(Bytes),
}

/// Serves a connection to its end.
pub(super) async fn serve(core: Rc<Core>, mut stream: TcpStream, peer: SocketAddr, seat: Seat) {
    loop {
        // In a box of its own, so that a parked connection keeps none of it.
        match Box::pin(http(&core, stream, peer)).await {
            End::Close => break,
            End::Linger(stream) => {
                Box::pin(linger(stream)).await;
                break;
            }
            End::Park(parked) => {
                if !has_request(&core, &parked).await {
                    break;
                }
                stream = parked;
            }
            End::Tunnel {
                client,
                from_client,
                upgraded,
            } => {
                let seconds = core.local().limits().tunnel_idle_timeout_seconds;
                let idle = Duration::from_secs(u64::from(seconds));
                let tunnel = tunnel::run(
                    client,
                    from_client,
                    upgraded.stream,
                    upgraded.already_read,
                    idle,
                    || core.gate.is_stopping(),
                );
                if let Err(error) = Box::pin(tunnel).await {
                    log::debug!("{peer}: upgraded connection: {error}");
                }
                break;
            }
        }
    }
    drop(seat);
}

async fn http(core: &Rc<Core>, stream: TcpStream, peer: SocketAddr) -> End {
    let watch = Rc::new(Watch::new());
    let sender = Rc::new(core.local().sender(peer.ip()));
    let mut second = pin!(sleep(TICK));
    let mut check_ins = CheckIns::new(stream);
    let ended = poll_fn(|cx| {
        while second.as_mut().poll(cx).is_ready() {
            second.as_mut().reset(Instant::now() + TICK);
            let is_idle = check_ins.is_idle();
            if is_idle && core.gate.is_stopping() {
                return Poll::Ready(Phase::Over);
            }
            match watch.tick(core.local().limits()) {
                Verdict::Park if is_idle => return Poll::Ready(Phase::Idle),
                Verdict::Keep | Verdict::Expired | Verdict::Park => {}
                Verdict::Cut(reason) => {
                    log::debug!("{peer}: disconnected: {reason}");
                    return Poll::Ready(Phase::Over);
                }
            }
        }
        check_ins
            .poll(cx, core, &watch, &sender)
            .map(|ended| match ended {
                check_in::Ended::Closed => Phase::Over,
                check_in::Ended::HandOver(bytes) => Phase::Http(bytes),
            })
    })
    .await;
    let stream = check_ins.stream;
    let before = match ended {
        Phase::Over => return End::Close,
        Phase::Idle => return End::Park(stream),
        Phase::Http(bytes) => bytes,
    };
    let io = TokioIo::new(ClientIo::new(stream, before, Rc::clone(&watch)));
    let service = service_fn(|request: http::Request<Incoming>| {
        let answer = service::answer(
            Rc::clone(core),
            Rc::clone(&watch),
            Rc::clone(&sender),
            request,
        );
        async { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection = core.local().http.serve_connection(io, service);
    let ended = poll_fn(|cx| {
        while second.as_mut().poll(cx).is_ready() {
            second.as_mut().reset(Instant::now() + TICK);
            if core.gate.is_stopping() {
                Pin::new(&mut connection).graceful_shutdown();
            }
            match watch.tick(core.local().limits()) {
                Verdict::Keep | Verdict::Expired => {}
                Verdict::Park => {
                    watch.keep_socket.set(true);
                    Pin::new(&mut connection).graceful_shutdown();
                }
                Verdict::Cut(reason) => {
                    log::debug!("{peer}: disconnected: {reason}");
                    return Poll::Ready(None);
                }
            }
        }
        Pin::new(&mut connection).poll(cx).map(Some)
    })
    .await;
    let Some(result) = ended else {
        return End::Close;
    };
    let parts = connection.into_parts();
    let stream = parts.io.into_inner().stream;
    if let Some(upgraded) = watch.upgraded.take() {
        return End::Tunnel {
            client: stream,
            from_client: parts.read_buf,
            upgraded,
        };
    }
    match result {
        Ok(()) if watch.linger.get() => End::Linger(stream),
        Ok(())
            if watch.keep_socket.get() && parts.read_buf.is_empty() && !core.gate.is_stopping() =>
        {
            End::Park(stream)
        }
        Ok(()) => End::Close,
        Err(error) => {
            log::debug!("{peer}: {error}");
            // The parser has answered, and the client may still be sending what it did not like.
            if error.is_parse() {
                End::Linger(stream)
            } else {
                End::Close
            }
        }
    }
}

/// Waits for the next request on an idle connection. `false` when it is to be closed: by its client, after `idle_timeout`,
/// to make room for another, or because the gate stops.
async fn has_request(core: &Core, stream: &TcpStream) -> bool {
    let idle = Duration::from_secs(u64::from(core.local().limits().idle_timeout_seconds));
    let until = Instant::now() + idle.saturating_sub(TICK);
    tokio::select! {
        biased;
        readable = stream.readable() => {
            readable.is_ok()
        }
        () = core.parked.notified() => false,
        () = sleep_until(until) => false,
    }
}

/// Closes in a way that lets the client read what was sent: unread input would make the kernel destroy it.
async fn linger(mut stream: TcpStream) {
    let draining = async {
        stream.shutdown().await?;
        let mut left = LINGER_BYTES_MAX;
        let mut buffer = [0; 4096];
        loop {
            let count = stream.read(&mut buffer).await?;
            if count == 0 || count >= left {
                return Ok::<(), std::io::Error>(());
            }
            left -= count;
        }
    };
    if let Ok(Err(error)) = timeout(LINGER_TIMEOUT, draining).await {
        log::trace!("while closing: {error}");
    }
}
