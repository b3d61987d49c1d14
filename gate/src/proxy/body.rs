//! The bodies of our answers. Whatever their kind, the request counts as answered when its body is gone.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::upstream::{UpstreamBody, UpstreamError};
use super::watch::Watch;

/// Tells the watch when the answer is over.
#[derive(Debug)]
pub(super) struct InFlight(pub(super) Rc<Watch>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.answered();
    }
}

/// The body of an answer to a client.
#[derive(Debug)]
pub(super) struct AnswerStream {
    content: Content,
    _in_flight: InFlight,
}

/// What an answer's body is.
#[derive(Debug)]
pub(super) enum Content {
    Empty,
    Whole(Bytes),
    Upstream(Box<UpstreamBody>),
}

impl AnswerStream {
    pub(super) fn new(content: Content, in_flight: InFlight) -> Self {
        Self {
            content,
            _in_flight: in_flight,
        }
    }
}

impl Body for AnswerStream {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let this = self.get_mut();
        match &mut this.content {
            Content::Empty => Poll::Ready(None),
            Content::Whole(bytes) => {
                let data = std::mem::take(bytes);
                this.content = Content::Empty;
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Content::Upstream(body) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty => true,
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty => SizeHint::with_exact(0),
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Upstream(body) => body.size_hint(),
        }
    }
}
