//! Whether a decision holds, judged without I/O.

use std::collections::BTreeMap;

use answerable_core::budget::{self, BudgetPatch, Budgets, below_used, raised};
use answerable_core::id::KeyId;
use answerable_core::json::{canonical, input_hash, sha256_hex};
use answerable_core::permission::{BY_LINK, CallFacts, CompiledPolicy, Effect, Owner, Policies, judge};
use answerable_core::registry::Registry;
use answerable_core::schema::Effort;
use answerable_core::{FieldError, field_error};
use answerable_ports::commit::DecisionWord;
use serde_json::Value;

use super::votes::{Voter, Votes, subject, word};
use super::{Decision, DecisionRefused, EditRules, LockedApproval, remember};
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
    /// All who stand behind it where it is to be remembered, each with the key.
    pub(crate) behind: BTreeMap<String, Option<KeyId>>,
}

impl Verdict {
    /// Hash of the arguments that may run by it.
    pub(crate) fn approved_hash(&self) -> Option<&str> {
        (self.word == DecisionWord::Approve && !self.input_hash.is_empty()).then_some(&self.input_hash)
    }

    pub(crate) fn status(&self) -> &'static str {
        if self.word == DecisionWord::Deny { "denied" } else { "approved" }
    }
}

/// Weighs what somebody decides.
pub(crate) fn weigh(
    locked: &LockedApproval,
    decision: &Decision,
    voter: &Voter,
) -> Result<Weighed, DecisionRefused> {
    let approval = &locked.record;
    if voter.key.is_some_and(|key| !locked.valid_keys.contains(&key)) {
        return Err(DecisionRefused::KeyGone);
    }
    if decision.input_hash.is_some() && decision.input_hash != approval.input_hash {
        return Err(DecisionRefused::OtherInput);
    }
    match approval.status.as_str() {
        "approved" | "denied" => return decided_before(locked, decision),
        "pending" if approval.expires_at.timestamp_millis() > locked.run.at => {}
        _ => return Err(DecisionRefused::Expired),
    }
    may_decide(locked, decision, voter)?;
    if voter.has_link_alone() && decision.remember.is_some() {
        return Err(DecisionRefused::Invalid(vec![remember::not_by_link()]));
    }
    let patch = check(locked, decision).map_err(DecisionRefused::Invalid)?;
    let of = subject_of(locked, decision);
    let votes = Votes { all: &approval.votes, valid_keys: &locked.valid_keys };
    let remember = decision.remember.map(|remember| remember.kept());
    if decision.word != DecisionWord::Deny
        && let Some(own) = votes.own(&voter.by)
    {
        let asks_for_more = remember.is_some() && remember.as_ref() != votes.remembered(&voter.by);
        let same = own == of && !asks_for_more;
        return if same { Ok(Weighed::Unchanged) } else { Err(DecisionRefused::OtherVote) };
    }
    let vote = voter.vote(decision.word, &of, remember.as_ref(), locked.run.at);
    let mut deciders = votes.deciders(&of);
    deciders.insert(voter.by.clone());
    let required = usize::try_from(approval.required).unwrap_or(1);
    if required > 1 {
        // A server of an older version took it.
        deciders.remove(BY_LINK);
    }
    if decision.word != DecisionWord::Deny && deciders.len() < required {
        return Ok(Weighed::Vote(vote));
    }
    let others = remember.as_ref().map(|asked| votes.remembering(&of, asked)).unwrap_or_default();
    let behind: BTreeMap<String, Option<KeyId>> =
        others.into_iter().filter(|(by, _)| by != BY_LINK).chain([(voter.by.clone(), voter.key)]).collect();
    if remember.is_some() && behind.len() < required {
        return Err(DecisionRefused::Invalid(vec![remember::not_agreed(required, behind.len())]));
    }
    let edited = decision.input.clone().filter(|_| decision.word == DecisionWord::Approve);
    let hash =
        decision.input.as_ref().map(input_hash).or_else(|| approval.input_hash.clone()).unwrap_or_default();
    Ok(Weighed::Decided(Verdict { word: decision.word, vote, edited, input_hash: hash, patch, behind }))
}

/// Whoever started the run may not let its calls run, where a rule says so. There, and where several people must agree, nor
/// may somebody who doesn't say who they are. Denying is everybody's.
fn may_decide(locked: &LockedApproval, decision: &Decision, voter: &Voter) -> Result<(), DecisionRefused> {
    let approval = &locked.record;
    if decision.word == DecisionWord::Deny {
        Ok(())
    } else if voter.has_link_alone() && (approval.required > 1 || !approval.self_approval) {
        Err(DecisionRefused::NobodyInParticular)
    } else if !approval.self_approval && has_started(&locked.creators, voter) {
        Err(DecisionRefused::OwnRun)
    } else {
        Ok(())
    }
}

/// Whether they count as having started the run. A key that started it in nobody's name is whoever it names now.
fn has_started(creators: &[String], voter: &Voter) -> bool {
    let names_nobody = !creators.iter().any(|creator| creator.starts_with("user:"));
    let by_key = voter.key.is_some_and(|key| creators.contains(&key.to_string()));
    creators.contains(&voter.by) || (names_nobody && by_key)
}

/// The same decision again is the same, at any time and by anyone. What was not remembered with it is not remembered later.
fn decided_before(locked: &LockedApproval, decision: &Decision) -> Result<Weighed, DecisionRefused> {
    let approval = &locked.record;
    let same_word = approval.decision.as_deref() == Some(word(decision.word));
    let ran = approval.edited_input.as_ref().or(approval.input.as_ref());
    let same_input = match (&decision.input, ran) {
        (Some(input), Some(ran)) => canonical(input) == canonical(ran),
        _ => true,
    };
    let same = same_word && same_input && remember::asks_for_no_more(&approval.votes, decision);
    if same { Ok(Weighed::Unchanged) } else { Err(DecisionRefused::AlreadyDecided) }
}

/// What somebody agrees on.
fn subject_of(locked: &LockedApproval, decision: &Decision) -> String {
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
    subject(decision.word, &about)
}

fn check(locked: &LockedApproval, decision: &Decision) -> Result<Option<BudgetPatch>, Vec<FieldError>> {
    let kind = locked.record.kind.as_str();
    let mut faults = check_form(kind, decision);
    faults.extend(remember::check(locked, decision));
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
    let run =
        rules.run_policy.as_ref().map(|policy| CompiledPolicy::compile(policy, Owner::Run)).transpose()?;
    let hash = input_hash(input);
    let call = CallFacts {
        tool_name,
        risk: tool.risk,
        input,
        input_hash: &hash,
        context: &locked.context,
        creators: &locked.creators,
        effort: &Effort::of_one(),
    };
    let judgement = judge(
        Policies { agent: &registry.policy, tenant: tenant.as_ref(), run: run.as_ref() },
        &[],
        &call,
        locked.run.at,
    );
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
