//! Which turns are shown.

use super::layout::{Layout, Turn};
use super::{ContextOverflow, Source};
use crate::agent::Overflow;
use crate::message::Message;

/// What of a layout is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selected {
    /// Turns that are shown, by their places.
    pub(super) turns: Vec<bool>,
    /// The newest summary is shown.
    pub(super) summary: bool,
    /// Tokens of the summary, as they were counted.
    pub(super) summary_tokens: u64,
    /// Tokens of pinned turns.
    pub(super) pinned_tokens: u64,
    /// Tokens of the other turns.
    pub(super) history_tokens: u64,
}

impl Selected {
    fn of(layout: &Layout<'_>, turns: Vec<bool>, summary: bool) -> Self {
        let shown = || layout.turns.iter().zip(&turns).filter(|(_, shown)| **shown).map(|(turn, _)| turn);
        let tokens = |pinned: bool| -> u64 {
            shown().filter(|turn| turn.pinned == pinned).map(|turn| turn.tokens).sum()
        };
        Self {
            pinned_tokens: tokens(true),
            history_tokens: tokens(false),
            summary_tokens: if summary { layout.summary_tokens() } else { 0 },
            summary,
            turns,
        }
    }

    /// Tokens of all that is shown beside what always is.
    pub(super) fn tokens(&self) -> u64 {
        self.summary_tokens + self.pinned_tokens + self.history_tokens
    }

    /// Places of the messages that are shown, in order: the summary stands where what it covers ends.
    pub(super) fn places(&self, layout: &Layout<'_>) -> Vec<usize> {
        let shown = layout.turns.iter().zip(&self.turns).filter(|(_, shown)| **shown);
        let mut places: Vec<usize> = shown.flat_map(|(turn, _)| turn.range.clone()).collect();
        if let Some((summary, _)) = layout.summary.filter(|_| self.summary) {
            let after = places.iter().position(|at| *at >= layout.covered_to).unwrap_or(places.len());
            places.insert(after, summary);
        }
        places
    }

    /// The messages themselves.
    pub(super) fn messages(&self, layout: &Layout<'_>) -> Vec<Message> {
        self.places(layout).into_iter().map(|at| layout.history[at].clone()).collect()
    }
}

/// Selects what fits.
///
/// # Errors
/// What is always shown doesn't fit, or the agent wants no omissions.
pub(super) fn select(source: &Source, layout: &Layout<'_>) -> Result<Selected, ContextOverflow> {
    let all = layout.all_tokens();
    let room = source.counted_room().saturating_sub(source.fixed.total());
    let room = if source.shrink { room.min(all / 2) } else { room };
    if all > room && source.overflow == Overflow::Stop && !source.lenient {
        return Err(source.overflow_of(all));
    }
    let always = layout.always_tokens();
    if always > room && !source.shrink && !source.lenient {
        return Err(source.overflow_of(always));
    }
    let with_summary = always + layout.summary_tokens();
    let summary = layout.summary.is_some() && with_summary <= room;
    let first = oldest_shown(layout, if summary { with_summary } else { always }, room, summary);
    let is_shown = |(at, turn): (usize, &Turn)| turn.always || (at >= first && !turn.covered);
    let turns = layout.turns.iter().enumerate().map(is_shown).collect();
    Ok(Selected::of(layout, turns, summary))
}

/// The oldest of the newest turns that fit beside what takes `used` tokens already.
fn oldest_shown(layout: &Layout<'_>, used: u64, room: u64, summary: bool) -> usize {
    let turns = &layout.turns;
    let uncovered = turns.iter().position(|turn| !turn.covered).unwrap_or(turns.len());
    let mut total = used;
    let mut first = turns.len();
    for (at, turn) in turns.iter().enumerate().skip(uncovered).rev() {
        if !turn.always {
            total += turn.tokens;
        }
        if total > room && !turn.always {
            break;
        }
        first = at;
    }
    // Answers to what is no longer there are left out with it; a summary tells of what it was.
    let newest = turns.len().saturating_sub(1);
    let whole = summary && first == uncovered;
    while !whole && first < layout.task.unwrap_or(newest) && !turns[first].users {
        first += 1;
    }
    first
}
