//! The words of replies within this process: said by the owner of a run, heard by those who watch it.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use answerable_core::id::RunId;
use tokio::sync::watch;
use uuid::Uuid;

use super::board::{Board, Place, Reply, Words};
use super::{Signals, locked};

/// Boards of runs on which somebody speaks or hears.
#[derive(Debug, Default)]
pub(super) struct Boards {
    boards: HashMap<Uuid, Weak<Board>>,
    /// How many there may be before those that nobody has are thrown away.
    room: usize,
}

impl Boards {
    fn get(&self, run: Uuid) -> Option<Arc<Board>> {
        self.boards.get(&run).and_then(Weak::upgrade)
    }

    fn get_or_make(&mut self, run: Uuid) -> Arc<Board> {
        self.get(run).unwrap_or_else(|| {
            if self.boards.len() >= self.room {
                self.boards.retain(|_, board| board.strong_count() > 0);
                self.room = 2 * self.boards.len() + 64;
            }
            let board = Arc::new(Board::new());
            self.boards.insert(run, Arc::downgrade(&board));
            board
        })
    }

    /// Runs whose words are heard here.
    fn heard(&self) -> Vec<Uuid> {
        let is_heard = |board: &Weak<Board>| board.upgrade().is_some_and(|board| has_readers(&board));
        self.boards.iter().filter(|(_, board)| is_heard(board)).map(|(run, _)| *run).collect()
    }
}

fn has_readers(board: &Board) -> bool {
    board.readers.load(Relaxed) > 0
}

impl Signals {
    /// Speaks the words of a reply as they come: one attempt on the run's model. It is over when the value is dropped.
    pub fn speaker(&self, run: RunId, reply: Reply) -> Speaker {
        let board = locked(&self.0.boards).get_or_make(run.0);
        board.begin(reply);
        Speaker { signals: self.clone(), run: run.0, reply, board }
    }

    /// Hears the words of a run, beginning with those of the reply that is coming in. Other servers are told that somebody
    /// does; so only who may see the run may hear it.
    pub fn hear(&self, run: RunId) -> Hearing {
        let board = locked(&self.0.boards).get_or_make(run.0);
        board.readers.fetch_add(1, Relaxed);
        self.hears(run.0);
        let grew = board.grew();
        Hearing { board, place: Place::default(), grew }
    }

    /// Words that were said in another process.
    pub fn heard(&self, run: Uuid, words: &Words) {
        let board = locked(&self.0.boards).get(run);
        if let Some(board) = board {
            board.hear(words);
        }
    }

    /// The board of a run, if there is one.
    pub(super) fn board(&self, run: Uuid) -> Option<Arc<Board>> {
        locked(&self.0.boards).get(run)
    }

    /// The same, if the run is heard here.
    pub(super) fn board_heard(&self, run: Uuid) -> Option<Arc<Board>> {
        self.board(run).filter(|board| has_readers(board))
    }

    pub(super) fn all_heard(&self) -> Vec<Uuid> {
        locked(&self.0.boards).heard()
    }
}

/// See [`Signals::speaker`].
#[derive(Debug)]
pub struct Speaker {
    signals: Signals,
    run: Uuid,
    reply: Reply,
    board: Arc<Board>,
}

impl Speaker {
    /// Some more words.
    pub fn say(&self, text: &str) {
        if !text.is_empty() {
            self.board.say(self.reply, text);
            self.signals.send_words_of(self.run, &self.board);
        }
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.board.say(self.reply, "");
        self.signals.send_words_of(self.run, &self.board);
    }
}

/// See [`Signals::hear`].
#[derive(Debug)]
pub struct Hearing {
    board: Arc<Board>,
    place: Place,
    grew: watch::Receiver<()>,
}

impl Hearing {
    /// Waits until there is something to take. May be dropped and called again.
    pub async fn more(&mut self) {
        loop {
            self.grew.mark_unchanged();
            if self.board.has_more(&self.place) {
                return;
            }
            // The board, and with it the sender, lives as long as this.
            let _ = self.grew.changed().await;
        }
    }

    /// Waits until all words of an attempt are here that will be.
    pub async fn whole(&mut self, step: u32, attempt: u32) {
        loop {
            self.grew.mark_unchanged();
            if self.board.is_whole(step, attempt) {
                return;
            }
            let _ = self.grew.changed().await;
        }
    }

    /// The next words, `max_bytes` of them at most; empty ones are the reply's end. If they don't follow those before, some were missed, or the model was
    /// asked anew.
    pub fn take(&mut self, max_bytes: usize) -> Option<Words> {
        self.board.read(&mut self.place, max_bytes)
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.board.readers.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const RUN: RunId = RunId(Uuid::from_u128(1));
    const REPLY: Reply = Reply { epoch: 1, step: 1, attempt: 1 };

    fn signals() -> Signals {
        Signals::new().0
    }

    #[tokio::test]
    async fn words_are_heard_by_all_who_watch_the_run_and_by_nobody_else() {
        let signals = signals();
        let (mut a, mut b) = (signals.hear(RUN), signals.hear(RUN));
        let mut other = signals.hear(RunId(Uuid::from_u128(2)));
        let speaker = signals.speaker(RUN, REPLY);
        let hears = tokio::spawn(async move {
            a.more().await;
            a.take(99)
        });
        speaker.say("Hello");
        let words = Some(Words { reply: REPLY, offset: 0, text: "Hello".into() });
        assert_eq!(hears.await.expect("a hearing"), words);
        b.more().await;
        assert_eq!(b.take(99), words);
        assert!(timeout(Duration::from_millis(20), b.more()).await.is_err());
        assert_eq!(other.take(99), None);
    }

    #[tokio::test]
    async fn who_comes_late_hears_the_reply_from_its_beginning() {
        let signals = signals();
        let speaker = signals.speaker(RUN, REPLY);
        speaker.say("Hel");
        let mut late = signals.hear(RUN);
        speaker.say("lo");
        late.more().await;
        assert_eq!(late.take(99).map(|words| words.text).as_deref(), Some("Hello"));
    }

    #[tokio::test]
    async fn boards_that_nobody_has_are_not_kept() {
        let signals = signals();
        let stays = signals.hear(RUN);
        for number in 10..10_000 {
            signals.speaker(RunId(Uuid::from_u128(number)), REPLY).say("words");
        }
        assert!(locked(&signals.0.boards).boards.len() < 200);
        assert!(signals.board_heard(RUN.0).is_some());
        drop(stays);
        assert!(signals.board_heard(RUN.0).is_none());
    }
}
