//! What a run leaves behind: messages, steps, ledger, artifacts, checkpoints, events.

use answerable_core::id::{ArtifactId, CallId, EventId, LedgerId, MessageId, RunId};
use answerable_core::json;
use answerable_core::message::{self, MessageCall};
use answerable_store::{
    ArtifactRecord, CheckpointRecord, EventRecord, LedgerRecord, MessageRecord, StepRecord,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::calls::ToolCall;
use super::{Time, content, text};
use crate::body::RequestBody;

/// A message as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Message {
    id: MessageId,
    seq: Option<i64>,
    role: String,
    content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<message::Summary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<CallId>,
    step: Option<i32>,
    created_at: Time,
}

impl Message {
    /// One that waits for the run's next step.
    pub(crate) fn waiting(message: message::Message, created_at: Time) -> Self {
        Self {
            id: message.id,
            seq: None,
            role: message.role.as_str().into(),
            content: message.content,
            parts: message.parts.iter().map(content::part).collect(),
            pinned: message.pinned.then_some(true),
            summary: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            step: None,
            created_at,
        }
    }
}

impl From<MessageRecord> for Message {
    fn from(record: MessageRecord) -> Self {
        let (parts, pinned) = (record.parts().iter().map(content::part).collect(), record.pinned());
        let summary = record.summary().cloned();
        let calls =
            record.tool_calls.and_then(|calls| serde_json::from_value::<Vec<MessageCall>>(calls).ok());
        Self {
            id: MessageId(record.message_id),
            seq: Some(record.seq),
            role: record.role,
            content: record.content,
            parts,
            pinned: pinned.then_some(true),
            summary,
            tool_calls: calls.unwrap_or_default().iter().map(message_call).collect(),
            tool_call_id: record.tool_call_id.map(CallId),
            step: record.step,
            created_at: Time(record.created_at),
        }
    }
}

/// The arguments in a history are always text of a JSON object.
fn message_call(call: &MessageCall) -> Value {
    let input = json::parse(&call.arguments).unwrap_or_else(|_| json!({}));
    json!({"id": call.id, "tool_name": call.name, "input": input})
}

/// Something that is said to a live run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SteerRequest {
    pub(crate) content: Value,
    #[serde(default)]
    pub(crate) pinned: bool,
}

impl RequestBody for SteerRequest {
    const CONTENT: &'static [&'static str] = &["/content"];
}

/// A step as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    number: i32,
    status: &'static str,
    context: Value,
    model: Option<Value>,
    tool_calls: Vec<ToolCall>,
    started_at: Time,
    finished_at: Option<Time>,
}

impl From<StepRecord> for Step {
    fn from(record: StepRecord) -> Self {
        let mut model = record.model;
        if let Some(model) = &mut model {
            model["failures"] = record.failures;
        }
        Self {
            number: record.number,
            status: if record.finished_at.is_some() { "completed" } else { "running" },
            context: record.context,
            model,
            tool_calls: record.calls.into_iter().map(ToolCall::from).collect(),
            started_at: Time(record.started_at),
            finished_at: record.finished_at.map(Time),
        }
    }
}

/// A ledger entry as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct LedgerEntry {
    id: LedgerId,
    run_id: RunId,
    step: i32,
    tool_call_id: CallId,
    tool_name: String,
    input_hash: String,
    idempotency_key: String,
    status: String,
    side_effect: String,
    attempts: i32,
    error_code: Option<String>,
    resolution: Option<Value>,
    started_at: Time,
    finished_at: Option<Time>,
}

impl From<LedgerRecord> for LedgerEntry {
    fn from(record: LedgerRecord) -> Self {
        Self {
            id: LedgerId(record.ledger_id),
            run_id: RunId(record.run_id),
            step: record.step,
            tool_call_id: CallId(record.call_id),
            tool_name: record.tool_name,
            input_hash: record.input_hash,
            idempotency_key: record.idempotency_key,
            status: record.status,
            side_effect: record.side_effect,
            attempts: record.attempts,
            error_code: record.error_code,
            resolution: record.resolution,
            started_at: Time(record.started_at),
            finished_at: record.finished_at.map(Time),
        }
    }
}

/// A person's word on an effect of which nobody knows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveRequest {
    pub(crate) state: ResolvedState,
    #[serde(default, deserialize_with = "text::present")]
    pub(crate) content: Option<Value>,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

/// Whether it happened.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResolvedState {
    Applied,
    NotApplied,
}

impl RequestBody for ResolveRequest {
    const CONTENT: &'static [&'static str] = &["/content"];
}

/// An artifact as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Artifact {
    id: ArtifactId,
    run_id: RunId,
    tool_call_id: Option<CallId>,
    media_type: String,
    bytes: i64,
    sha256: String,
    created_at: Time,
}

impl From<ArtifactRecord> for Artifact {
    fn from(record: ArtifactRecord) -> Self {
        let sha256 = record.sha256.strip_prefix("sha256:").unwrap_or(&record.sha256).to_owned();
        Self {
            id: ArtifactId(record.artifact_id),
            run_id: RunId(record.run_id),
            tool_call_id: record.call_id.map(CallId),
            media_type: record.media_type,
            bytes: record.bytes,
            sha256,
            created_at: Time(record.created_at),
        }
    }
}

/// A checkpoint as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Checkpoint {
    seq: i64,
    step: i32,
    state_hash: String,
    created_at: Time,
}

impl From<CheckpointRecord> for Checkpoint {
    fn from(record: CheckpointRecord) -> Self {
        Self {
            seq: record.seq,
            step: record.step,
            state_hash: record.state_hash,
            created_at: Time(record.created_at),
        }
    }
}

/// An event as it is shown, in lists and on streams.
#[derive(Debug, Serialize)]
pub(crate) struct Event {
    id: EventId,
    seq: i64,
    #[serde(rename = "type")]
    kind: String,
    run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<i32>,
    at: Time,
    data: Value,
}

impl Event {
    /// An event of that run.
    pub(crate) fn of(run_id: RunId, record: EventRecord) -> Self {
        let (id, at) = (EventId(record.event_id), Time(record.at));
        Self { id, seq: record.seq, kind: record.kind, run_id, step: record.step, at, data: record.data }
    }
}
