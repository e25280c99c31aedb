//! What webhooks are told: thin bodies of ids and states, and of a call's input only where the endpoint asks for it.

use std::collections::BTreeMap;

use answerable_core::id::{ApprovalId, RunId, TenantId, ThreadId};
use answerable_core::run::{ApprovalRow, EventType, Record, RunState};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::store_error;
use crate::{Result, Store};

/// Votes so far, of each approval that people are reminded of.
pub(crate) type VotesSoFar = BTreeMap<ApprovalId, Value>;

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
    /// Votes so far; none before people were asked.
    pub(crate) votes: Option<&'a Value>,
}

/// The approval that an event tells of.
pub(crate) fn approval_of(data: &Value) -> Option<ApprovalId> {
    data.get("approval_id").and_then(Value::as_str).and_then(|id| id.parse().ok())
}

impl Store {
    /// Votes on the approvals that people are reminded of in these records. The run's state doesn't know them: a vote that
    /// decides nothing yet is no business of the run.
    pub(crate) async fn votes_so_far(&self, tenant: TenantId, records: &[Record]) -> Result<VotesSoFar> {
        let reminded = records.iter().filter_map(|record| match record {
            Record::Event {
                kind: EventType::ApprovalReminder | EventType::ApprovalExpiring, data, ..
            } => approval_of(data),
            _ => None,
        });
        let reminded: Vec<Uuid> = reminded.map(|id| id.0).collect();
        if reminded.is_empty() {
            return Ok(VotesSoFar::new());
        }
        let mut tx = self.tenant(tenant).await?;
        let rows = sqlx::query!(
            "SELECT approval_id, votes FROM approvals WHERE tenant_id = $1 AND approval_id = ANY($2)",
            tenant.0,
            &reminded,
        )
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(|row| (ApprovalId(row.approval_id), votes_shown(&row.votes))).collect())
    }
}

/// As the contract has them.
fn votes_shown(votes: &Value) -> Value {
    let shown = |vote: &Value| json!({"decision": vote["decision"], "by": vote["by"], "at": vote["at"]});
    votes.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(shown).collect()
}

/// The body of an event of a run, for endpoints that want no input and those that do.
pub(crate) fn run_event(kind: EventType, at: DateTime<Utc>, run: &RunFacts) -> (String, String) {
    let body = envelope(kind.as_str(), at, &json!({"run": run.0}));
    (body.clone(), body)
}

/// The bodies of `approval.requested`, and of what reminds of it; `link` is where it can be decided without a key.
pub(crate) fn approval_asked(
    kind: EventType,
    at: DateTime<Utc>,
    run: &RunFacts,
    facts: &ApprovalFacts<'_>,
    link: Option<&str>,
) -> (String, String) {
    let row = facts.row;
    let approval = json!({
        "id": row.id, "run_id": run.0["id"], "step": row.step, "tool_call_id": row.call, "kind": row.kind,
        "tool_name": row.tool_name, "input_hash": row.input_hash, "risk": row.risk, "reason": row.reason,
        "status": "pending", "required": row.required, "votes": facts.votes.unwrap_or(&json!([])),
        "expires_at": time(row.expires_at),
    });
    let mut data = json!({"approval": approval, "run": run.0});
    if let Some(link) = link {
        data["decision_url"] = json!(link);
    }
    let thin = envelope(kind.as_str(), at, &data);
    if let Some(input) = facts.input {
        data["approval"]["input"] = input.clone();
    }
    (thin, envelope(kind.as_str(), at, &data))
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
