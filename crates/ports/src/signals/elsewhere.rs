//! Words between servers: each says which runs it hears that it doesn't own, now and then and to everybody, and whoever owns
//! such a run sends it the words. An interest that isn't renewed is forgotten.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::board::{Board, Place, Words};
use super::{Signals, locked};

/// How often a server says again what it hears.
pub const RENEW: Duration = Duration::from_secs(5);
/// How long that holds.
const HOLDS: Duration = Duration::from_secs(16);
/// Runs of which it is known that they are heard elsewhere; of more it isn't.
const MAX_RUNS: usize = 100_000;
/// Servers that one run's words go to.
const MAX_SERVERS: usize = 16;

/// What other servers want to hear, and what is to be said to them.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    heard: HashMap<Uuid, Vec<Listener>>,
    due: VecDeque<(Uuid, Arc<Board>)>,
    /// Runs that this server hears, and the others are to be told so.
    news: HashSet<Uuid>,
}

/// A server that hears a run.
#[derive(Debug)]
struct Listener {
    server: Uuid,
    until: Instant,
    place: Place,
}

/// What is to leave for other servers.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Runs that are heard here and owned elsewhere.
    pub hears: Vec<Uuid>,
    /// Words, in the order in which they must arrive.
    pub parcels: Vec<Parcel>,
}

/// Some words of a run for one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// The server.
    pub to: Uuid,
    /// The run.
    pub run: Uuid,
    /// The words.
    pub words: Words,
}

impl Signals {
    /// Another server hears a run, and will for a while.
    pub fn heard_elsewhere(&self, run: Uuid, server: Uuid) {
        let is_new = locked(&self.0.elsewhere).heard_by(run, server, Instant::now());
        // What is being said now was begun before the server came.
        if is_new && let Some(board) = self.board(run) {
            self.send_words_of(run, &board);
        }
    }

    /// Waits until there may be something for [`take_outgoing`](Self::take_outgoing).
    pub async fn to_send(&self) {
        self.0.to_send.notified().await;
    }

    /// All that is to be sent by now: words in pieces of `piece` bytes, about `all` bytes together. What is left over is
    /// for the next time.
    pub fn take_outgoing(&self, piece: usize, all: usize) -> Outgoing {
        let mut elsewhere = locked(&self.0.elsewhere);
        let news = std::mem::take(&mut elsewhere.news);
        let parcels = elsewhere.take_words(piece, all, Instant::now());
        let is_left = !elsewhere.due.is_empty();
        drop(elsewhere);
        if is_left {
            self.0.to_send.notify_one();
        }
        let now = Instant::now();
        let hears = news.into_iter().filter(|run| self.is_news(*run, now)).collect();
        Outgoing { hears, parcels }
    }

    /// To be called every [`RENEW`]: other servers are told again what is heard here, and what they did not say again is
    /// forgotten.
    pub fn renew(&self) {
        locked(&self.0.elsewhere).forget(Instant::now());
        self.renew_hearing();
    }

    pub(super) fn renew_hearing(&self) {
        let heard = self.all_heard();
        if !heard.is_empty() {
            locked(&self.0.elsewhere).news.extend(heard);
            self.0.to_send.notify_one();
        }
    }

    /// Another server works on the run: if it is heard here, that server may not know.
    pub fn worked_elsewhere(&self, run: Uuid) {
        let Some(board) = self.board_heard(run) else { return };
        if locked(&board.told_at).is_none_or(|told_at| told_at.elapsed() >= RENEW) {
            self.hears(run);
        }
    }

    /// The run is heard here, and others are to know. Of one that is owned here they need not: whoever owns it next
    /// is told then.
    pub(super) fn hears(&self, run: Uuid) {
        if !self.owns(run) {
            locked(&self.0.elsewhere).news.insert(run);
            self.0.to_send.notify_one();
        }
    }

    /// Whether the run is heard here and not owned; if so, that is told now.
    fn is_news(&self, run: Uuid, now: Instant) -> bool {
        let board = self.board_heard(run).filter(|_| !self.owns(run));
        if let Some(board) = &board {
            *locked(&board.told_at) = Some(now);
        }
        board.is_some()
    }

    /// The board has words that other servers may want.
    pub(super) fn send_words_of(&self, run: Uuid, board: &Arc<Board>) {
        if board.is_due.load(Relaxed) || !board.is_ours() {
            return;
        }
        let mut elsewhere = locked(&self.0.elsewhere);
        if elsewhere.heard.contains_key(&run) && !board.is_due.swap(true, Relaxed) {
            elsewhere.due.push_back((run, Arc::clone(board)));
            self.0.to_send.notify_one();
        }
    }
}

impl Elsewhere {
    /// Whether that is new.
    fn heard_by(&mut self, run: Uuid, server: Uuid, now: Instant) -> bool {
        if self.heard.len() >= MAX_RUNS && !self.heard.contains_key(&run) {
            return false;
        }
        let listeners = self.heard.entry(run).or_default();
        let until = now + HOLDS;
        if let Some(listener) = listeners.iter_mut().find(|listener| listener.server == server) {
            listener.until = until;
            return false;
        }
        let has_room = listeners.len() < MAX_SERVERS;
        if has_room {
            listeners.push(Listener { server, until, place: Place::default() });
        }
        has_room
    }

    fn forget(&mut self, now: Instant) {
        self.heard.retain(|_, listeners| {
            listeners.retain(|listener| listener.until > now);
            !listeners.is_empty()
        });
    }

    /// Runs take turns, so that one which says too much holds up no other.
    fn take_words(&mut self, piece: usize, all: usize, now: Instant) -> Vec<Parcel> {
        let (mut parcels, mut taken) = (Vec::new(), 0);
        while taken < all
            && let Some((run, board)) = self.due.pop_front()
        {
            // First of all: what is said from now on makes it due again.
            board.is_due.store(false, Relaxed);
            let listeners = self.heard.get_mut(&run).map(Vec::as_mut_slice).unwrap_or_default();
            let mut has_more = false;
            for listener in listeners.iter_mut().filter(|listener| listener.until > now) {
                if let Some(words) = board.read(&mut listener.place, piece) {
                    taken += words.text.len();
                    parcels.push(Parcel { to: listener.server, run, words });
                    has_more |= board.has_more(&listener.place);
                }
            }
            if has_more && !board.is_due.swap(true, Relaxed) {
                self.due.push_back((run, board));
            }
        }
        parcels
    }
}

#[cfg(test)]
mod tests;
