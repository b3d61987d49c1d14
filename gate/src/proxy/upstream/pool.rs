//! Connections to one origin, kept by one thread. Opens, lends and keeps them; does not speak HTTP.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::net::TcpStream;

use super::UpstreamError;
use crate::config::Origin;
use crate::config::ProxyLimits;
use crate::proxy::watch::{Awaiting, Watch};

/// How long an answer of the resolver is used.
const RESOLVED_SECONDS: u32 = 10;
/// A connection that read more at once gives its buffer back before it is kept.
const KEPT_BUFFER_BYTES_MAX: usize = 16 * 1024;

/// One connection, with the buffers that go with it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: TcpStream,
    pub(super) input: BytesMut,
    pub(super) output: Vec<u8>,
    /// Bytes to read at once, as the last answers suggest.
    pub(super) read_bytes: usize,
    /// Whether it has served a request before: only then may a failure be the origin's idle timeout.
    pub(super) reused: bool,
    kept_at_seconds: u32,
}

/// The origin's connections of one thread.
pub(in crate::proxy) struct Pool {
    origin: Origin,
    /// The origin as `Host` names it.
    authority: Box<str>,
    /// The latest used last. Boxed, because a link moves between here and the exchanges, never copied.
    #[expect(clippy::vec_box, reason = "a link moves in and out by its pointer")]
    idle: RefCell<Vec<Box<Link>>>,
    resolved: RefCell<Option<(u32, Vec<SocketAddr>)>>,
    seconds: Cell<u32>,
    next_address: Cell<usize>,
    idle_max: Cell<usize>,
    /// A buffer for the next request's head.
    spare: Cell<Vec<u8>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Pool {
    pub(in crate::proxy) fn new(origin: Origin, limits: &ProxyLimits) -> Self {
        let authority = origin.to_string();
        let authority = authority.strip_prefix("http://").unwrap_or(&authority);
        Self {
            authority: authority.into(),
            origin,
            idle: RefCell::new(Vec::new()),
            resolved: RefCell::new(None),
            seconds: Cell::new(0),
            next_address: Cell::new(0),
            idle_max: Cell::new(limits.upstream_idle_connections_max),
            spare: Cell::new(Vec::new()),
        }
    }

    pub(in crate::proxy) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What a request that names no host is for.
    pub(in crate::proxy) fn authority(&self) -> &str {
        &self.authority
    }

    /// An empty buffer for a request head.
    pub(in crate::proxy) fn buffer(&self) -> Vec<u8> {
        self.spare.take()
    }

    pub(super) fn keep_spare(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare.set(buffer);
    }

    /// To be called once a second: closes what nobody used for too long.
    pub(in crate::proxy) fn tick(&self, limits: &ProxyLimits) {
        let now = self.seconds.get().wrapping_add(1);
        self.seconds.set(now);
        self.idle_max.set(limits.upstream_idle_connections_max);
        let mut idle = self.idle.borrow_mut();
        let old = idle
            .iter()
            .take_while(|link| {
                let unused = now.wrapping_sub(link.kept_at_seconds);
                u64::from(unused) > u64::from(limits.upstream_idle_timeout_seconds)
            })
            .count();
        idle.drain(..old);
        if idle.is_empty() {
            idle.shrink_to_fit();
        }
    }

    /// A kept connection that the origin has not closed, as far as is known.
    pub(super) fn take(&self, cx: &mut Context<'_>) -> Option<Box<Link>> {
        loop {
            let link = self.idle.borrow_mut().pop()?;
            let quiet = match link.stream.poll_read_ready(cx) {
                Poll::Pending => true,
                Poll::Ready(_) => {
                    let read = link.stream.try_read(&mut [0]);
                    matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
                }
            };
            if quiet {
                return Some(link);
            }
        }
    }

    pub(super) fn put(&self, mut link: Box<Link>) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.idle_max.get() {
            return;
        }
        link.reused = true;
        link.kept_at_seconds = self.seconds.get();
        if link.input.capacity() > KEPT_BUFFER_BYTES_MAX {
            link.input = BytesMut::new();
        }
        link.output.clear();
        link.output.shrink_to(KEPT_BUFFER_BYTES_MAX);
        idle.push(link);
    }

    /// Opens a connection within `upstream_connect_timeout`.
    pub(super) async fn connect(&self, watch: &Watch) -> Result<Box<Link>, UpstreamError> {
        watch.enter(Awaiting::Connect);
        let opening = async {
            let addresses = self.resolve().await?;
            let mut last = None;
            // The next start is another address, so that a set of origins shares the load.
            let start = self.next_address.get();
            self.next_address.set(start.wrapping_add(1));
            for at in 0..addresses.len() {
                let address = addresses[(start.wrapping_add(at)) % addresses.len()];
                match TcpStream::connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.map_or_else(
                || UpstreamError::Resolve(io::ErrorKind::NotFound.into()),
                UpstreamError::Connect,
            ))
        };
        let stream = unless_expired(watch, opening, || UpstreamError::ConnectTimeout).await?;
        stream.set_nodelay(true).map_err(UpstreamError::Connect)?;
        Ok(Box::new(Link {
            stream,
            input: BytesMut::new(),
            output: Vec::new(),
            read_bytes: 0,
            reused: false,
            kept_at_seconds: 0,
        }))
    }

    async fn resolve(&self) -> Result<Vec<SocketAddr>, UpstreamError> {
        if let Some(address) = self.origin.address() {
            return Ok(vec![address]);
        }
        let now = self.seconds.get();
        if let Some((at, addresses)) = &*self.resolved.borrow()
            && now.wrapping_sub(*at) < RESOLVED_SECONDS
        {
            return Ok(addresses.clone());
        }
        let found: Vec<_> = tokio::net::lookup_host((self.origin.host(), self.origin.port()))
            .await
            .map_err(UpstreamError::Resolve)?
            .collect();
        *self.resolved.borrow_mut() = Some((now, found.clone()));
        Ok(found)
    }
}

/// Runs `work` until the watch says that its time is over.
async fn unless_expired<T>(
    watch: &Watch,
    work: impl Future<Output = Result<T, UpstreamError>>,
    late: impl Fn() -> UpstreamError,
) -> Result<T, UpstreamError> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if watch.is_expired() {
            return Poll::Ready(Err(late()));
        }
        work.as_mut().poll(cx)
    })
    .await
}
