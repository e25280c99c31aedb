//! The first difference between what a run did and what its replay did, by step and field.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::story::{CallStory, ResultStory, StepStory, Story};
use crate::text;

/// Code points of a text that are told of a difference.
const MAX_TOLD: usize = 2_000;

/// The first thing that came out otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The step; `None`: the run's end.
    pub step: Option<u32>,
    /// The field of the step, or of the run, as the API shows them: `tool_calls[0].result.status`. Contexts and failed
    /// attempts are told by their number, contents of results by their hash; the effects of a decision in their order.
    pub field: String,
    /// What was recorded.
    pub expected: Value,
    /// What the replay did.
    pub got: Value,
}

/// What differs first: within a step first what the model was shown, then what it said, then its calls.
pub fn first_difference(recorded: &Story, replayed: &Story) -> Option<Difference> {
    let numbers = recorded.steps.keys().chain(replayed.steps.keys());
    let last = numbers.clone().max().copied();
    let first = numbers.min().copied();
    for number in first.into_iter().flat_map(|first| first..=last.unwrap_or(first)) {
        let mut fields = Fields::default();
        match (recorded.steps.get(&number), replayed.steps.get(&number)) {
            (Some(expected), Some(got)) => step(&mut fields, expected, got),
            (expected, got) => {
                let there = |step: Option<&StepStory>| step.map(|_| "completed");
                fields.compare("status", &there(expected), &there(got));
            }
        }
        if let Some((field, expected, got)) = fields.found {
            return Some(Difference { step: Some(number), field, expected, got });
        }
    }
    let mut fields = Fields::default();
    end(&mut fields, recorded, replayed);
    fields.found.map(|(field, expected, got)| Difference { step: None, field, expected, got })
}

fn step(fields: &mut Fields, expected: &StepStory, got: &StepStory) {
    fields.compare("context.tokens", &expected.context.tokens, &got.context.tokens);
    fields.compare("context.included", &expected.context.included, &got.context.included);
    fields.compare("context.omitted", &expected.context.omitted, &got.context.omitted);
    for (i, (expected, got)) in expected.failures.iter().zip(&got.failures).enumerate() {
        fields.compare(&format!("model.failures[{i}].error"), expected, got);
    }
    fields.compare("model.failures", &expected.failures.len(), &got.failures.len());
    fields.compare("model.finish_reason", &expected.finish_reason, &got.finish_reason);
    for (i, (expected, got)) in expected.calls.iter().zip(&got.calls).enumerate() {
        call(fields, &format!("tool_calls[{i}]"), expected, got);
    }
    fields.compare("tool_calls", &expected.calls.len(), &got.calls.len());
}

fn call(fields: &mut Fields, at: &str, expected: &CallStory, got: &CallStory) {
    let mut compare = |name: &str, expected: Value, got: Value| {
        fields.compare(&format!("{at}.{name}"), &expected, &got);
    };
    compare("tool_name", json!(expected.tool_name), json!(got.tool_name));
    compare("input_hash", json!(expected.input_hash), json!(got.input_hash));
    compare("validation", json!(expected.validation), json!(got.validation));
    compare("decision.effect", effects(expected), effects(got));
    let rule = |call: &CallStory| call.decision.map(|(_, rule)| rule);
    compare("decision.rule", json!(rule(expected)), json!(rule(got)));
    let ran = |call: &CallStory| call.edited_hash.clone();
    if ran(expected) != ran(got) {
        let hash = |call: &CallStory| json!(ran(call).unwrap_or_else(|| call.input_hash.clone()));
        compare("input_hash", hash(expected), hash(got));
    }
    let result = |call: &CallStory, name: fn(&ResultStory) -> Value| call.result.as_ref().map(name);
    for (name, part) in [
        ("result.status", (|result| json!(result.status)) as fn(&ResultStory) -> Value),
        ("result.error_code", |result| json!(result.error_code)),
        ("result.content", |result| json!(result.content_hash)),
    ] {
        compare(name, json!(result(expected, part)), json!(result(got, part)));
    }
}

/// What the gate said, and what came of it where people were asked: `"allow"`, `["ask", "allow"]`.
fn effects(call: &CallStory) -> Value {
    let decided = call.decision.map(|(effect, _)| effect.as_str());
    match decided {
        Some(effect) if call.asked && effect != "ask" => json!(["ask", effect]),
        decided => json!(decided),
    }
}

fn end(fields: &mut Fields, recorded: &Story, replayed: &Story) {
    let (expected, got) = (&recorded.end, &replayed.end);
    fields.compare("status", &expected.status, &got.status);
    fields.compare("stop_reason", &expected.stop_reason, &got.stop_reason);
    fields.compare("error.code", &expected.error_code, &got.error_code);
    fields.compare("final_answer", &expected.final_answer, &got.final_answer);
    let (expected, got) = (&expected.used, &got.used);
    fields.compare("budgets.used.steps", &expected.steps, &got.steps);
    fields.compare("budgets.used.input_tokens", &expected.input_tokens, &got.input_tokens);
    fields.compare("budgets.used.output_tokens", &expected.output_tokens, &got.output_tokens);
    fields.compare("budgets.used.tool_calls", &expected.tool_calls, &got.tool_calls);
    fields.compare("budgets.used.cost_microusd", &expected.cost_microusd, &got.cost_microusd);
}

/// The first field that was found to differ.
#[derive(Default)]
struct Fields {
    found: Option<(String, Value, Value)>,
}

impl Fields {
    fn compare<T: PartialEq + Serialize>(&mut self, field: &str, expected: &T, got: &T) {
        if self.found.is_none() && expected != got {
            self.found = Some((field.to_owned(), told(expected), told(got)));
        }
    }
}

fn told<T: Serialize>(value: &T) -> Value {
    match serde_json::to_value(value).unwrap_or_default() {
        Value::String(long) => text::head(&long, MAX_TOLD).into(),
        other => other,
    }
}
