//! What tools answered, attempt by attempt, and what was put in the place of an answer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Scene;
use crate::id::CallId;
use crate::json::{input_hash, parse};
use crate::ledger::EntryStatus;
use crate::run::{Call, CallVerdict, ChildEnd, Event, KeyHolder, Reconciliation, Stage, SubmittedStatus};
use crate::template::{Filling, fill_value};
use crate::tool::{Attempt, ErrorCode, Reconciled, ResultStatus};

/// What an answer says.
struct Said<'a> {
    outcome: &'static str,
    attempt: u32,
    content: &'a str,
    error_code: Option<ErrorCode>,
}

/// An answer to a call.
pub(super) fn answer(scene: &Scene<'_>, event: &Event) -> Option<Value> {
    match event {
        Event::ToolAttempted { call, outcome, .. } => {
            told(scene, event, *call, attempted(scene, *call, outcome))
        }
        Event::ToolResultSubmitted { call, submitted, .. } => {
            let failed = submitted.status == SubmittedStatus::Failed;
            let error_code = failed.then(|| submitted.error_code.unwrap_or(ErrorCode::Internal));
            let content = &submitted.output.content;
            told(scene, event, *call, Said { outcome: "submitted", attempt: 1, content, error_code })
        }
        Event::CallDecided { call, verdict: CallVerdict::Answered(output), .. } => {
            let said = Said { outcome: "answered", attempt: 1, content: &output.content, error_code: None };
            told(scene, event, *call, said)
        }
        Event::ChildEnded { call, end, .. } => told(scene, event, *call, child(end)),
        Event::AgentFound { call, found: Err(why), .. } => {
            let error_code = Some(ErrorCode::NotFound);
            told(scene, event, *call, Said { outcome: "refused", attempt: 1, content: why, error_code })
        }
        Event::KeyTaken { call, holder, .. } if holder.same_input => told(scene, event, *call, held(holder)),
        Event::ToolReconciled { call, reconciliation, .. } => reconciled(scene, event, *call, reconciliation),
        _ => None,
    }
}

fn attempted<'a>(scene: &Scene<'_>, call: CallId, outcome: &'a Attempt) -> Said<'a> {
    let stage = scene.state.call(call).map(|call| &call.stage);
    let attempt = if let Some(Stage::Out { attempt, .. }) = stage { *attempt } else { 1 };
    let (outcome, content, error_code) = match outcome {
        Attempt::Succeeded(output) => {
            ("succeeded", &output.content, output.too_large.then_some(ErrorCode::OutputTooLarge))
        }
        Attempt::Refused(code, message) => ("refused", message, Some(*code)),
        Attempt::NotDone(code, message, _) => ("not_done", message, Some(*code)),
        Attempt::Unclear(code, message) => ("unclear", message, Some(*code)),
    };
    Said { outcome, attempt, content, error_code }
}

/// Another agent's run: what it came to plays in its place.
fn child(end: &ChildEnd) -> Said<'_> {
    let outcome = end.outcome(true);
    let (word, error_code) = match outcome.status {
        EntryStatus::Succeeded => ("succeeded", end.output.too_large.then_some(ErrorCode::OutputTooLarge)),
        EntryStatus::Uncertain => ("unclear", outcome.error_code),
        _ => ("refused", outcome.error_code),
    };
    Said { outcome: word, attempt: 1, content: &end.output.content, error_code }
}

/// An earlier call's outcome was taken: nothing was sent, attempt 0.
fn held(holder: &KeyHolder) -> Said<'_> {
    let result = &holder.result;
    let outcome = match result.status {
        ResultStatus::Succeeded => "succeeded",
        ResultStatus::Uncertain => "unclear",
        _ => "refused",
    };
    Said { outcome, attempt: 0, content: &result.content, error_code: result.error_code }
}

fn told(scene: &Scene<'_>, event: &Event, id: CallId, said: Said<'_>) -> Option<Value> {
    let call = scene.state.call(id)?;
    let input = scene.inputs.get(&id).cloned().unwrap_or_default();
    Some(row(scene, event, call, (&call.tool_name, input, call.input_hash.clone()), &said))
}

/// The far side was asked what became of a call: an answer of the tool that is asked.
fn reconciled(scene: &Scene<'_>, event: &Event, id: CallId, word: &Reconciliation) -> Option<Value> {
    let call = scene.state.call(id)?;
    let asked = scene.equipped.registry().tool(&call.tool_name)?.reconcile.as_ref()?;
    let secrets = BTreeMap::new();
    let with = Filling {
        input: scene.inputs.get(&id)?,
        context: scene.context,
        secrets: &secrets,
        idempotency_key: &call.idempotency_key,
    };
    let input = fill_value(&asked.input, &with).ok()?;
    let mut answer = json!({"state": word.state});
    if let (Reconciled::Applied, Some(output)) = (word.state, &word.result) {
        answer["result"] = parse(&output.content).unwrap_or_else(|_| output.content.clone().into());
    }
    let (hash, content) = (input_hash(&input), answer.to_string());
    let said = Said { outcome: "succeeded", attempt: 1, content: &content, error_code: None };
    Some(row(scene, event, call, (&asked.tool, input, hash), &said))
}

fn row(
    scene: &Scene<'_>,
    event: &Event,
    call: &Call,
    (tool_name, input, input_hash): (&str, Value, String),
    said: &Said<'_>,
) -> Value {
    json!({
        "step": scene.state.step,
        "tool_name": tool_name,
        "tool_call_id": call.id,
        "input": input,
        "input_hash": input_hash,
        "attempt": said.attempt,
        "outcome": said.outcome,
        "content": said.content,
        "error_code": said.error_code,
        "at_ms": scene.at_ms(event),
    })
}
