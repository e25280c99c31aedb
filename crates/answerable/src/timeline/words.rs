//! Words for numbers, durations and the texts of others.

use chrono::TimeDelta;
use serde_json::Value;

/// Longest text, in characters, that a line repeats of what a model, a tool or a person said.
pub(super) const LONGEST_TEXT: usize = 160;

pub(super) fn used(run: &Value) -> String {
    let used = run.pointer("/budgets/used").unwrap_or(&Value::Null);
    let count = |name, one: &str, many: &str| {
        number(used, name).map(|n| format!("{n} {}", if n == "1" { one } else { many }))
    };
    let elapsed = used.get("elapsed_ms").and_then(Value::as_i64).map(|ms| brief(TimeDelta::milliseconds(ms)));
    [
        count("steps", "step", "steps"),
        count("tool_calls", "tool call", "tool calls"),
        tokens(used),
        elapsed,
        cost(used),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(" · ")
}

pub(super) fn tokens(data: &Value) -> Option<String> {
    let read = field(data, "input_tokens").and_then(Value::as_u64)?;
    let written = field(data, "output_tokens").and_then(Value::as_u64)?;
    Some(format!("{read} + {written} tokens"))
}

pub(super) fn cost(data: &Value) -> Option<String> {
    let micro = field(data, "cost_microusd").and_then(Value::as_u64).filter(|cost| *cost > 0)?;
    Some(format!("${}.{:06}", micro / 1_000_000, micro % 1_000_000))
}

/// A field of an event's data, or of the decision, result or usage that the data holds.
pub(super) fn field<'a>(data: &'a Value, name: &str) -> Option<&'a Value> {
    let inner = ["decision", "result", "usage"].into_iter().filter_map(|part| data.get(part)?.get(name));
    data.get(name).into_iter().chain(inner).find(|value| !value.is_null())
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

pub(super) fn number(value: &Value, name: &str) -> Option<String> {
    value.get(name).filter(|value| value.is_number()).map(ToString::to_string)
}

pub(super) fn after(before: &str, words: Option<&str>) -> String {
    words.map(|words| format!("{before}{}", shown(words))).unwrap_or_default()
}

/// Text of others on one line: nothing in it reaches the terminal as a control sequence.
pub(super) fn shown(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut chars = printable(&line).chars().collect::<Vec<_>>();
    if chars.len() > LONGEST_TEXT {
        chars.truncate(LONGEST_TEXT - 1);
        chars.push('…');
    }
    chars.into_iter().collect()
}

/// Text of others with its lines kept and every other control character replaced.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

pub(super) fn seconds(since: TimeDelta) -> String {
    format!("{:.3}s", since.num_milliseconds().max(0) as f64 / 1000.0)
}

/// A duration as people say it: `31 ms`, `5.1 s`, `3 min 20 s`.
pub(super) fn brief(took: TimeDelta) -> String {
    match took.num_milliseconds().max(0) {
        ms @ 0..1000 => format!("{ms} ms"),
        ms @ 1000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        ms => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}
