//! What the policies would say of a call.

use answerable_core::FieldError;
use answerable_core::agent::Risk;
use answerable_core::permission::{
    CallFacts, Denials, Effect, ExplainedGrant, ExplainedPolicy, Explanation, OnDeny, OnExpiry, Owner,
    PolicyVersion,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::body::RequestBody;

/// A call that somebody wants to know about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyCheckRequest {
    /// A stored agent's id, or an agent.
    #[serde(default)]
    pub(crate) agent: Option<Value>,
    #[serde(default)]
    pub(crate) agent_version: Option<i32>,
    pub(crate) tool_name: String,
    pub(crate) input: Map<String, Value>,
    #[serde(default)]
    pub(crate) context: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) policy: Option<Value>,
    #[serde(default)]
    pub(crate) tenant_policy: Option<Value>,
    #[serde(default)]
    pub(crate) run_id: Option<String>,
    #[serde(default)]
    pub(crate) thread_id: Option<String>,
    #[serde(default)]
    pub(crate) creators: Option<Vec<String>>,
}

impl RequestBody for PolicyCheckRequest {}

/// What would become of it.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Runs,
    Asks,
    Denied,
    Rejected,
}

/// What would be said of a call, and why.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    object: &'static str,
    tool_name: String,
    tool_version: String,
    risk: Risk,
    input_hash: String,
    outcome: Outcome,
    findings: Vec<FieldError>,
    effect: Effect,
    rule: Option<usize>,
    policy: Option<Owner>,
    policy_version: Option<String>,
    by: String,
    reason: String,
    approvals: u32,
    expires_ms: u64,
    on_expiry: OnExpiry,
    self_approval: bool,
    remind_every_ms: Option<u64>,
    on_deny: Option<OnDeny>,
    max_denials: Option<u32>,
    judged_by: Vec<PolicyVersion>,
    policies: Vec<ExplainedPolicy>,
    grants: Vec<ExplainedGrant>,
    grants_left_out: usize,
}

impl Checked {
    /// What was told of a call. `findings`: what of its input is not legal; such a call is never judged in a run.
    /// `grants_left_out`: how many remembered approvals of the tool aren't among those that are told of.
    pub(crate) fn new(
        call: &CallFacts<'_>,
        tool_version: String,
        findings: Vec<FieldError>,
        told: Explanation,
        grants_left_out: usize,
    ) -> Self {
        let judgement = told.judgement;
        let outcome = match judgement.effect {
            _ if !findings.is_empty() => Outcome::Rejected,
            Effect::Allow => Outcome::Runs,
            Effect::Ask => Outcome::Asks,
            Effect::Deny => Outcome::Denied,
        };
        let denials: Option<Denials> = judgement.denials;
        Self {
            object: "policy_check",
            tool_name: call.tool_name.to_owned(),
            tool_version,
            risk: call.risk,
            input_hash: call.input_hash.to_owned(),
            outcome,
            findings,
            effect: judgement.effect,
            rule: judgement.rule,
            policy: judgement.version.is_some().then_some(judgement.owner),
            policy_version: judgement.version,
            by: judgement.by,
            reason: judgement.reason,
            approvals: judgement.approvals,
            expires_ms: judgement.expires_ms,
            on_expiry: judgement.on_expiry,
            self_approval: judgement.self_approval,
            remind_every_ms: judgement.remind_every_ms,
            on_deny: denials.map(|denials| denials.on_deny),
            max_denials: denials.map(|denials| denials.max_denials),
            judged_by: judgement.judged_by,
            policies: told.policies,
            grants: told.grants,
            grants_left_out,
        }
    }
}
