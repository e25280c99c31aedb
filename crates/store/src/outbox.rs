//! What webhooks are told: thin bodies of ids and states, and of a call's input only where the endpoint asks for it.

use answerable_core::id::{RunId, ThreadId};
use answerable_core::run::{ApprovalRow, EventType, RunState};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

/// What is told of a run (contract, "Shapes").
pub(crate) struct RunFacts(Value);

impl RunFacts {
    pub(crate) fn of(run_id: RunId, thread_id: Option<Uuid>, state: &RunState) -> Self {
        Self(json!({
            "id": run_id, "status": state.status, "stop_reason": state.end.as_ref().map(|end| end.reason),
            "thread_id": thread_id.map(ThreadId),
        }))
    }
}

/// What is told of an approval.
pub(crate) struct ApprovalFacts<'a> {
    pub(crate) row: &'a ApprovalRow,
    pub(crate) input: Option<&'a Value>,
}

/// The body of an event of a run, for endpoints that want no input and those that do.
pub(crate) fn run_event(kind: EventType, at: DateTime<Utc>, run: &RunFacts) -> (String, String) {
    let body = envelope(kind.as_str(), at, &json!({"run": run.0}));
    (body.clone(), body)
}

/// The bodies of `approval.requested`; `link` is where it can be decided without a key.
pub(crate) fn approval_requested(
    at: DateTime<Utc>,
    run: &RunFacts,
    facts: &ApprovalFacts<'_>,
    link: Option<&str>,
) -> (String, String) {
    let row = facts.row;
    let approval = json!({
        "id": row.id, "run_id": run.0["id"], "step": row.step, "tool_call_id": row.call, "kind": row.kind,
        "tool_name": row.tool_name, "input_hash": row.input_hash, "risk": row.risk, "reason": row.reason,
        "status": "pending", "required": row.required, "votes": [], "expires_at": time(row.expires_at),
    });
    let mut data = json!({"approval": approval, "run": run.0});
    if let Some(link) = link {
        data["decision_url"] = json!(link);
    }
    let thin = envelope(EventType::ApprovalRequested.as_str(), at, &data);
    if let Some(input) = facts.input {
        data["approval"]["input"] = input.clone();
    }
    (thin, envelope(EventType::ApprovalRequested.as_str(), at, &data))
}

/// The body of `approval.decided`, from the event's own data.
pub(crate) fn approval_decided(at: DateTime<Utc>, run: &RunFacts, event: &Value) -> (String, String) {
    let approval = json!({
        "id": event["approval_id"], "run_id": run.0["id"], "tool_call_id": event["tool_call_id"],
        "tool_name": event["tool_name"], "status": event["status"], "decided_by": event["by"], "reason": event["reason"],
    });
    let body =
        envelope(EventType::ApprovalDecided.as_str(), at, &json!({"approval": approval, "run": run.0}));
    (body.clone(), body)
}

/// `{type, timestamp, data}` (Standard Webhooks).
pub(crate) fn envelope(kind: &str, at: DateTime<Utc>, data: &Value) -> String {
    json!({"type": kind, "timestamp": at.to_rfc3339_opts(SecondsFormat::Millis, true), "data": data})
        .to_string()
}

fn time(at: answerable_core::Millis) -> String {
    crate::commit::moment(at).to_rfc3339_opts(SecondsFormat::Millis, true)
}
