//! What came of all cases, and the forms in which it is told.

mod json;
mod junit;
mod table;

use std::time::Duration;

use crate::{Finding, Observed};

pub use json::to_json;
pub use junit::to_junit;
pub use table::{Table, Tone, summary};

/// What came of all cases.
#[derive(Debug, Clone)]
pub struct Report {
    /// Each case, in the order of the files.
    pub cases: Vec<CaseReport>,
    /// The share of plays of a case that must pass, 0 to 1.
    pub pass_rate: f64,
    /// From the first to the last.
    pub took: Duration,
}

/// What came of one case.
#[derive(Debug, Clone)]
pub struct CaseReport {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Each time that it was played; none, where it was not.
    pub plays: Vec<Play>,
    /// Why it was not played.
    pub skipped: Option<String>,
}

/// What came of a case once.
#[derive(Debug, Clone, Default)]
pub struct Play {
    /// What did not hold; nothing, if it passed.
    pub findings: Vec<Finding>,
    /// The run in numbers; `None` where there was none.
    pub run: Option<RunSummary>,
    /// From the start to the end.
    pub took: Duration,
    /// What happened in the run, line by line; of one that failed only.
    pub story: Vec<String>,
}

/// A run in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: String,
    /// Its stop reason.
    pub stop_reason: Option<String>,
    /// Steps.
    pub steps: u64,
    /// Executed calls.
    pub tool_calls: u64,
    /// Tokens in and out.
    pub tokens: u64,
    /// Money, in micro-USD.
    pub cost_microusd: u64,
}

impl RunSummary {
    /// The numbers of what was seen.
    #[must_use]
    pub fn of(observed: &Observed) -> Self {
        let text = |name: &str| observed.text(name).map(str::to_owned);
        Self {
            id: text("id").unwrap_or_default(),
            status: text("status").unwrap_or_default(),
            stop_reason: text("stop_reason"),
            steps: observed.used("steps"),
            tool_calls: observed.used("tool_calls"),
            tokens: observed.used("tokens"),
            cost_microusd: observed.used("cost_microusd"),
        }
    }
}

/// What is said of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It passed, often enough.
    Passed,
    /// It failed, too often.
    Failed,
    /// It was not played.
    Skipped,
}

impl Verdict {
    /// As a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl Play {
    /// Whether all held.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }

    /// Puts three stars in the place of each of these texts, wherever one stands.
    pub fn mask(&mut self, secrets: &[&str]) {
        let findings = self.findings.iter_mut();
        let texts =
            findings.flat_map(|finding| [&mut finding.expected, &mut finding.got]).chain(&mut self.story);
        for text in texts {
            for secret in secrets {
                if text.contains(secret) {
                    *text = text.replace(secret, "***");
                }
            }
        }
    }
}

impl CaseReport {
    /// How many plays passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.plays.iter().filter(|play| play.passed()).count()
    }

    /// The share of plays that passed, 0 to 1.
    #[must_use]
    pub fn rate(&self) -> f64 {
        // Both are far below what a double holds.
        if self.plays.is_empty() { 0.0 } else { self.passed() as f64 / self.plays.len() as f64 }
    }

    /// What is said of it where so many plays must pass.
    #[must_use]
    pub fn verdict(&self, pass_rate: f64) -> Verdict {
        match () {
            () if self.plays.is_empty() => Verdict::Skipped,
            () if self.rate() >= pass_rate => Verdict::Passed,
            () => Verdict::Failed,
        }
    }

    /// The play that is told of first: one that failed, else the last.
    fn telling(&self) -> Option<&Play> {
        self.plays.iter().find(|play| !play.passed()).or(self.plays.last())
    }

    fn took(&self) -> Duration {
        self.plays.iter().map(|play| play.took).sum()
    }
}

impl Report {
    /// How many cases have this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.verdict(self.pass_rate) == verdict).count()
    }
}

#[cfg(test)]
mod tests;
