//! Words as labels. Each label has so many values and no more, whatever tenants, their models and their clients say.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// What stands for all that is not named.
pub(super) const OTHER: &str = "other";
/// Longest name that is shown, in bytes.
const LONGEST: usize = 80;

/// Names that others choose: the first so many are shown as they are.
#[derive(Debug)]
pub(super) struct Capped {
    most: usize,
    shown: Mutex<HashSet<String>>,
}

impl Capped {
    pub(super) fn at(most: usize) -> Self {
        Self { most, shown: Mutex::default() }
    }

    pub(super) fn label(&self, name: &str) -> String {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.contains(name) {
            return name.to_owned();
        }
        if name.is_empty() || name.len() > LONGEST || shown.len() >= self.most {
            return OTHER.to_owned();
        }
        shown.insert(name.to_owned());
        name.to_owned()
    }
}

/// The word if it is one of those.
pub(super) fn one_of<'a>(known: &[&'a str], word: &str) -> &'a str {
    known.iter().copied().find(|known| *known == word).unwrap_or(OTHER)
}

/// Who speaks a wire, as spans name it.
pub(super) fn provider(name: &str) -> &'static str {
    one_of(&["openai", "anthropic", "scripted"], name)
}

/// HTTP statuses that are told apart; of the others their class is named.
const STATUSES: [&str; 16] = [
    "400", "401", "402", "403", "404", "408", "409", "413", "422", "429", "500", "501", "502", "503", "504",
    "529",
];

/// Why an operation failed. The runtime's own words are few; `words` holds if that should ever not be so. Statuses are
/// whatever the far side makes up.
pub(super) fn error(word: &str, words: &Capped) -> String {
    let is_status = word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    if !is_status {
        return words.label(word);
    }
    match STATUSES.iter().find(|known| **known == word) {
        Some(known) => (*known).to_owned(),
        None => format!("{}xx", &word[..1]),
    }
}

/// The method, or what the conventions put for one that nobody knows.
pub(super) fn method(method: &str) -> &'static str {
    match method {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "_OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_over_the_cap_are_one() {
        let models = Capped::at(2);
        assert_eq!(
            ["a", "b", "c", "a", "d", "b"].map(|name| models.label(name)),
            ["a", "b", "other", "a", "other", "b"]
        );
        assert_eq!(Capped::at(9).label(&"m".repeat(81)), "other");
        assert_eq!(Capped::at(9).label(""), "other");
    }

    #[test]
    fn words_of_others_are_one() {
        let words = Capped::at(1);
        let errors = ["429", "TIMEOUT", "451", "799", "run_1"].map(|word| error(word, &words));
        assert_eq!(errors, ["429", "TIMEOUT", "4xx", "7xx", "other"]);
        assert_eq!(["GET", "BREW"].map(method), ["GET", "_OTHER"]);
        assert_eq!(["openai", "a shop"].map(provider), ["openai", "other"]);
    }
}
