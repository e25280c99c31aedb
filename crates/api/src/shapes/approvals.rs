//! Approvals and decisions.

use answerable_core::id::{ApprovalId, CallId, RunId};
use answerable_store::{ApprovalRecord, Decision, DecisionWord, GrantScope, Remember};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Time, text};
use crate::body::RequestBody;
use crate::problem::Problem;

/// An approval as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Approval {
    id: ApprovalId,
    run_id: RunId,
    step: i32,
    tool_call_id: Option<CallId>,
    kind: String,
    tool_name: Option<String>,
    input: Option<Value>,
    edited_input: Option<Value>,
    input_hash: Option<String>,
    risk: Option<String>,
    reason: String,
    status: String,
    required: i32,
    votes: Vec<Value>,
    expires_at: Time,
    created_at: Time,
    decided_at: Option<Time>,
    decided_by: Option<String>,
}

impl Approval {
    /// `pending`, `approved`, `denied`, `expired` or `cancelled`.
    pub(crate) fn status(&self) -> &str {
        &self.status
    }

    /// The run that asks.
    pub(crate) fn run_id(&self) -> RunId {
        self.run_id
    }
}

impl From<ApprovalRecord> for Approval {
    fn from(record: ApprovalRecord) -> Self {
        let votes = record.votes.as_array().map(Vec::as_slice).unwrap_or_default();
        let vote = |vote: &Value| json!({"decision": vote["decision"], "by": vote["by"], "at": vote["at"]});
        Self {
            id: ApprovalId(record.approval_id),
            run_id: RunId(record.run_id),
            step: record.step,
            tool_call_id: record.call_id.map(CallId),
            kind: record.kind,
            tool_name: record.tool_name,
            input: record.input,
            edited_input: record.edited_input,
            input_hash: record.input_hash,
            risk: record.risk,
            reason: record.reason,
            status: record.status,
            required: record.required,
            votes: votes.iter().map(vote).collect(),
            expires_at: Time(record.expires_at),
            created_at: Time(record.created_at),
            decided_at: record.decided_at.map(Time),
            decided_by: record.decided_by,
        }
    }
}

/// What somebody decides; of many decisions also about which approval.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionRequest {
    #[serde(default)]
    pub(crate) approval_id: Option<String>,
    decision: DecisionWord,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default, deserialize_with = "text::present")]
    content: Option<Value>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    input_hash: Option<String>,
    #[serde(default)]
    remember: Option<RememberSpec>,
}

impl RequestBody for DecisionRequest {
    const CONTENT: &'static [&'static str] = &["/content"];
}

impl DecisionRequest {
    /// The one word that the page of a decision link sends.
    pub(crate) fn of_word(word: &str) -> Result<Self, Problem> {
        let decision = match word {
            "approve" => DecisionWord::Approve,
            "deny" => DecisionWord::Deny,
            _ => return Err(Problem::invalid_at("/decision", "must be approve or deny")),
        };
        let (approval_id, input, content, reason, input_hash, remember) =
            (None, None, None, None, None, None);
        Ok(Self { approval_id, decision, input, content, reason, input_hash, remember })
    }

    /// As the store takes it.
    pub(crate) fn read(self) -> Result<Decision, Problem> {
        Ok(Decision {
            word: self.decision,
            input: self.input,
            content: self.content.map(text::of).transpose()?,
            reason: self.reason,
            input_hash: self.input_hash,
            remember: self.remember.map(Remember::from),
        })
    }
}

/// Many decisions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkDecisionRequest {
    pub(crate) decisions: Vec<DecisionRequest>,
}

impl RequestBody for BulkDecisionRequest {
    const CONTENT: &'static [&'static str] = &["/decisions/*/content"];
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RememberSpec {
    scope: Scope,
    #[serde(rename = "match")]
    matches: Matches,
    #[serde(default)]
    expires_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scope {
    Run,
    Thread,
    Agent,
    Tenant,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Matches {
    Tool,
    ExactInput,
}

impl From<RememberSpec> for Remember {
    fn from(spec: RememberSpec) -> Self {
        let scope = match spec.scope {
            Scope::Run => GrantScope::Run,
            Scope::Thread => GrantScope::Thread,
            Scope::Agent => GrantScope::Agent,
            Scope::Tenant => GrantScope::Tenant,
        };
        Self { scope, exact_input: spec.matches == Matches::ExactInput, expires_at: spec.expires_at }
    }
}

/// What became of one of many decisions.
#[derive(Debug, Serialize)]
pub(crate) struct DecisionResult {
    pub(crate) approval_id: String,
    pub(crate) status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<Approval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<Value>,
}

/// What became of many decisions, in their order.
#[derive(Debug, Serialize)]
pub(crate) struct BulkDecisionResult {
    pub(crate) results: Vec<DecisionResult>,
}
