//! A history as a context sees it: its turns, what is pinned, and what a summary covers.

use std::ops::Range;

use crate::message::{Message, Role};

/// A user's message, or an assistant's with all of its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    /// Its messages, by their places in the history.
    pub(super) range: Range<usize>,
    pub(super) tokens: u64,
    /// A user said it.
    pub(super) users: bool,
    /// The newest summary covers it.
    pub(super) covered: bool,
    /// A message of it is pinned, or the answer to it is.
    pub(super) pinned: bool,
    /// It is shown in any case: it is pinned, the newest, or the newest of a user's.
    pub(super) always: bool,
}

/// A history, laid out. Summaries are no turns of it.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub(super) history: &'a [Message],
    /// Tokens of each message.
    pub(super) sizes: Vec<u64>,
    pub(super) turns: Vec<Turn>,
    /// The newest summary: its place in the history, and its tokens.
    pub(super) summary: Option<(usize, u64)>,
    /// Places of summaries that a newer one took in.
    pub(super) superseded: Vec<usize>,
    /// Messages before this place are covered.
    pub(super) covered_to: usize,
    /// The newest turn of a user's.
    pub(super) task: Option<usize>,
}

impl<'a> Layout<'a> {
    /// `sizes`: tokens of each message.
    pub(super) fn of(history: &'a [Message], sizes: Vec<u64>) -> Self {
        let is_summary = |message: &Message| message.summary.is_some();
        let mut summaries: Vec<usize> =
            history.iter().enumerate().filter(|(_, message)| is_summary(message)).map(|(i, _)| i).collect();
        let newest = summaries.pop();
        let covered_to = newest.map_or(0, |at| covered_to(history, at));
        let mut turns: Vec<Turn> = Vec::new();
        for (at, message) in history.iter().enumerate().filter(|(_, message)| !is_summary(message)) {
            match turns.last_mut() {
                Some(turn) if message.role == Role::Tool && turn.range.end == at => {
                    turn.range.end = at + 1;
                    turn.tokens += sizes[at];
                    turn.pinned |= message.pinned;
                }
                _ => turns.push(Turn {
                    range: at..at + 1,
                    tokens: sizes[at],
                    users: message.role == Role::User,
                    covered: false,
                    pinned: message.pinned,
                    always: false,
                }),
            }
        }
        let mut layout = Self {
            history,
            task: turns.iter().rposition(|turn| turn.users),
            summary: newest.map(|at| (at, sizes[at])),
            superseded: summaries,
            covered_to,
            sizes,
            turns,
        };
        layout.mark();
        layout
    }

    /// Marks what is covered, and what is shown in any case.
    fn mark(&mut self) {
        for at in 0..self.turns.len() {
            self.turns[at].covered = self.turns[at].range.end <= self.covered_to;
            // Providers want a history to begin with a user's message: a pinned answer keeps what it answers.
            if self.turns[at].pinned && !self.turns[at].users {
                let asked = self.turns[..at].iter().rposition(|turn| turn.users);
                asked.into_iter().for_each(|asked| self.turns[asked].pinned = true);
            }
        }
        let newest = self.turns.len().checked_sub(1);
        for (at, turn) in self.turns.iter_mut().enumerate() {
            turn.always = turn.pinned || Some(at) == self.task || Some(at) == newest;
        }
    }

    /// Tokens of the turns that are shown in any case.
    pub(super) fn always_tokens(&self) -> u64 {
        self.turns.iter().filter(|turn| turn.always).map(|turn| turn.tokens).sum()
    }

    /// Tokens of all that there is to show: a summary stands for what it covers.
    pub(super) fn all_tokens(&self) -> u64 {
        let shown = self.turns.iter().filter(|turn| turn.always || !turn.covered);
        shown.map(|turn| turn.tokens).sum::<u64>() + self.summary_tokens()
    }

    /// Tokens of the newest summary.
    pub(super) fn summary_tokens(&self) -> u64 {
        self.summary.map_or(0, |(_, tokens)| tokens)
    }
}

/// Up to where the summary at that place covers its history. Of one whose last message is gone nobody knows: what is left
/// is shown beside it.
fn covered_to(history: &[Message], at: usize) -> usize {
    let upto = history[at].summary.as_ref().map(|summary| summary.upto);
    let last = history[..at].iter().rposition(|message| Some(message.id) == upto);
    last.map_or(0, |last| last + 1)
}
