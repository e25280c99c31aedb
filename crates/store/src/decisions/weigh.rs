//! Whether a decision holds, judged without I/O.

use answerable_core::budget::{self, BudgetPatch, Budgets, below_used, raised};
use answerable_core::json::{canonical, input_hash, sha256_hex};
use answerable_core::permission::{CallFacts, CompiledPolicy, Effect, Owner, judge};
use answerable_core::registry::Registry;
use answerable_core::{FieldError, field_error};
use answerable_ports::commit::DecisionWord;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Decision, DecisionRefused, EditRules, LockedApproval};
use crate::grants::GrantScope;
use crate::run_change::{ahead, below};

/// What a decision comes to.
#[derive(Debug)]
pub(crate) enum Weighed {
    /// The same was said before.
    Unchanged,
    /// It counts, but more people must agree.
    Vote(Value),
    /// It decides.
    Decided(Verdict),
}

/// A decision that decides.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) word: DecisionWord,
    pub(crate) vote: Value,
    /// Arguments in place of the model's, or the new limits.
    pub(crate) edited: Option<Value>,
    /// Hash of the arguments that it is about.
    pub(crate) input_hash: String,
    /// The new limits, read.
    pub(crate) patch: Option<BudgetPatch>,
}

impl Verdict {
    pub(crate) fn status(&self) -> &'static str {
        if self.word == DecisionWord::Deny { "denied" } else { "approved" }
    }
}

/// As in the contract.
pub(crate) fn word(word: DecisionWord) -> &'static str {
    match word {
        DecisionWord::Approve => "approve",
        DecisionWord::Deny => "deny",
        DecisionWord::Answer => "answer",
    }
}

/// What a grant of that scope would cover; `None` for the tenant, and for what the run doesn't have.
pub(crate) fn scope_id(locked: &LockedApproval, scope: GrantScope) -> Option<Uuid> {
    match scope {
        GrantScope::Run => Some(locked.record.run_id),
        GrantScope::Thread => locked.thread_id,
        GrantScope::Agent => locked.agent_id,
        GrantScope::Tenant => None,
    }
}

/// Weighs a decision by `by`.
pub(crate) fn weigh(
    locked: &LockedApproval,
    decision: &Decision,
    by: &str,
) -> Result<Weighed, DecisionRefused> {
    let approval = &locked.record;
    if decision.input_hash.is_some() && decision.input_hash != approval.input_hash {
        return Err(DecisionRefused::OtherInput);
    }
    match approval.status.as_str() {
        "approved" | "denied" => return decided_before(locked, decision),
        "pending" if approval.expires_at.timestamp_millis() > locked.run.at => {}
        _ => return Err(DecisionRefused::Expired),
    }
    let patch = check(locked, decision).map_err(DecisionRefused::Invalid)?;
    let of = subject(locked, decision);
    let votes = approval.votes.as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |vote: &Value, name: &str, value: &str| vote.get(name).and_then(Value::as_str) == Some(value);
    if decision.word != DecisionWord::Deny
        && let Some(own) = votes.iter().find(|vote| has(vote, "by", by))
    {
        return if has(own, "of", &of) { Ok(Weighed::Unchanged) } else { Err(DecisionRefused::OtherVote) };
    }
    let vote = json!({"decision": word(decision.word), "by": by, "at": moment(locked.run.at), "of": of});
    let agree = 1 + votes.iter().filter(|vote| has(vote, "of", &of)).count();
    let required = usize::try_from(approval.required).unwrap_or(1);
    if decision.word != DecisionWord::Deny && agree < required {
        return Ok(Weighed::Vote(vote));
    }
    let edited = decision.input.clone().filter(|_| decision.word == DecisionWord::Approve);
    let hash =
        decision.input.as_ref().map(input_hash).or_else(|| approval.input_hash.clone()).unwrap_or_default();
    Ok(Weighed::Decided(Verdict { word: decision.word, vote, edited, input_hash: hash, patch }))
}

fn moment(at: answerable_core::Millis) -> String {
    crate::commit::moment(at).to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// The same decision again is the same, at any time and by anyone.
fn decided_before(locked: &LockedApproval, decision: &Decision) -> Result<Weighed, DecisionRefused> {
    let approval = &locked.record;
    let same_word = approval.decision.as_deref() == Some(word(decision.word));
    let ran = approval.edited_input.as_ref().or(approval.input.as_ref());
    let same_input = match (&decision.input, ran) {
        (Some(input), Some(ran)) => canonical(input) == canonical(ran),
        _ => true,
    };
    if same_word && same_input { Ok(Weighed::Unchanged) } else { Err(DecisionRefused::AlreadyDecided) }
}

/// What people agree on: the word, and the input or answer it is about. Approvals of different edits don't add up.
fn subject(locked: &LockedApproval, decision: &Decision) -> String {
    let about = match decision.word {
        DecisionWord::Deny => String::new(),
        DecisionWord::Approve => decision
            .input
            .as_ref()
            .map(input_hash)
            .or_else(|| locked.record.input_hash.clone())
            .unwrap_or_default(),
        DecisionWord::Answer => sha256_hex(decision.content.as_deref().unwrap_or_default().as_bytes()),
    };
    format!("{} {about}", word(decision.word))
}

fn check(locked: &LockedApproval, decision: &Decision) -> Result<Option<BudgetPatch>, Vec<FieldError>> {
    let kind = locked.record.kind.as_str();
    let mut faults = check_form(kind, decision);
    faults.extend(check_remember(locked, decision));
    if !faults.is_empty() {
        return Err(faults);
    }
    match (kind, &decision.input, &locked.rules) {
        ("tool_call", Some(input), Some(rules)) => check_edit(locked, input, rules).map(|()| None),
        ("budget", Some(input), Some(rules)) => check_budget(locked, input, rules).map(Some),
        _ => Ok(None),
    }
}

/// What goes with which word and kind.
fn check_form(kind: &str, decision: &Decision) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut fault = |pointer: &str, message: &str| faults.push(FieldError::new(pointer, message));
    let approves = decision.word == DecisionWord::Approve;
    match (kind, decision.word) {
        ("budget", DecisionWord::Answer) => fault("/decision", "more budget is approved or denied"),
        ("budget", DecisionWord::Approve) if decision.input.is_none() => {
            fault("/input", "the new limits are missing")
        }
        (_, DecisionWord::Answer) if decision.content.is_none() => {
            fault("/content", "an answer needs its content")
        }
        _ => {}
    }
    if decision.input.is_some() && (!approves || kind == "uncertain_effect") {
        fault("/input", "goes with the approval of a call or of more budget only");
    }
    if decision.content.is_some() && decision.word != DecisionWord::Answer {
        fault("/content", "goes with an answer only");
    }
    if decision.remember.is_some() && (!approves || kind != "tool_call") {
        fault("/remember", "goes with the approval of a call only");
    }
    faults
}

fn check_remember(locked: &LockedApproval, decision: &Decision) -> Vec<FieldError> {
    let Some(remember) = decision.remember else { return Vec::new() };
    let mut faults = Vec::new();
    if remember.scope != GrantScope::Tenant && scope_id(locked, remember.scope).is_none() {
        let message = format!("the run has no {} of its own", remember.scope.as_str());
        faults.push(FieldError::new("/remember/scope", message));
    }
    if remember.expires_at.is_some_and(|at| at.timestamp_millis() <= locked.run.at) {
        faults.push(FieldError::new("/remember/expires_at", "is past"));
    }
    faults
}

/// Edited arguments are validated and judged as the model's would be.
fn check_edit(locked: &LockedApproval, input: &Value, rules: &EditRules) -> Result<(), Vec<FieldError>> {
    let tool_name = locked.record.tool_name.as_deref().unwrap_or_default();
    let registry = Registry::compile(rules.agent.clone())?;
    let findings = registry.findings(tool_name, input);
    if !findings.is_empty() {
        return Err(findings.into_iter().map(|finding| finding.under("/input")).collect());
    }
    let Some(tool) = registry.tool(tool_name) else {
        return Err(vec![FieldError::new("/input", "the agent has no such tool")]);
    };
    let tenant = rules
        .tenant_policy
        .as_ref()
        .map(|policy| CompiledPolicy::compile(policy, Owner::Tenant))
        .transpose()?;
    let hash = input_hash(input);
    let call = CallFacts { tool_name, risk: tool.risk, input, input_hash: &hash, context: &locked.context };
    let judgement = judge(&registry.policy, tenant.as_ref(), &[], &call, locked.run.at);
    if judgement.effect == Effect::Deny {
        return Err(vec![FieldError::new("/input", format!("the policy denies it: {}", judgement.reason))]);
    }
    Ok(())
}

/// What a run spends, the one that called it pays: no more than that one gave. Steps and calls are its own.
fn above_given(given: &Budgets, patch: &BudgetPatch) -> Vec<FieldError> {
    let message = "is above what the run that called this one gave it; an admin may change the run's limits";
    let above = raised(given, &patch.apply(given)).into_iter();
    let paid = above.filter(|name| ["max_tokens", "timeout_ms", "max_cost_microusd"].contains(name));
    paid.map(|name| FieldError::new(format!("/input/{name}"), message)).collect()
}

/// New limits must be limits, not below what is used, and enough for the run to go on.
fn check_budget(
    locked: &LockedApproval,
    input: &Value,
    rules: &EditRules,
) -> Result<BudgetPatch, Vec<FieldError>> {
    let state = ahead(&locked.run.state, rules.waiting_patches.clone());
    let patch: BudgetPatch = field_error::read(input.clone()).map_err(|fault| vec![fault.under("/input")])?;
    let mut faults = Vec::new();
    let wanted = patch.apply(&state.budgets);
    budget::check(&wanted, "/input", &mut faults);
    for fault in below(&below_used(&wanted, &state.used, state.elapsed_ms(locked.run.at)), &patch) {
        faults.push(FieldError::new(fault.pointer.replacen("/budgets", "/input", 1), fault.message));
    }
    faults.extend(rules.given.as_ref().map(|given| above_given(given, &patch)).unwrap_or_default());
    if faults.is_empty() && !state.is_enough(&patch) {
        faults.push(FieldError::new("/input", "the run can't go on with these limits either"));
    }
    if faults.is_empty() { Ok(patch) } else { Err(faults) }
}
