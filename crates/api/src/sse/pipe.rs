//! What lies between a stream's task and its reader: few small pieces. The stream's place is taken as long as the reader's end
//! is there, for so long there is a connection with what it has in memory.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendTimeoutError;

/// Bytes of a piece, but for one event that has more.
pub(super) const PIECE: usize = 16 << 10;
/// Pieces that a reader may be behind.
const PIECES: usize = 4;

type Pieces = Mutex<mpsc::Receiver<Bytes>>;

/// The task's end. Dropping it ends the stream when all is taken.
pub(super) struct Pipe {
    pieces: mpsc::Sender<Bytes>,
    rest: Weak<Pieces>,
}

/// The reader's end.
pub(super) struct Reader<P> {
    rest: Arc<Pieces>,
    _place: P,
}

/// A pipe to whoever has this place.
pub(super) fn pipe<P>(place: P) -> (Pipe, Reader<P>) {
    let (pieces, received) = mpsc::channel(PIECES);
    let rest = Arc::new(Mutex::new(received));
    (Pipe { pieces, rest: Arc::downgrade(&rest) }, Reader { rest, _place: place })
}

/// Nobody reads any more.
pub(super) struct Left;

impl Pipe {
    /// Hands on a piece; gives it back if there was no room for it all the while.
    pub(super) async fn send(&self, piece: Bytes, patience: Duration) -> Result<Option<Bytes>, Left> {
        match self.pieces.send_timeout(piece, patience).await {
            Ok(()) => Ok(None),
            Err(SendTimeoutError::Timeout(piece)) => Ok(Some(piece)),
            Err(SendTimeoutError::Closed(_)) => Err(Left),
        }
    }

    /// Pieces that the reader has not taken.
    pub(super) fn behind(&self) -> usize {
        self.pieces.max_capacity() - self.pieces.capacity()
    }

    /// Returns when nobody reads any more.
    pub(super) async fn left(&self) {
        self.pieces.closed().await;
    }

    /// Ends the stream with what was taken: the rest is dropped now, for a connection that nobody reads may last.
    pub(super) fn cut(self) {
        if let Some(rest) = self.rest.upgrade() {
            let mut rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
            rest.close();
            while rest.try_recv().is_ok() {}
        }
    }
}

impl<P: Unpin> Stream for Reader<P> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut pieces = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.poll_recv(cx).map(|piece| piece.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use answerable_ports::Shares;
    use futures::StreamExt as _;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    async fn say(pipe: &Pipe, piece: &'static str) -> Option<Bytes> {
        pipe.send(piece.into(), SOON).await.ok().expect("somebody reads")
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_taken_until_the_connection_has_let_go_of_its_stream() {
        let places = Shares::new(1, 0);
        let (pipe, reader) = pipe(places.take(1).expect("a place"));
        assert!(say(&pipe, "one").await.is_none());
        pipe.cut();
        assert_eq!(places.taken(), 1, "the task has given up, the connection has not");
        drop(reader);
        assert_eq!(places.taken(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_reader_has_not_taken_is_bounded_and_dropped_when_it_is_given_up() {
        let (pipe, mut reader) = pipe(());
        let witness: Arc<str> = "piece".into();
        for _ in 0..PIECES {
            let piece = Bytes::from_owner(Text(Arc::clone(&witness)));
            assert!(pipe.send(piece, SOON).await.is_ok_and(|back| back.is_none()));
        }
        assert_eq!((pipe.behind(), Arc::strong_count(&witness)), (PIECES, PIECES + 1));
        assert_eq!(say(&pipe, "more").await.as_deref(), Some(&b"more"[..]), "it comes back");
        pipe.cut();
        assert_eq!(Arc::strong_count(&witness), 1);
        assert!(reader.next().await.is_none(), "the stream is over");
    }

    struct Text(Arc<str>);

    impl AsRef<[u8]> for Text {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_ends_is_taken_to_its_end_and_one_that_is_cut_wakes_its_reader() {
        let (whole, reader) = pipe(());
        assert!(say(&whole, "one").await.is_none() && say(&whole, "two").await.is_none());
        drop(whole);
        assert_eq!(reader.count().await, 2);
        let (cut, reader) = pipe(());
        let waiting = tokio::spawn(reader.count());
        tokio::task::yield_now().await;
        cut.cut();
        assert_eq!(tokio::time::timeout(SOON, waiting).await.expect("it is woken").expect("a count"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_hears_that_its_reader_left() {
        let (pipe, reader) = pipe(());
        drop(reader);
        tokio::time::timeout(SOON, pipe.left()).await.expect("it is told");
        assert!(pipe.send("one".into(), SOON).await.is_err());
    }
}
