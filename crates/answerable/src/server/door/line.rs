//! A connection's bytes, with limits on how slowly they may come and go.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::heads::Heads;

/// Bytes that a peer which can't take all at once must have taken by the end of each span.
const TAKEN_AT_LEAST: usize = 256 * 1024;

/// How slow a peer may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time for a head: of the first one since the connection began, of others since their own first byte.
    pub(super) head: Duration,
    /// The span within which an answer must go on.
    pub(super) answer: Duration,
}

/// A connection.
pub(super) struct Line<S> {
    stream: S,
    heads: Arc<Mutex<Heads>>,
    pace: Pace,
    /// When the head that is awaited must be there.
    head_due: Option<Pin<Box<Sleep>>>,
    /// When more of the answer must have been taken, and how much was in this span.
    taken_due: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> Line<S> {
    /// One that begins now.
    pub(super) fn new(stream: S, pace: Pace) -> Self {
        Self { stream, heads: Arc::default(), pace, head_due: Some(timer(pace.head)), taken_due: None }
    }

    /// What is seen of its requests.
    pub(super) fn heads(&self) -> Arc<Mutex<Heads>> {
        Arc::clone(&self.heads)
    }

    /// Sees what came in, and sets or stops the time for a head.
    fn see(&mut self, bytes: &[u8]) {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        heads.see(bytes);
        if heads.is_within() {
            if self.head_due.is_none() {
                self.head_due = Some(timer(self.pace.head));
            }
        } else if heads.has_begun() {
            self.head_due = None;
        }
    }

    /// What came of a write of so many bytes.
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
        offered: usize,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(taken)) if taken >= offered => self.taken_due = None,
            Poll::Ready(Ok(taken)) => {
                let span = self.taken_due.get_or_insert_with(|| (timer(self.pace.answer), 0));
                span.1 += taken;
                if span.1 >= TAKEN_AT_LEAST {
                    self.taken_due = None;
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                let span = self.taken_due.get_or_insert_with(|| (timer(self.pace.answer), 0));
                ready!(span.0.as_mut().poll(cx));
                return Poll::Ready(Err(too_slow("an answer was not taken in time")));
            }
        }
        written
    }
}

fn timer(time: Duration) -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(Instant::now() + time))
}

fn too_slow(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<S: AsyncRead + Unpin> AsyncRead for Line<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                self.see(buffer.filled().get(before..).unwrap_or_default());
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => match &mut self.head_due {
                Some(due) => {
                    ready!(due.as_mut().poll(cx));
                    Poll::Ready(Err(too_slow("a head did not come in time")))
                }
                None => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Line<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        let offered = parts.iter().map(|part| part.len()).sum();
        self.written(cx, written, offered)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const PACE: Pace = Pace { head: Duration::from_millis(100), answer: Duration::from_secs(1) };
    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    #[tokio::test]
    async fn a_head_has_its_time() {
        for begun in [&b""[..], b"\r\n", b"GET / HTTP/1.1\r\n"] {
            let (mut peer, stream) = duplex(1 << 20);
            let mut line = Line::new(stream, PACE);
            peer.write_all(begun).await.expect("sent");
            let mut all = Vec::new();
            let (began, ended) = (Instant::now(), line.read_to_end(&mut all).await);
            assert_eq!(ended.expect_err("too slow").kind(), io::ErrorKind::TimedOut);
            assert!(began.elapsed() >= PACE.head / 2 && all == begun, "{all:?}");
        }
    }

    #[tokio::test]
    async fn while_it_is_answered_a_peer_may_be_silent_and_the_next_head_has_its_own_time() {
        let (mut peer, stream) = duplex(1 << 20);
        let (mut line, mut buffer) = (Line::new(stream, PACE), [0; 1024]);
        peer.write_all(GET).await.expect("sent");
        assert_ne!(line.read(&mut buffer).await.expect("bytes"), 0);
        let quiet = tokio::time::timeout(PACE.head * 4, line.read(&mut buffer)).await;
        assert!(quiet.is_err());
        peer.write_all(b"G").await.expect("sent");
        assert_eq!(line.read(&mut buffer).await.expect("bytes"), 1);
        assert_eq!(line.read(&mut buffer).await.expect_err("too slow").kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_answer_that_is_not_taken_is_given_up() {
        let (peer, stream) = duplex(1024);
        let mut line = Line::new(stream, PACE);
        let (began, ended) = (Instant::now(), line.write_all(&[0; 4096]).await);
        assert_eq!(ended.expect_err("too slow").kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= PACE.answer);
        drop(peer);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_taken_slowly_goes_on_and_one_that_is_taken_in_drops_does_not() {
        for (every, is_enough) in [(Duration::ZERO, true), (Duration::from_millis(50), false)] {
            let (mut peer, stream) = duplex(16 * 1024);
            let mut line = Line::new(stream, PACE);
            let taking = tokio::spawn(async move {
                let mut piece = [0; 1024];
                while peer.read_exact(&mut piece).await.is_ok() {
                    tokio::time::sleep(every).await;
                }
            });
            assert_eq!(line.write_all(&vec![0; 2 << 20]).await.is_ok(), is_enough, "a piece every {every:?}");
            drop(line);
            taking.await.expect("it ends");
        }
    }
}
