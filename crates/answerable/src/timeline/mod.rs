//! A run's events as lines for a terminal: steps, model calls, decisions, tool calls, how long and how much.
//!
//! Takes events and runs as the HTTP API sends them. What an event doesn't say is left out of its line, and
//! an event of an unknown type is shown by its name, so that it works with servers of other versions.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

mod lines;
mod words;

use lines::{
    approval_line, context_line, decision_line, model_line, run_line, summary_line, tool_line, tools_line,
};
pub use words::printable;
use words::{after, brief, field, number, seconds, shown, text, used};

/// Turns the events of one run, in order, into lines.
#[derive(Debug, Default)]
pub struct Timeline {
    color: bool,
    first: Option<DateTime<Utc>>,
    begun: HashMap<String, DateTime<Utc>>,
}

/// What a line is painted for.
#[derive(Clone, Copy)]
enum Tone {
    Plain,
    Faint,
    Good,
    Bad,
    Waiting,
    Heading,
}

/// Label, words and tone of a line.
type Line = (&'static str, String, Tone);

impl Timeline {
    /// A timeline that has seen nothing yet; `color` uses the terminal's colours.
    #[must_use]
    pub fn new(color: bool) -> Self {
        Self { color, ..Self::default() }
    }

    /// The line for the next event; `None` for those that only live streams have.
    pub fn line(&mut self, event: &Value) -> Option<String> {
        let kind = text(event, "type")?;
        if kind == "model.delta" {
            return None;
        }
        let at = text(event, "at").and_then(|at| at.parse::<DateTime<Utc>>().ok());
        let since = at.map(|at| at - *self.first.get_or_insert(at)).unwrap_or_default();
        let (label, words, tone) = self.describe(kind, event, at);
        let line = format!("{:>9}  {label:<10} {words}", seconds(since));
        Some(self.painted(line.trim_end(), tone))
    }

    fn describe(&mut self, kind: &str, event: &Value, at: Option<DateTime<Utc>>) -> Line {
        let data = event.get("data").unwrap_or(&Value::Null);
        match kind.split_once('.').unwrap_or((kind, "")) {
            ("step", "started") => ("step", number(event, "step").unwrap_or_default(), Tone::Heading),
            ("run", what) => run_line(what, data),
            ("model", what) => {
                let took = self.took(format!("model {:?}", event.get("step")), what, data, at);
                model_line(what, data, took)
            }
            ("permission", "decided") => decision_line(data),
            ("tool", what) => {
                let call = format!("tool {}", text(data, "tool_call_id").unwrap_or_default());
                let took = self.took(call, what, data, at);
                tool_line(what, data, took)
            }
            ("approval", what) => approval_line(what, data),
            ("tools", "listed") => tools_line(data),
            ("context", "built") => context_line(data),
            ("context", what) => summary_line(what, data),
            ("checkpoint", "saved") => ("checkpoint", "saved".to_owned(), Tone::Faint),
            _ => ("", shown(kind), Tone::Faint),
        }
    }

    /// How long something took that is completed: as the event says, else the time since it began.
    fn took(&mut self, what: String, event: &str, data: &Value, at: Option<DateTime<Utc>>) -> Option<String> {
        match event {
            "started" => {
                let at = at?;
                self.begun.entry(what).or_insert(at);
                None
            }
            "completed" => {
                let begun = self.begun.remove(&what);
                let said = field(data, "duration_ms").and_then(Value::as_i64).map(TimeDelta::milliseconds);
                said.or_else(|| Some(at? - begun?)).map(brief)
            }
            _ => None,
        }
    }

    fn painted(&self, line: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Plain => return line.to_owned(),
            _ if !self.color => return line.to_owned(),
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Waiting => "33",
            Tone::Heading => "1",
        };
        format!("\u{1b}[{code}m{line}\u{1b}[0m")
    }

    /// The end of a run in a few lines: how it ended, what it used, its answer. `run` is the Run as the API
    /// shows it.
    #[must_use]
    pub fn summary(&self, run: &Value) -> String {
        let status = text(run, "status").unwrap_or("unknown");
        let tone = match status {
            "finished" => Tone::Good,
            "failed" | "cancelled" => Tone::Bad,
            _ => Tone::Waiting,
        };
        let reason = text(run, "stop_reason").filter(|reason| *reason != "final_answer" && *reason != status);
        let ending =
            reason.map_or_else(|| shown(status), |reason| format!("{}: {}", shown(status), shown(reason)));
        let mut lines = vec![self.painted(&format!("{ending} · {}", used(run)), tone)];
        if let Some(answer) = text(run, "final_answer") {
            lines.push(printable(answer));
        }
        for denied in run.get("denied").and_then(Value::as_array).into_iter().flatten() {
            let tool = text(denied, "tool_name").unwrap_or("a call");
            lines.push(format!("refused: {}{}", shown(tool), after(": ", text(denied, "reason"))));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests;
