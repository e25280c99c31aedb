//! What must hold, compared with what was seen.

mod answer;
mod evidence;
mod tools;

use std::fmt;

use crate::case::{Expect, Range};
use crate::{Observed, calls, shown};

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where in the case it is expected, such as `expect.tools.called[0]`.
    pub place: String,
    /// What is expected; empty, where all that is to say is what was wrong.
    pub expected: String,
    /// What there was.
    pub got: String,
}

impl Finding {
    /// Something that kept the case from being played as it says.
    #[must_use]
    pub fn trouble(what: impl Into<String>) -> Self {
        Self { place: "play".to_owned(), expected: String::new(), got: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, expected, got } = self;
        if expected.is_empty() {
            write!(f, "{place}: {got}")
        } else {
            write!(f, "{place}: expected {expected}, got {got}")
        }
    }
}

/// Every expectation that does not hold, in the order of the format.
#[must_use]
pub fn check(expect: &Expect, observed: &Observed) -> Vec<Finding> {
    let mut findings = Findings(observed.troubles.iter().map(Finding::trouble).collect());
    ending(expect, observed, &mut findings);
    if let Some(answer) = &expect.answer {
        answer::check(answer, observed.text("final_answer"), &mut findings);
    }
    let calls = calls::of(observed);
    if let Some(tools) = &expect.tools {
        tools::check(tools, &calls, &mut findings);
    }
    tools::check_denied(expect, &calls, &mut findings);
    if let Some(entries) = &expect.ledger {
        evidence::check_ledger(entries, &observed.ledger, &mut findings);
    }
    evidence::check_traffic(expect, observed, &mut findings);
    evidence::check_counts(expect, observed, &mut findings);
    if let Some(saw) = &expect.model_saw {
        evidence::check_shown(saw, &observed.shown, &mut findings);
    }
    findings.0
}

/// How the run ended; that it ended, where nothing else is said.
fn ending(expect: &Expect, observed: &Observed, findings: &mut Findings) {
    let status = observed.text("status").unwrap_or("unknown");
    match &expect.status {
        Some(expected) => findings.same("status", expected, Some(status)),
        None if matches!(status, "finished" | "failed" | "cancelled") => {}
        None => findings.add("expect.status", "a run that ends", status),
    }
    if let Some(expected) = &expect.stop_reason {
        findings.same("stop_reason", expected, observed.text("stop_reason"));
    }
    if let Some(expected) = &expect.error_code {
        let code = observed.run.pointer("/error/code").and_then(serde_json::Value::as_str);
        findings.same("error_code", expected, code);
    }
}

/// Findings while they are gathered.
#[derive(Debug)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, place: impl Into<String>, expected: impl Into<String>, got: impl Into<String>) {
        self.0.push(Finding { place: place.into(), expected: expected.into(), got: got.into() });
    }

    /// Adds one unless a text is as expected.
    fn same(&mut self, name: &str, expected: &str, got: Option<&str>) {
        if got != Some(expected) {
            self.add(format!("expect.{name}"), expected, got.unwrap_or("none"));
        }
    }

    /// Adds one unless a count is as expected.
    fn count(&mut self, place: &str, expected: Option<&Range>, got: u64) {
        if let Some(expected) = expected.filter(|range| !range.has(got)) {
            self.add(format!("expect.{place}"), expected.to_string(), got.to_string());
        }
    }

    /// Adds one for each word that a text must have and hasn't, or must not have and has.
    fn words(&mut self, place: &str, words: &[String], text: &str, wanted: bool) {
        for word in words.iter().filter(|word| text.contains(word.as_str()) != wanted) {
            let expected = if wanted { "in it" } else { "nowhere in it" };
            let got = shown::quoted(&around(text, word));
            self.add(format!("expect.{place}"), format!("{} {expected}", shown::quoted(word)), got);
        }
    }
}

/// The part of a text around a word, or its beginning.
fn around(text: &str, word: &str) -> String {
    const BEFORE: usize = 60;
    let at = text.find(word).unwrap_or(0);
    let begin = text[..at].char_indices().rev().nth(BEFORE).map_or(0, |(begin, _)| begin);
    let dots = if begin > 0 { "…" } else { "" };
    format!("{dots}{}", &text[begin..])
}

#[cfg(test)]
mod tests;
