//! One request and its answer over one connection. Sends while it receives, so that neither side waits for the other's end.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::{HeaderMap, Method, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::AsyncWrite as _;

use super::UpstreamError;
use super::chunked::{Chunked, Piece};
use super::pool::{Link, Pool};
use super::wire::{self, Framing, Reuse};
use crate::config::ProxyLimits;
use crate::proxy::watch::{Awaiting, Upgraded, Watch};

/// Bytes read at once: the least, and the most after answers that filled the buffer.
const READ_BYTES_MIN: usize = 8 * 1024;
const READ_BYTES_MAX: usize = 64 * 1024;
/// Interim answers (1xx) before the answer itself. An origin that sends more is malformed.
const INTERIM_MAX: u32 = 16;

/// What goes to the origin.
#[derive(Debug)]
pub(in crate::proxy) struct Exchange<'a> {
    pub(in crate::proxy) method: &'a Method,
    /// The head as it goes over the wire.
    pub(in crate::proxy) head: Vec<u8>,
    pub(in crate::proxy) framing: Framing,
    /// `None` where the request has none.
    pub(in crate::proxy) body: Option<Incoming>,
    /// Filled with the answer's fields; its content does not matter.
    pub(in crate::proxy) fields: HeaderMap,
    pub(in crate::proxy) upgrade: bool,
}

/// What came back.
#[derive(Debug)]
pub(in crate::proxy) struct Answer {
    pub(in crate::proxy) status: StatusCode,
    pub(in crate::proxy) fields: HeaderMap,
    pub(in crate::proxy) body: AnswerBody,
}

/// The body of an answer.
#[derive(Debug)]
pub(in crate::proxy) enum AnswerBody {
    Empty,
    /// It came together with the head.
    Whole(Bytes),
    Streaming(UpstreamBody),
    /// The connection has changed protocols.
    Upgraded(Upgraded),
}

impl Exchange<'_> {
    /// Sends the request and waits for the answer's head. A request that a kept connection lost before a byte of the answer
    /// came is sent once more over a new one, if it has no body and may be repeated.
    pub(in crate::proxy) async fn run(
        self,
        pool: &Rc<Pool>,
        watch: &Rc<Watch>,
        limits: &ProxyLimits,
    ) -> Result<Answer, UpstreamError> {
        let Exchange {
            method,
            head,
            framing,
            body,
            mut fields,
            upgrade,
        } = self;
        let kept = poll_fn(|cx| Poll::Ready(pool.take(cx))).await;
        let mut link = match kept {
            Some(link) => link,
            None => pool.connect(watch).await?,
        };
        let spare = std::mem::replace(&mut link.output, head);
        pool.keep_spare(spare);
        watch.enter(Awaiting::Response);
        let mut conversation = Conversation {
            link,
            written: 0,
            sending: Sending::new(framing, body, limits.body_bytes_max.unwrap_or(u64::MAX)),
            received: false,
        };
        let head = loop {
            let head = poll_fn(|cx| {
                conversation.poll_head(cx, watch, method, &mut fields, limits, upgrade)
            })
            .await;
            match head {
                Ok(head) => break head,
                Err(UpstreamError::Closed | UpstreamError::Io(_))
                    if conversation.may_repeat(method) =>
                {
                    let mut fresh = pool.connect(watch).await?;
                    std::mem::swap(&mut fresh.output, &mut conversation.link.output);
                    watch.enter(Awaiting::Response);
                    conversation.link = fresh;
                    conversation.written = 0;
                    conversation.sending.failed = false;
                }
                Err(error) => return Err(error),
            }
        };
        Ok(conversation.answer(head, fields, pool, watch))
    }
}

/// The request's way out.
#[derive(Debug)]
struct Sending {
    framing: Framing,
    body: Option<Incoming>,
    /// A piece of the body on its way.
    chunk: Bytes,
    left_to_limit: u64,
    /// Whether a chunk was written before, so that the next size line ends it.
    chunk_open: bool,
    failed: bool,
}

impl Sending {
    fn new(framing: Framing, body: Option<Incoming>, body_bytes_max: u64) -> Self {
        Self {
            framing,
            body,
            chunk: Bytes::new(),
            left_to_limit: body_bytes_max,
            chunk_open: false,
            failed: false,
        }
    }
}

#[derive(Debug)]
struct Conversation {
    link: Box<Link>,
    written: usize,
    sending: Sending,
    /// Whether a byte of the answer has come.
    received: bool,
}

impl Conversation {
    fn may_repeat(&self, method: &Method) -> bool {
        let idempotent = method.is_safe() || matches!(*method, Method::PUT | Method::DELETE);
        self.link.reused && !self.received && idempotent && self.sending.framing == Framing::Empty
    }

    /// Sends until everything is out, or until the origin or the client makes it wait.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        watch: &Watch,
    ) -> Poll<Result<(), UpstreamError>> {
        loop {
            while self.written < self.link.output.len() || !self.sending.chunk.is_empty() {
                if self.sending.failed {
                    return Poll::Ready(Ok(()));
                }
                let written = match ready!(self.poll_write(cx)) {
                    Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                    other => other,
                };
                match written {
                    Ok(count) => self.advance(count),
                    Err(error) => {
                        self.sending.failed = true;
                        return Poll::Ready(Err(UpstreamError::Io(error)));
                    }
                }
            }
            let Some(body) = &mut self.sending.body else {
                return Poll::Ready(Ok(()));
            };
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else {
                watch.want_request_body(true);
                return Poll::Pending;
            };
            watch.want_request_body(false);
            watch.progress();
            match frame {
                Some(Ok(frame)) => self.take_frame(frame, watch)?,
                Some(Err(error)) => {
                    self.sending.body = None;
                    return Poll::Ready(Err(UpstreamError::ClientBody(error)));
                }
                None => self.end_body(watch, None),
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.link.stream);
        let head = &self.link.output[self.written..];
        if self.sending.chunk.is_empty() {
            stream.poll_write(cx, head)
        } else if head.is_empty() {
            stream.poll_write(cx, &self.sending.chunk)
        } else {
            stream.poll_write_vectored(cx, &[IoSlice::new(head), IoSlice::new(&self.sending.chunk)])
        }
    }

    fn advance(&mut self, count: usize) {
        let of_head = count.min(self.link.output.len() - self.written);
        self.written += of_head;
        self.sending.chunk.advance(count - of_head);
    }

    fn take_frame(&mut self, frame: Frame<Bytes>, watch: &Watch) -> Result<(), UpstreamError> {
        let frame = match frame.into_data() {
            Ok(data) => {
                let left = &mut self.sending.left_to_limit;
                *left = left
                    .checked_sub(data.len() as u64)
                    .ok_or(UpstreamError::ClientBodyTooLong)?;
                if !data.is_empty() {
                    if self.sending.framing == Framing::Chunked {
                        self.open_chunk(data.len());
                    }
                    self.sending.chunk = data;
                }
                return Ok(());
            }
            Err(frame) => frame,
        };
        if let Ok(trailers) = frame.into_trailers() {
            self.end_body(watch, Some(&trailers));
        }
        Ok(())
    }

    fn open_chunk(&mut self, length: usize) {
        self.begin_line();
        let line = format!("{length:x}\r\n");
        self.link.output.extend_from_slice(line.as_bytes());
    }

    /// What was written of the buffer makes room; an open chunk is ended.
    fn begin_line(&mut self) {
        if self.written == self.link.output.len() {
            self.link.output.clear();
            self.written = 0;
        }
        if self.sending.chunk_open {
            self.link.output.extend_from_slice(b"\r\n");
        }
        self.sending.chunk_open = true;
    }

    fn end_body(&mut self, watch: &Watch, trailers: Option<&HeaderMap>) {
        self.write_end(trailers);
        self.sending.body = None;
        watch.linger.set(false);
    }

    fn write_end(&mut self, trailers: Option<&HeaderMap>) {
        if self.sending.framing != Framing::Chunked {
            return;
        }
        self.begin_line();
        let output = &mut self.link.output;
        output.extend_from_slice(b"0\r\n");
        for (name, value) in trailers.into_iter().flatten() {
            output.extend_from_slice(name.as_str().as_bytes());
            output.extend_from_slice(b": ");
            output.extend_from_slice(value.as_bytes());
            output.extend_from_slice(b"\r\n");
        }
        output.extend_from_slice(b"\r\n");
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        watch: &Watch,
        method: &Method,
        fields: &mut HeaderMap,
        limits: &ProxyLimits,
        upgrade: bool,
    ) -> Poll<Result<wire::Head, UpstreamError>> {
        if watch.is_expired() {
            return Poll::Ready(Err(if watch.client_is_late() {
                UpstreamError::ClientBodyTimeout
            } else {
                UpstreamError::ResponseTimeout
            }));
        }
        let mut lost = None;
        match self.poll_send(cx, watch) {
            // The origin may have answered before it closed.
            Poll::Ready(Err(UpstreamError::Io(error))) => lost = Some(error),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        let mut interim = 0;
        loop {
            while !self.link.input.is_empty() {
                match wire::parse_head(&mut self.link.input, method, fields) {
                    Ok(Some(head)) if head.status == StatusCode::SWITCHING_PROTOCOLS => {
                        return Poll::Ready(if upgrade {
                            Ok(head)
                        } else {
                            Err(UpstreamError::Malformed(
                                "101 where no upgrade was asked for",
                            ))
                        });
                    }
                    Ok(Some(head)) if head.status.is_informational() => {
                        interim += 1;
                        if interim > INTERIM_MAX {
                            let error = UpstreamError::Malformed("too many interim answers");
                            return Poll::Ready(Err(error));
                        }
                    }
                    Ok(Some(head)) => return Poll::Ready(Ok(head)),
                    Ok(None) if self.link.input.len() > limits.upstream_head_bytes_max => {
                        return Poll::Ready(Err(UpstreamError::Malformed("head too long")));
                    }
                    Ok(None) => break,
                    Err(what) => return Poll::Ready(Err(UpstreamError::Malformed(what))),
                }
            }
            match ready!(self.poll_fill(cx)) {
                Ok(0) => {
                    return Poll::Ready(Err(lost.map_or(UpstreamError::Closed, UpstreamError::Io)));
                }
                Ok(_) => self.received = true,
                Err(error) => return Poll::Ready(Err(UpstreamError::Io(error))),
            }
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let link = &mut *self.link;
        let want = link.read_bytes.max(READ_BYTES_MIN);
        link.input.reserve(want);
        let stream = Pin::new(&mut link.stream);
        let count = ready!(tokio_util::io::poll_read_buf(stream, cx, &mut link.input))?;
        if count >= want {
            link.read_bytes = (want * 4).min(READ_BYTES_MAX);
        }
        Poll::Ready(Ok(count))
    }

    fn answer(
        mut self,
        head: wire::Head,
        fields: HeaderMap,
        pool: &Rc<Pool>,
        watch: &Rc<Watch>,
    ) -> Answer {
        watch.enter(Awaiting::ResponseBody);
        let body = if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let link = self.link;
            AnswerBody::Upgraded(Upgraded {
                stream: link.stream,
                already_read: link.input.freeze(),
            })
        } else {
            match head.framing {
                Framing::Empty => {
                    self.finish(head.reuse, pool);
                    AnswerBody::Empty
                }
                Framing::Length(length) if length <= self.link.input.len() as u64 => {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    let body = self.link.input.split_to(length).freeze();
                    self.finish(head.reuse, pool);
                    AnswerBody::Whole(body)
                }
                framing @ (Framing::Length(_) | Framing::Chunked | Framing::UntilClose) => {
                    AnswerBody::Streaming(UpstreamBody {
                        conversation: Some(self),
                        framing,
                        chunked: Chunked::new(),
                        reuse: head.reuse,
                        pool: Rc::clone(pool),
                        watch: Rc::clone(watch),
                    })
                }
            }
        };
        Answer {
            status: head.status,
            fields,
            body,
        }
    }

    /// Keeps the connection for another request, where nothing of this one is left in it.
    fn finish(self, reuse: Reuse, pool: &Pool) {
        let sent = self.sending.body.is_none()
            && self.sending.chunk.is_empty()
            && self.written == self.link.output.len();
        if reuse == Reuse::KeepAlive && sent && self.link.input.is_empty() {
            pool.put(self.link);
        }
    }
}

/// The rest of an answer's body. Reads from the origin only what the client takes.
#[derive(Debug)]
pub(in crate::proxy) struct UpstreamBody {
    conversation: Option<Conversation>,
    framing: Framing,
    chunked: Chunked,
    reuse: Reuse,
    pool: Rc<Pool>,
    watch: Rc<Watch>,
}

impl UpstreamBody {
    fn finish(&mut self) {
        if let Some(conversation) = self.conversation.take() {
            conversation.finish(self.reuse, &self.pool);
        }
    }

    /// The next piece that has already been received.
    fn take_received(&mut self) -> Option<Result<Option<Frame<Bytes>>, UpstreamError>> {
        let input = &mut self.conversation.as_mut()?.link.input;
        match &mut self.framing {
            Framing::Empty => Some(Ok(None)),
            Framing::Length(_) | Framing::UntilClose if input.is_empty() => None,
            Framing::Length(left) => {
                let here = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(input.len());
                *left -= here as u64;
                let data = input.split_to(here).freeze();
                if *left == 0 {
                    self.finish();
                }
                Some(Ok(Some(Frame::data(data))))
            }
            Framing::UntilClose => Some(Ok(Some(Frame::data(input.split().freeze())))),
            Framing::Chunked => match self.chunked.next(input) {
                Ok(Piece::Data(data)) => Some(Ok(Some(Frame::data(data)))),
                Ok(Piece::Trailers(trailers)) => {
                    self.finish();
                    Some(Ok(Some(Frame::trailers(trailers))))
                }
                Ok(Piece::End) => Some(Ok(None)),
                Ok(Piece::More) => None,
                Err(what) => Some(Err(UpstreamError::Malformed(what))),
            },
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let this = self.get_mut();
        loop {
            match this.take_received() {
                Some(Ok(Some(frame))) => return Poll::Ready(Some(Ok(frame))),
                Some(Ok(None)) => {
                    this.finish();
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    this.conversation = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {}
            }
            let Some(conversation) = &mut this.conversation else {
                return Poll::Ready(None);
            };
            // An origin that has answered may not care for the rest of the request: its failure is not the answer's.
            if let Poll::Ready(Err(error)) = conversation.poll_send(cx, &this.watch) {
                log::trace!("the rest of the request: {error}");
            }
            let filled = ready!(conversation.poll_fill(cx));
            this.watch.progress();
            match filled {
                Ok(0) if this.framing == Framing::UntilClose => {
                    this.conversation = None;
                    return Poll::Ready(None);
                }
                Ok(0) => {
                    this.conversation = None;
                    return Poll::Ready(Some(Err(UpstreamError::Closed)));
                }
                Ok(_) => {}
                Err(error) => {
                    this.conversation = None;
                    return Poll::Ready(Some(Err(UpstreamError::Io(error))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.conversation.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Length(left) => SizeHint::with_exact(left),
            Framing::Empty => SizeHint::with_exact(0),
            Framing::Chunked | Framing::UntilClose => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

    async fn get(pool: &Rc<Pool>) -> StatusCode {
        let mut head = pool.buffer();
        head.extend_from_slice(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        let exchange = Exchange {
            method: &Method::GET,
            head,
            framing: Framing::Empty,
            body: None,
            fields: HeaderMap::new(),
            upgrade: false,
        };
        let watch = Rc::new(Watch::new());
        let answer = exchange.run(pool, &watch, &ProxyLimits::default()).await;
        answer.unwrap().status
    }

    /// The origin resets a kept connection in the instant in which it is taken again: the write itself fails, before the
    /// reset is known as an event.
    #[test]
    fn a_request_that_a_reset_connection_refused_is_sent_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let pool = Rc::new(Pool::new(origin.parse().unwrap(), &ProxyLimits::default()));
            let serving = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _: usize = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(ANSWER).unwrap();
                (listener, stream)
            });
            assert_eq!(get(&pool).await, StatusCode::NO_CONTENT);
            let (listener, stream) = serving.join().unwrap();
            // Closing with a zero linger time resets; loopback delivers it before this returns.
            socket2::SockRef::from(&stream)
                .set_linger(Some(std::time::Duration::ZERO))
                .unwrap();
            drop(stream);
            let serving = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _: usize = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(ANSWER).unwrap();
            });
            let again = tokio::time::timeout(std::time::Duration::from_secs(20), get(&pool)).await;
            assert_eq!(again.expect("an answer"), StatusCode::NO_CONTENT);
            serving.join().unwrap();
        });
    }
}
