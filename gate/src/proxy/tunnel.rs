//! Connections that have left HTTP (WebSocket): bytes both ways until one side ends or both are silent for too long.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

/// Bytes held in each direction.
const BUFFER_BYTES: usize = 8 * 1024;

/// A socket that notes when something moves.
struct Noted {
    stream: TcpStream,
    moved: Rc<Cell<bool>>,
}

impl AsyncRead for Noted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if result.is_ready() {
            self.moved.set(true);
        }
        result
    }
}

impl AsyncWrite for Noted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        if result.is_ready() {
            self.moved.set(true);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Copies between the two until both have ended, one fails, nothing moves for `idle_timeout`, or `is_stopping` says so.
/// `from_client` and `from_origin` were read already.
pub(super) async fn run(
    client: TcpStream,
    from_client: Bytes,
    origin: TcpStream,
    from_origin: Bytes,
    idle_timeout: Duration,
    is_stopping: impl Fn() -> bool,
) -> io::Result<()> {
    let moved = Rc::new(Cell::new(false));
    let noted = |stream| Noted {
        stream,
        moved: Rc::clone(&moved),
    };
    let (mut client, mut origin) = (noted(client), noted(origin));
    let copying = async {
        origin.write_all(&from_client).await?;
        client.write_all(&from_origin).await?;
        tokio::io::copy_bidirectional_with_sizes(
            &mut client,
            &mut origin,
            BUFFER_BYTES,
            BUFFER_BYTES,
        )
        .await
    };
    let mut copying = pin!(copying);
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut silent_seconds = 0;
    poll_fn(|cx| {
        while second.poll_tick(cx).is_ready() {
            silent_seconds = if moved.take() { 0 } else { silent_seconds + 1 };
            if silent_seconds > idle_timeout.as_secs() || is_stopping() {
                return Poll::Ready(Ok(()));
            }
        }
        copying.as_mut().poll(cx).map_ok(|_| ())
    })
    .await
}
