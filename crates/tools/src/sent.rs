//! Notices when a request begins to leave, so that what ends before that is known to be without effect.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reqwest::Body;

const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const GIVEN_UP: u8 = 2;

/// Whether a request has begun to leave. Clones speak of the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent(Arc<AtomicU8>);

impl Sent {
    /// It leaves now, unless it was given up.
    pub(crate) fn begin(&self) -> bool {
        self.0.compare_exchange(WAITS, BEGUN, Ordering::AcqRel, Ordering::Acquire) != Err(GIVEN_UP)
    }

    /// It shall not leave any more. False where it has.
    pub(crate) fn give_up(&self) -> bool {
        self.0.compare_exchange(WAITS, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire) != Err(BEGUN)
    }
}

/// It was given up before it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request was given up before it left")]
pub(crate) struct GivenUp;

/// A body that tells `sent` when it is asked for, and breaks the request off if it was given up by then.
///
/// A connection asks for it once there is one: HTTP/1 before a byte of the head is written, HTTP/2 when the head may be
/// under way already. A head alone is no request, for it says that a body follows, and without that no server may act on
/// it; so what was not begun was not sent.
pub(crate) fn tracked(bytes: Bytes, sent: Sent) -> Body {
    Body::wrap(Tracked { rest: Some(bytes), sent })
}

struct Tracked {
    rest: Option<Bytes>,
    sent: Sent,
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = GivenUp;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, GivenUp>>> {
        if !self.sent.begin() {
            return Poll::Ready(Some(Err(GivenUp)));
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn what_was_given_up_never_leaves_and_what_left_is_never_given_up() {
        let sent = Sent::default();
        assert!(sent.give_up() && !sent.clone().begin() && sent.give_up());
        let sent = Sent::default();
        assert!(sent.clone().begin() && !sent.give_up() && sent.begin());
    }

    /// What a server hears of a request that has a connection.
    async fn heard(sent: Sent) -> (Vec<u8>, bool) {
        crate::egress::install_crypto();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let request = client.post(url).body(tracked(Bytes::from_static(b"pay"), sent)).send();
        let server = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut heard = Vec::new();
            let wait = Duration::from_millis(300);
            // It is not answered, so that a whole request leaves the connection open.
            let _ = tokio::time::timeout(wait, stream.read_to_end(&mut heard)).await;
            heard
        };
        let (answer, heard) = tokio::join!(request, server);
        (heard, answer.is_ok())
    }

    #[tokio::test]
    async fn no_byte_leaves_of_what_was_given_up() {
        let sent = Sent::default();
        assert!(sent.give_up());
        assert_eq!(heard(sent).await, (Vec::new(), false));
        let (whole, _) = heard(Sent::default()).await;
        assert!(whole.starts_with(b"POST / ") && whole.ends_with(b"pay"));
    }
}
