//! The client's socket as HTTP sees it: every byte and every stall is noted in the connection's [`Watch`].

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::watch::Watch;

/// A client's socket.
#[derive(Debug)]
pub(super) struct ClientIo {
    pub(super) stream: TcpStream,
    /// What was read before; it comes first.
    before: Bytes,
    watch: Rc<Watch>,
}

impl ClientIo {
    pub(super) fn new(stream: TcpStream, before: Bytes, watch: Rc<Watch>) -> Self {
        Self {
            stream,
            before,
            watch,
        }
    }

    fn noted(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.watch.client_write(result.is_pending());
        result
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.before.is_empty() {
            let count = self.before.len().min(buf.remaining());
            let bytes = self.before.split_to(count);
            self.watch.client_sent(&bytes);
            buf.put_slice(&bytes);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if result.is_ready() {
            self.watch.client_sent(&buf.filled()[before..]);
        }
        result
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.noted(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.noted(result)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.watch.keep_socket.get() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
