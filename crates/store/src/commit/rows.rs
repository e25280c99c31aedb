//! Rows as `commit_run` reads them.

use answerable_core::Millis;
use answerable_core::id::CallId;
use answerable_core::json::sha256_hex;
use answerable_core::message::Message;
use answerable_core::run::{ApprovalRow, CallRow, Decision, LedgerRow, StepModel};
use answerable_faults::{self as faults, Guard};
use answerable_ports::commit::StoredArtifact;
use base64::Engine as _;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::{Value, json};

use crate::load::More;

/// Serialisation of own types can't fail: they have string keys and no odd numbers.
pub(super) fn plain<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

pub(crate) fn moment(at: Millis) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at).unwrap_or_default()
}

pub(super) fn time(at: Millis) -> String {
    moment(at).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A message as `write_messages` reads it.
pub(crate) fn message_row(message: &Message) -> Value {
    let mut row = json!({
        "seq": message.seq, "message_id": message.id.0, "role": message.role, "content": message.content,
        "tool_call_id": message.tool_call_id.map(|id| id.0), "step": message.step, "extra": message.extra,
    });
    if !message.tool_calls.is_empty() {
        row["tool_calls"] = plain(&message.tool_calls);
    }
    if let Some(more) = More::of(message) {
        row["more"] = plain(&more);
    }
    row
}

pub(super) fn model_row(number: u32, model: &StepModel) -> Value {
    let mut plain = plain(model);
    let failure = plain.as_object_mut().and_then(|map| map.remove("failure"));
    json!({"number": number, "model": plain, "failures": failure.into_iter().collect::<Vec<_>>()})
}

pub(super) fn call_row(row: &CallRow) -> Value {
    json!({
        "step": row.step, "index": row.index, "call_id": row.id.0, "model_call_id": row.model_call_id,
        "tool_name": row.tool_name, "input": row.input, "input_hash": row.input_hash, "validation": row.validation,
        "client": row.client,
    })
}

pub(super) fn decided(call: CallId, decision: &Decision) -> Value {
    let mut plain = plain(decision);
    plain["decided_at"] = json!(time(decision.decided_at));
    json!({"call_id": call.0, "decision": plain})
}

pub(super) fn ledger_row(row: &LedgerRow) -> Value {
    json!({
        "ledger_id": row.id.0, "call_id": row.call.0, "step": row.step, "tool_name": row.tool_name,
        "input_hash": row.input_hash, "idempotency_key": row.idempotency_key, "business_key": row.business_key && !faults::without(Guard::BusinessKeys),
        "writes": row.writes, "until": time(row.until), "approval_id": row.approval.map(|id| id.0),
    })
}

pub(super) fn approval_row(row: &ApprovalRow) -> Value {
    json!({
        "approval_id": row.id.0, "call_id": row.call.map(|id| id.0), "step": row.step, "kind": row.kind,
        "tool_name": row.tool_name, "input_hash": row.input_hash, "risk": row.risk, "reason": row.reason,
        "required": row.required, "expires_at": time(row.expires_at), "tool_version": row.tool_version,
        "self_approval": row.self_approval,
    })
}

pub(super) fn artifact(artifact: &StoredArtifact) -> Value {
    json!({
        "artifact_id": artifact.id.0, "call_id": artifact.call_id.0, "media_type": artifact.media_type,
        "sha256": sha256_hex(&artifact.content),
        "content": base64::engine::general_purpose::STANDARD.encode(&artifact.content),
    })
}
