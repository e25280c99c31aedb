//! Approvals and decisions.

use answerable_core::field_error::pointer_token;
use answerable_core::id::{AgentId, ApprovalId, CallId, RunId, ThreadId};
use answerable_core::text::head;
use answerable_store::{ApprovalRecord, Decision, DecisionWord, GrantScope, Remember};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Time, text};
use crate::body::RequestBody;
use crate::problem::Problem;

/// Characters of a reason that a form brings; for JSON the document says so.
const MAX_REASON: usize = 1024;

/// An approval as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Approval {
    id: ApprovalId,
    run_id: RunId,
    agent_id: Option<AgentId>,
    thread_id: Option<ThreadId>,
    step: i32,
    tool_call_id: Option<CallId>,
    kind: String,
    tool_name: Option<String>,
    input: Option<Value>,
    edited_input: Option<Value>,
    input_hash: Option<String>,
    tool_version: Option<String>,
    risk: Option<String>,
    reason: String,
    status: String,
    required: i32,
    self_approval: bool,
    votes: Vec<Value>,
    expires_at: Time,
    created_at: Time,
    decided_at: Option<Time>,
    decided_by: Option<String>,
    used_at: Option<Time>,
    voided_at: Option<Time>,
    void_reason: Option<String>,
    replaces: Option<ApprovalId>,
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
        let vote = |vote: &Value| json!({"decision": vote["decision"], "by": vote["by"], "at": vote["at"], "remember": vote["remember"]});
        Self {
            id: ApprovalId(record.approval_id),
            run_id: RunId(record.run_id),
            agent_id: record.agent_id.map(AgentId),
            thread_id: record.thread_id.map(ThreadId),
            step: record.step,
            tool_call_id: record.call_id.map(CallId),
            kind: record.kind,
            tool_name: record.tool_name,
            input: record.input,
            edited_input: record.edited_input,
            input_hash: record.input_hash,
            tool_version: record.tool_version,
            risk: record.risk,
            reason: record.reason,
            status: record.status,
            required: record.required,
            self_approval: record.self_approval,
            votes: votes.iter().map(vote).collect(),
            expires_at: Time(record.expires_at),
            created_at: Time(record.created_at),
            decided_at: record.decided_at.map(Time),
            decided_by: record.decided_by,
            used_at: record.used_at.map(Time),
            voided_at: record.voided_at.map(Time),
            void_reason: record.void_reason,
            replaces: record.replaces.map(ApprovalId),
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
    /// What the page of a decision link sends: the decision, and perhaps why and the hash that the page showed.
    pub(crate) fn of_form(fields: &[(String, String)]) -> Result<Self, Problem> {
        let fault = |name: &str, message: &str| Problem::invalid_at(format!("/{name}"), message);
        for (i, (name, value)) in fields.iter().enumerate() {
            if !["decision", "reason", "input_hash"].contains(&name.as_str()) {
                return Err(fault(&pointer_token(head(name, 100)), "this field is not known"));
            }
            if fields[..i].iter().any(|(earlier, _)| earlier == name) {
                return Err(fault(name, "may be given once"));
            }
            if value.contains('\0') || value.chars().count() > MAX_REASON {
                return Err(fault(name, "must have at most 1024 characters, and no NUL"));
            }
        }
        let field =
            |name: &str| fields.iter().find(|(given, _)| given == name).map(|(_, value)| value.trim());
        let decision = match field("decision") {
            Some("approve") => DecisionWord::Approve,
            Some("deny") => DecisionWord::Deny,
            _ => return Err(fault("decision", "must be approve or deny")),
        };
        let given = |name: &str| field(name).filter(|value| !value.is_empty()).map(str::to_owned);
        let (reason, input_hash) = (given("reason"), given("input_hash"));
        Ok(Self {
            approval_id: None,
            decision,
            input: None,
            content: None,
            reason,
            input_hash,
            remember: None,
        })
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

impl DecisionResult {
    /// Whether it failed by the server's fault.
    pub(crate) fn is_ours(&self) -> bool {
        self.status >= 500
    }

    /// What the single call would have been answered.
    pub(crate) fn of(approval_id: String, result: Result<Approval, Problem>, request_id: &str) -> Self {
        match result {
            Ok(approval) => Self { approval_id, status: 200, approval: Some(approval), problem: None },
            Err(problem) => {
                let document = Some(problem.document(request_id));
                Self { approval_id, status: problem.status(), approval: None, problem: document }
            }
        }
    }
}

/// What became of many decisions, in their order.
#[derive(Debug, Serialize)]
pub(crate) struct BulkDecisionResult {
    pub(crate) results: Vec<DecisionResult>,
}
