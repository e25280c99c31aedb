//! What was seen of a case that was played.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

/// What was seen, in the API's own forms. Where a case's run was continued or forked, `run` and `steps` are the last
/// one's, and the lists are of all.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The Run.
    pub run: Value,
    /// Its steps.
    pub steps: Vec<Value>,
    /// The ledger.
    pub ledger: Vec<Value>,
    /// Questions to people.
    pub approvals: Vec<Value>,
    /// Outputs that were kept.
    pub artifacts: Vec<Value>,
    /// What the model was shown, request by request; the messages, where its requests weren't seen.
    pub shown: Vec<Shown>,
    /// Requests that the scripted models got, if there were any to get them.
    pub model_requests: Option<u64>,
    /// What reached the scripted tools, by name; `None` where they were others'.
    pub tools: Option<BTreeMap<String, Traffic>>,
    /// From the start to the end.
    pub took: Duration,
    /// What went wrong in the playing, each a finding.
    pub troubles: Vec<String>,
}

/// What reached one scripted tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests.
    pub requests: u64,
    /// How often it did what it is for.
    pub effects: u64,
}

/// What the model was shown at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// The roles of the messages.
    pub roles: Vec<String>,
    /// The words of the messages, calls included, one below another.
    pub text: String,
}

impl Shown {
    /// What a list of messages says, be they a provider's or the API's own.
    #[must_use]
    pub fn of(messages: &[Value]) -> Self {
        let role = |message: &Value| Some(message.get("role")?.as_str()?.to_owned());
        let words: Vec<String> = messages.iter().flat_map(words).collect();
        Self { roles: messages.iter().filter_map(role).collect(), text: words.join("\n") }
    }
}

fn words(message: &Value) -> Vec<String> {
    let mut words = Vec::new();
    match message.get("content") {
        Some(Value::String(text)) => words.push(text.clone()),
        Some(Value::Array(parts)) => {
            words.extend(parts.iter().filter_map(|part| Some(part.get("text")?.as_str()?.to_owned())));
        }
        _ => {}
    }
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = call.get("function").unwrap_or(call);
        let part = |names: [&str; 2]| match names.iter().find_map(|name| function.get(name)) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        words.push(format!("{} {}", part(["name", "tool_name"]), part(["arguments", "input"])));
    }
    words
}

impl Observed {
    /// A text of the run.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.run.get(name)?.as_str()
    }

    /// What the run used of something.
    #[must_use]
    pub fn used(&self, name: &str) -> u64 {
        self.run.pointer("/budgets/used").and_then(|used| used.get(name)?.as_u64()).unwrap_or(0)
    }
}
