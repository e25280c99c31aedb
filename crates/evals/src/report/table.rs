//! The report as a table for a terminal.

use std::time::Duration;

use super::{CaseReport, Report, Verdict};

/// Longest name that has a column to itself, in characters.
const WIDEST_NAME: usize = 72;

/// What a line is painted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    Plain,
    /// Less than the rest.
    Faint,
    /// It is well.
    Good,
    /// It is not.
    Bad,
}

/// The lines of a table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    name_width: usize,
    pass_rate: f64,
}

impl Table {
    /// A table with room for these names.
    pub fn new<'n>(names: impl Iterator<Item = &'n str>, pass_rate: f64) -> Self {
        let widest = names.map(|name| name.chars().count()).max().unwrap_or(0);
        Self { name_width: widest.clamp(4, WIDEST_NAME), pass_rate }
    }

    /// The line above all others.
    #[must_use]
    pub fn head(&self) -> String {
        self.line("case", "result", ["steps", "calls", "tokens", "cost", "time"].map(str::to_owned))
    }

    /// A case: its line, then a line for each finding or for the reason why it was not played.
    #[must_use]
    pub fn rows(&self, case: &CaseReport) -> Vec<(String, Tone)> {
        let verdict = case.verdict(self.pass_rate);
        let result = match (verdict, case.plays.len()) {
            (_, 2..) => format!("{} {}/{}", verdict.word(), case.passed(), case.plays.len()),
            (verdict, _) => verdict.word().to_owned(),
        };
        let run = case.telling().and_then(|play| play.run.as_ref());
        let numbers = match run {
            Some(run) => [
                run.steps.to_string(),
                run.tool_calls.to_string(),
                run.tokens.to_string(),
                dollars(run.cost_microusd),
                seconds(case.took()),
            ],
            None if case.plays.is_empty() => [const { String::new() }; 5],
            None => ["", "", "", "", &seconds(case.took())].map(str::to_owned),
        };
        let tone = match verdict {
            Verdict::Passed => Tone::Plain,
            Verdict::Failed => Tone::Bad,
            Verdict::Skipped => Tone::Faint,
        };
        let mut rows = vec![(self.line(&case.name, &result, numbers), tone)];
        rows.extend(case.skipped.iter().map(|reason| (format!("    {reason}"), Tone::Faint)));
        rows.extend(findings(case));
        rows
    }

    fn line(&self, name: &str, result: &str, numbers: [String; 5]) -> String {
        let [steps, calls, tokens, cost, time] = numbers;
        let width = self.name_width;
        let line =
            format!("{name:<width$}  {result:<12} {steps:>5} {calls:>5} {tokens:>8} {cost:>10} {time:>8}");
        line.trim_end().to_owned()
    }
}

/// The findings of all plays, each told once.
fn findings(case: &CaseReport) -> Vec<(String, Tone)> {
    let mut told: Vec<(String, usize)> = Vec::new();
    for finding in case.plays.iter().flat_map(|play| &play.findings) {
        // It may tell of what a model or a tool said: nothing in it reaches the terminal as a control sequence.
        let line = finding.to_string().replace(char::is_control, "\u{fffd}");
        match told.iter_mut().find(|(known, _)| *known == line) {
            Some((_, times)) => *times += 1,
            None => told.push((line, 1)),
        }
    }
    let times = |times: usize| if case.plays.len() > 1 { format!(" ({times}×)") } else { String::new() };
    told.into_iter().map(|(line, n)| (format!("    {line}{}", times(n)), Tone::Bad)).collect()
}

/// The last line: how many there were of each.
#[must_use]
pub fn summary(report: &Report) -> (String, Tone) {
    let count = |verdict: Verdict| report.count(verdict);
    let mut parts = vec![format!("{} passed", count(Verdict::Passed))];
    for verdict in [Verdict::Failed, Verdict::Skipped] {
        if count(verdict) > 0 {
            parts.push(format!("{} {}", count(verdict), verdict.word()));
        }
    }
    let tone = if count(Verdict::Failed) > 0 { Tone::Bad } else { Tone::Good };
    (format!("{} in {}", parts.join(", "), seconds(report.took)), tone)
}

fn dollars(microusd: u64) -> String {
    if microusd == 0 {
        "–".to_owned()
    } else {
        format!("${}.{:06}", microusd / 1_000_000, microusd % 1_000_000)
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.2} s", took.as_secs_f64())
}
