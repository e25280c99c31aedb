//! Secrets that the far side echoes are taken out before anything is kept or shown.

mod spellings;

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use serde_json::Value;

/// What stands in a secret's place.
const STARS: &str = "***";
/// Shorter values are left alone: they would be found everywhere.
const SHORTEST: usize = 6;

/// The secrets of one call, in the spellings that echoes come in.
#[derive(Clone, Default)]
pub struct Mask {
    /// Longest first.
    spellings: Vec<String>,
    /// Finds them all in one pass; none: there are no secrets.
    finder: Option<AhoCorasick>,
}

// Written by hand: a derived one would show the secrets.
impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").field("spellings", &self.spellings.len()).finish()
    }
}

impl Mask {
    /// A mask of these secrets. One of fewer than six bytes is not masked.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut spellings: Vec<String> = secrets.into_iter().flat_map(spellings::of).collect();
        spellings.retain(|spelling| spelling.len() >= SHORTEST);
        spellings.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        spellings.dedup();
        // The kind that is made fast: there is a mask a call. It fails for more than there are numbers for.
        let mut builder = AhoCorasick::builder();
        let builder = builder.kind(Some(AhoCorasickKind::ContiguousNFA));
        let finder = if spellings.is_empty() { None } else { builder.build(&spellings).ok() };
        Self { spellings, finder }
    }

    /// The text without secrets.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut shown = 0;
        for hidden in self.places(text.as_bytes()) {
            // A spelling is text, so it begins and ends where characters do.
            out.push_str(&text[shown..hidden.start]);
            out.push_str(STARS);
            shown = hidden.end;
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
        let mut found: Vec<Range<usize>> = match &self.finder {
            Some(finder) => finder.find_overlapping_iter(bytes).map(|found| found.range()).collect(),
            None => Vec::new(),
        };
        found.sort_unstable_by_key(|range| range.start);
        found.dedup_by(|next, last| {
            let overlaps = next.start < last.end;
            if overlaps {
                last.end = last.end.max(next.end);
            }
            overlaps
        });
        found
    }

    /// Whether there is a secret in the text.
    #[must_use]
    pub fn finds(&self, text: &str) -> bool {
        self.finder.as_ref().is_some_and(|finder| finder.is_match(text))
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
        self.spellings.first().map_or(0, String::len)
    }

    /// How many bytes at the end of `text` may be the beginning of a secret.
    #[must_use]
    pub fn open_end(&self, text: &str) -> usize {
        let is_beginning = |end: &str| self.spellings.iter().any(|spelling| spelling.starts_with(end));
        let most = self.longest().saturating_sub(1);
        let starts = text.char_indices().map(|(at, _)| at).skip_while(|at| text.len() - at > most);
        starts.map(|at| &text[at..]).find(|end| is_beginning(end)).map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests;
