//! Secrets that the far side echoes are taken out before anything is kept or shown.

mod forms;
mod spellings;

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use serde_json::Value;

use spellings::Spelling;

/// What stands in a secret's place.
const STARS: &str = "***";
/// Shorter values are left alone: they would be found everywhere.
const SHORTEST: usize = 6;
/// Bytes of all beginnings that are searched for, and the fewest and the most of one. There is a mask a call: it must be made
/// fast, however long secrets are.
const BEGINNINGS: usize = 32 << 10;
const BEGINNING: RangeInclusive<usize> = 16..=256;
/// Bytes that are compared behind beginnings, and how many for each byte of the text, until a beginning alone counts as
/// the secret. Only a text that is made for it has so many.
const PATIENCE: usize = 1 << 20;
const PATIENCE_EACH: usize = 2;

/// The secrets of one call, in the spellings that echoes come in.
#[derive(Clone, Default)]
pub struct Mask {
    /// By their beginnings.
    spellings: Vec<Alike>,
    /// Finds all beginnings in one pass; none: there are no secrets, or it could not be made.
    finder: Option<AhoCorasick>,
    longest: usize,
}

/// Spellings that begin alike.
#[derive(Clone)]
struct Alike {
    beginning: Vec<u8>,
    /// Longest first.
    spellings: Vec<Spelling>,
}

// Written by hand: a derived one would show the secrets.
impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").field("beginnings", &self.spellings.len()).finish()
    }
}

impl Mask {
    /// A mask of these secrets. One of fewer than six bytes is not masked.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let all = spellings::of(secrets);
        let beginning = BEGINNINGS / all.len().max(1);
        Self::of(all, beginning.clamp(*BEGINNING.start(), *BEGINNING.end()))
    }

    /// A mask that searches for beginnings of so many bytes at most.
    fn of(all: Vec<Spelling>, beginning: usize) -> Self {
        let longest = all.iter().map(|spelling| spelling.length).max().unwrap_or(0);
        let mut alike: BTreeMap<Vec<u8>, Vec<Spelling>> = BTreeMap::new();
        for spelling in all {
            alike.entry(spelling.head(beginning)).or_default().push(spelling);
        }
        let sorted = |(beginning, mut spellings): (_, Vec<Spelling>)| {
            spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.length));
            Alike { beginning, spellings }
        };
        let spellings: Vec<Alike> = alike.into_iter().map(sorted).collect();
        // The kind that is made fast. It fails for more than there are numbers for.
        let mut builder = AhoCorasick::builder();
        let builder = builder.kind(Some(AhoCorasickKind::ContiguousNFA));
        let beginnings = spellings.iter().map(|alike| &alike.beginning);
        let finder = if spellings.is_empty() { None } else { builder.build(beginnings).ok() };
        Self { spellings, finder, longest }
    }

    /// The text without secrets.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut shown = 0;
        for hidden in self.places(text.as_bytes()) {
            // A spelling is text, so it begins where a character does; what is taken for one may end within another.
            out.push_str(&text[shown..hidden.start]);
            out.push_str(STARS);
            shown = text.ceil_char_boundary(hidden.end);
        }
        out.push_str(&text[shown..]);
        out
    }

    /// The bytes without secrets.
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut shown = 0;
        for hidden in self.places(bytes) {
            out.extend_from_slice(&bytes[shown..hidden.start]);
            out.extend_from_slice(STARS.as_bytes());
            shown = hidden.end;
        }
        out.extend_from_slice(&bytes[shown..]);
        out
    }

    /// Where secrets stand, in order. Those that overlap are one place, so that no part of one is left beside another's stars.
    fn places(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut places: Vec<Range<usize>> = Vec::new();
        for mut place in self.found(bytes) {
            // They come in the order in which beginnings end, so none ends before another one begins that was found earlier.
            while let Some(last) = places.pop_if(|last| place.start < last.end) {
                place = place.start.min(last.start)..place.end.max(last.end);
            }
            places.push(place);
        }
        places
    }

    /// The places of secrets; where several begin together, of the longest one.
    fn found<'m>(&'m self, bytes: &'m [u8]) -> impl Iterator<Item = Range<usize>> + 'm {
        let all = Some(0..bytes.len()).filter(|all| self.is_blind() && !all.is_empty());
        let mut patience = patience(bytes);
        let found = self.begun(bytes).filter_map(move |(start, alike)| {
            let rest = bytes.get(start..).unwrap_or_default();
            let mut fitting = alike.spellings.iter().filter(|spelling| spelling.length <= rest.len());
            let found = fitting.find(|spelling| alike.agrees(spelling, rest, &mut patience));
            found.map(|spelling| start..start + spelling.length)
        });
        all.into_iter().chain(found)
    }

    /// Where a beginning stands, in the order of their ends.
    fn begun<'m>(&'m self, bytes: &'m [u8]) -> impl Iterator<Item = (usize, &'m Alike)> + 'm {
        let found = self.finder.iter().flat_map(move |finder| finder.find_overlapping_iter(bytes));
        found.filter_map(|found| Some((found.start(), self.spellings.get(found.pattern().as_usize())?)))
    }

    /// Whether there are secrets and nothing that finds them. Then all is hidden.
    fn is_blind(&self) -> bool {
        self.finder.is_none() && !self.spellings.is_empty()
    }

    /// Whether there is a secret in the text.
    #[must_use]
    pub fn finds(&self, text: &str) -> bool {
        self.found(text.as_bytes()).next().is_some()
    }

    /// Whether there is a secret in a string or a name of the value.
    #[must_use]
    pub fn finds_in(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.finds(text),
            Value::Array(items) => items.iter().any(|item| self.finds_in(item)),
            Value::Object(map) => map.iter().any(|(name, item)| self.finds(name) || self.finds_in(item)),
            _ => false,
        }
    }

    /// Length in bytes of the longest spelling of a secret.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// How many bytes at the end of `text` may be the beginning of a secret.
    #[must_use]
    pub fn open_end(&self, text: &str) -> usize {
        if self.is_blind() {
            return text.len();
        }
        let bytes = text.as_bytes();
        // A spelling is text, so its beginning doesn't begin within a character.
        let tail =
            bytes.get(bytes.len().saturating_sub(self.longest.saturating_sub(1))..).unwrap_or_default();
        self.open_behind_beginning(tail).max(self.open_within_beginning(tail))
    }

    /// How many bytes at the end of `tail` are a beginning, and what follows it in a spelling.
    fn open_behind_beginning(&self, tail: &[u8]) -> usize {
        let mut patience = patience(tail);
        self.begun(tail).fold(0, |most, (start, alike)| {
            let end = tail.get(start..).unwrap_or_default();
            let mut reaching = alike.spellings.iter().filter(|spelling| spelling.length >= end.len());
            let is_longer = end.len() > most;
            let is_open = is_longer && reaching.any(|spelling| alike.agrees(spelling, end, &mut patience));
            if is_open { end.len() } else { most }
        })
    }

    /// How many bytes at the end of `tail` begin a beginning.
    fn open_within_beginning(&self, tail: &[u8]) -> usize {
        let most = self.spellings.iter().map(|alike| alike.beginning.len()).max().unwrap_or(0);
        let starts = tail.len().saturating_sub(most)..tail.len();
        let mut ends = starts.filter_map(|start| tail.get(start..));
        let open = ends.find(|end| {
            // They are sorted: those that begin with it would stand here.
            let at = self.spellings.partition_point(|alike| alike.beginning.as_slice() < *end);
            self.spellings.get(at).is_some_and(|alike| alike.beginning.starts_with(end))
        });
        open.map_or(0, <[u8]>::len)
    }
}

impl Alike {
    /// Whether a spelling of these and a text that has its beginning are the same as far as both go.
    fn agrees(&self, spelling: &Spelling, text: &[u8], patience: &mut usize) -> bool {
        spelling.length.min(text.len()) <= self.beginning.len() || spelling.agrees(text, patience)
    }
}

fn patience(bytes: &[u8]) -> usize {
    bytes.len().saturating_mul(PATIENCE_EACH).saturating_add(PATIENCE)
}

#[cfg(test)]
mod tests;
