//! What a model is saying on one run, for whoever reads along. Readers have places and the board has the text, so that a
//! reader who is late takes much at once, and none makes it grow.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::watch;

use super::locked;

/// Bytes of a reply that are kept at least, as soon as it is that long. Twice as many are at most; a reader who is further
/// behind goes on at the oldest that is left.
pub const KEPT: usize = 64 << 10;

/// Which reply words belong to. A later one is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reply {
    /// Of the lease under which it is asked for: whoever takes the run over asks anew.
    pub epoch: i64,
    /// Number of the step, from 1.
    pub step: u32,
    /// Number of the attempt within the step, from 1.
    pub attempt: u32,
}

/// Some words of a reply. Empty ones come after all others: the reply is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Which.
    pub reply: Reply,
    /// Characters of the reply before these.
    pub offset: u64,
    /// The words.
    pub text: String,
}

/// How far a reader has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    reply: Option<Reply>,
    at: Mark,
    /// It is known to be over.
    is_over: bool,
}

/// A place in a reply's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Mark {
    bytes: u64,
    chars: u64,
}

impl Mark {
    fn after(self, text: &str) -> Self {
        Self { bytes: self.bytes + text.len() as u64, chars: self.chars + chars(text) }
    }
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

/// The board of one run.
#[derive(Debug)]
pub(super) struct Board {
    said: Mutex<Said>,
    grew: watch::Sender<()>,
    /// Readers in this process.
    pub(super) readers: AtomicUsize,
    /// Its words wait to be sent to other servers.
    pub(super) is_due: AtomicBool,
    /// When other servers were last told that it is read here.
    pub(super) told_at: Mutex<Option<Instant>>,
}

/// The newest reply, or what is left of it.
#[derive(Debug, Default)]
struct Said {
    reply: Option<Reply>,
    /// It is asked for by this process.
    is_ours: bool,
    /// No more words come.
    is_over: bool,
    start: Mark,
    end: Mark,
    text: String,
}

impl Board {
    pub(super) fn new() -> Self {
        Self {
            said: Mutex::default(),
            grew: watch::Sender::new(()),
            readers: AtomicUsize::new(0),
            is_due: AtomicBool::new(false),
            told_at: Mutex::default(),
        }
    }

    /// The reply is asked for here.
    pub(super) fn begin(&self, reply: Reply) {
        let mut said = self.said();
        if said.is_at(reply) {
            said.is_ours = true;
        }
    }

    /// Takes words that were said here; empty ones end the reply. Those of an earlier reply than the newest come from an attempt that is given up,
    /// and are nobody's any more.
    pub(super) fn say(&self, reply: Reply, text: &str) {
        let mut said = self.said();
        if said.is_at(reply) {
            said.push(text);
            said.is_over |= text.is_empty();
            drop(said);
            self.grew.send_replace(());
        }
    }

    /// Takes words that were said elsewhere. What is known of them is left out; where some were lost, the text begins anew.
    pub(super) fn hear(&self, words: &Words) {
        let mut said = self.said();
        if !said.is_at(words.reply) {
            return;
        }
        if words.offset > said.end.chars {
            said.end.chars = words.offset;
            said.start = said.end;
            said.text.clear();
        }
        let known = usize::try_from(said.end.chars - words.offset).unwrap_or(usize::MAX);
        if let Some((at, _)) = words.text.char_indices().nth(known) {
            said.push(&words.text[at..]);
        }
        said.is_over |= words.text.is_empty();
        drop(said);
        self.grew.send_replace(());
    }

    /// The next words for a reader, `max_bytes` of them at most (or one character); moves its place behind them.
    pub(super) fn read(&self, place: &mut Place, max_bytes: usize) -> Option<Words> {
        let said = self.said();
        let (reply, rest) = said.rest(place)?;
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let length = rest.floor_char_boundary(max_bytes).max(first);
        place.is_over = rest.is_empty();
        let words = Words { reply, offset: place.at.chars, text: rest[..length].to_owned() };
        place.at = place.at.after(&words.text);
        Some(words)
    }

    /// Whether there is something to read.
    pub(super) fn has_more(&self, place: &Place) -> bool {
        self.said().rest(&mut { *place }).is_some()
    }

    /// Whether there is nothing to wait for of an attempt: its words are here, or a later one has begun.
    pub(super) fn is_whole(&self, step: u32, attempt: u32) -> bool {
        let said = self.said();
        said.reply.is_some_and(|newest| {
            let newest = (newest.step, newest.attempt);
            newest > (step, attempt) || (newest == (step, attempt) && (said.is_ours || said.is_over))
        })
    }

    /// Whether the newest reply is asked for by this process.
    pub(super) fn is_ours(&self) -> bool {
        self.said().is_ours
    }

    /// Hears when words come.
    pub(super) fn grew(&self) -> watch::Receiver<()> {
        self.grew.subscribe()
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        locked(&self.said)
    }
}

impl Said {
    /// Begins the reply, if it is newer; false: it is an older one.
    fn is_at(&mut self, reply: Reply) -> bool {
        if self.reply < Some(reply) {
            *self = Self { reply: Some(reply), ..Self::default() };
        }
        self.reply == Some(reply)
    }

    /// In pieces, so that the text never needs more room than it may keep.
    fn push(&mut self, mut text: &str) {
        while !text.is_empty() {
            let (piece, rest) = text.split_at(text.floor_char_boundary(KEPT));
            self.text.push_str(piece);
            self.end = self.end.after(piece);
            if self.text.len() > 2 * KEPT {
                let cut = self.text.ceil_char_boundary(self.text.len() - KEPT);
                self.start = self.start.after(&self.text[..cut]);
                self.text.drain(..cut);
            }
            text = rest;
        }
    }

    /// What a reader has not read, nothing once for the end; its place is set to the beginning of that.
    fn rest(&self, place: &mut Place) -> Option<(Reply, &str)> {
        let reply = self.reply?;
        if place.reply != Some(reply) || place.at.bytes <= self.start.bytes {
            let is_over = place.is_over && place.reply == Some(reply);
            *place = Place { reply: Some(reply), at: self.start, is_over };
        }
        let from = usize::try_from(place.at.bytes - self.start.bytes).ok()?;
        let rest = self.text.get(from..)?;
        let ends = self.is_over && !place.is_over;
        (ends || !rest.is_empty()).then_some((reply, rest))
    }
}

#[cfg(test)]
mod tests;
