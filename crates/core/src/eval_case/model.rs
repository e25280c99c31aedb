//! What models said, attempt by attempt.

use serde_json::{Value, json};

use super::Scene;
use crate::model::FailureKind;
use crate::registry::Validation;
use crate::run::{Event, NewCall, ReplyFacts};

/// An attempt on a model that came to an end.
pub(super) fn attempt(scene: &Scene<'_>, event: &Event) -> Option<Value> {
    let mut told = match event {
        Event::ModelReplied { reply, calls, .. } => replied(reply, calls),
        Event::Summarized { reply, .. } => replied(reply, &[]),
        // Nobody was asked.
        Event::ModelFailed { failure, .. } | Event::SummaryFailed { failure, .. }
            if failure.kind == FailureKind::Held =>
        {
            return None;
        }
        Event::ModelFailed { failure, .. } | Event::SummaryFailed { failure, .. } => json!({"error": {
            "kind": failure.kind, "status": failure.status, "message": failure.message,
        }}),
        _ => return None,
    };
    let (state, spec) = (&scene.state, &scene.equipped.registry().spec.model);
    let (provider, model) = spec.target(state.model.target).unwrap_or((&spec.provider, &spec.model));
    if state.is_summing_up() {
        // It comes before the step.
        told["step"] = json!(state.step.saturating_add(1));
        told["purpose"] = json!("summary");
    } else {
        told["step"] = json!(state.step);
    }
    told["attempt"] = json!(state.model.attempts + 1);
    told["provider"] = json!(provider);
    told["model"] = json!(model);
    Some(told)
}

fn replied(reply: &ReplyFacts, calls: &[NewCall]) -> Value {
    json!({
        "kind": reply.kind,
        "text": reply.text,
        "tool_calls": calls.iter().map(call).collect::<Vec<_>>(),
        "finish_reason": reply.finish_reason,
        "usage": {
            "input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens,
            "cached_input_tokens": reply.usage.cached_input_tokens, "estimated": reply.usage.estimated,
        },
        "duration_ms": reply.duration_ms,
    })
}

/// The id is the runtime's own, by which answers and decisions name the call.
fn call(call: &NewCall) -> Value {
    let mut told = json!({"name": call.tool_name, "arguments": call.input, "id": call.id});
    if call.validation != Validation::Ok {
        told["validation"] = json!(call.validation);
    }
    told
}
