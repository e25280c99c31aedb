//! Notices when a request begins to leave, so that a timeout before that is known to be without effect.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reqwest::Body;

/// Whether the body of a request was asked for. The connection asks for it together with the head, once there is a
/// connection; so what was not begun was not sent.
#[derive(Debug)]
pub(super) struct Sent(Option<Arc<AtomicBool>>);

impl Sent {
    /// Nothing was sent, for certain. A request without a body never says so.
    pub(super) fn is_not_begun(&self) -> bool {
        self.0.as_ref().is_some_and(|begun| !begun.load(Ordering::Acquire))
    }
}

/// A request's body, if it has one, and the knowledge whether it was begun.
pub(super) fn tracked(bytes: Option<Bytes>) -> (Body, Sent) {
    match bytes {
        None => (Body::from(Bytes::new()), Sent(None)),
        Some(bytes) => {
            let begun = Arc::new(AtomicBool::new(false));
            (Body::wrap(Tracked { rest: Some(bytes), begun: begun.clone() }), Sent(Some(begun)))
        }
    }
}

struct Tracked {
    rest: Option<Bytes>,
    begun: Arc<AtomicBool>,
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.begun.store(true, Ordering::Release);
        Poll::Ready(self.rest.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none()
    }

    // Known beforehand, so that it goes out with `Content-Length` and not in chunks.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
