//! What calls are judged by, and judging them: when they come in, when they are approved, and again when the rules have
//! changed before they begin.

use std::collections::BTreeMap;

use answerable_core::id::ApprovalId;
use answerable_core::json::input_hash;
use answerable_core::permission::{CallFacts, CompiledPolicy, Effect, Judgement, Owner, Policies, judge};
use answerable_core::registry::Registry;
use answerable_core::run::{Call, CallVerdict, Event, JudgedAgain, Stage};
use answerable_core::schema::Effort;
use answerable_core::{FieldError, Millis};
use answerable_ports::StoreError;
use answerable_ports::store::{Decider, Rules};
use serde_json::Value;

use crate::env::Env;
use crate::session::{Cause, RunFacts, Session, patiently};

/// What the gate judges by, ready to judge.
pub(crate) struct Gate {
    number: i64,
    /// The tenant's policy and the run's own.
    policies: Result<(Option<CompiledPolicy>, Option<CompiledPolicy>), String>,
    creators: Vec<String>,
    grants: Vec<answerable_core::permission::Grant>,
    deciders: BTreeMap<ApprovalId, Vec<Decider>>,
}

/// A verdict about a call that people approved.
pub(crate) struct Held {
    pub(crate) judgement: Judgement,
    /// Those who approved, as far as their word counts.
    pub(crate) deciders: Vec<String>,
    /// They are those who must by that verdict.
    pub(crate) stands: bool,
}

impl Gate {
    /// A gate that lets nothing through.
    fn shut(why: String) -> Self {
        Self {
            number: 0,
            policies: Err(why),
            creators: Vec::new(),
            grants: Vec::new(),
            deciders: BTreeMap::new(),
        }
    }

    fn of(rules: Rules) -> Self {
        let tenant = rules.tenant_policy.as_ref().map(|(version, policy)| {
            CompiledPolicy::compile(policy, Owner::Tenant).map(|policy| policy.numbered(*version))
        });
        let run = rules.run_policy.as_ref().map(|policy| CompiledPolicy::compile(policy, Owner::Run));
        let policies = tenant.transpose().and_then(|tenant| Ok((tenant, run.transpose()?)));
        let said = |faults: Vec<FieldError>| faults.into_iter().map(|fault| fault.message).collect();
        Self {
            number: rules.number,
            policies: policies.map_err(said),
            creators: rules.creators,
            grants: rules.grants,
            deciders: rules.deciders,
        }
    }

    /// A verdict of the moment `at`, beside the approval that people gave. Where it rests on that, it holds no longer than the
    /// keys do that they gave it with.
    pub(crate) fn held(&self, judgement: Judgement, approval: ApprovalId, at: Millis) -> Held {
        let given = self.deciders.get(&approval).map(Vec::as_slice).unwrap_or_default();
        let counting = || given.iter().filter(|decider| decider.until.is_none_or(|until| until > at));
        let deciders: Vec<String> = counting().map(|decider| decider.by.clone()).collect();
        let stands = judgement.is_met_by(&deciders, &self.creators);
        let until = if stands && judgement.effect == Effect::Ask {
            counting().filter_map(|decider| decider.until).min()
        } else {
            judgement.until
        };
        Held { judgement: Judgement { until, ..judgement }, deciders, stands }
    }
}

pub(crate) async fn rules(env: &Env, facts: &RunFacts) -> Gate {
    let read: Result<Rules, StoreError> =
        patiently(|| env.store.rules(facts.lease, facts.thread_id, facts.agent_id)).await;
    match read {
        Err(error) => Gate::shut(error.to_string()),
        Ok(rules) => Gate::of(rules),
    }
}

/// What a call asks for.
pub(crate) struct Asked<'a> {
    pub(crate) tool_name: &'a str,
    pub(crate) input: &'a Value,
    pub(crate) input_hash: &'a str,
}

/// The gate's verdict at the moment `at`.
pub(crate) fn judged_by(
    gate: &Gate,
    facts: &RunFacts,
    registry: &Registry,
    asked: &Asked<'_>,
    effort: &Effort,
    at: Millis,
) -> Judgement {
    let Asked { tool_name, input, input_hash } = *asked;
    let Some(tool) = registry.tool(tool_name) else { return Judgement::denied("there is no such tool") };
    let (context, creators) = (&facts.context, gate.creators.as_slice());
    let call = CallFacts { tool_name, risk: tool.risk, input, input_hash, context, creators, effort };
    let judgement = match &gate.policies {
        Ok((tenant, run)) => {
            let policies = Policies { agent: &registry.policy, tenant: tenant.as_ref(), run: run.as_ref() };
            judge(policies, &gate.grants, &call, at)
        }
        Err(why) => {
            tracing::error!(%why, "a policy can't be judged; calls are denied");
            Judgement::denied("a policy can't be judged")
        }
    };
    judgement.under(gate.number)
}

impl Session {
    /// The rules have changed since calls were judged that would begin: what has not begun is judged by those of now.
    pub(crate) async fn judge_again(&mut self) {
        let gate = rules(&self.env, &self.facts).await;
        let mut causes = std::mem::take(&mut self.causes);
        causes.retain(|cause| !matches!(cause.event, Event::RulesChanged { .. }));
        let times = || causes.iter().map(|cause| cause.event.at());
        // The clock may have been set back meanwhile: what is over when a call would begin is over.
        let (first, last) = (times().fold(self.now(), Millis::min), times().fold(self.now(), Millis::max));
        let effort = Effort::of_reply();
        for cause in &mut causes {
            self.judge_event(&gate, &mut cause.event, &effort, last);
        }
        let verdicts = self.verdicts(&gate, &effort, last);
        if !verdicts.is_empty() && !cancel_comes_first(&mut causes) {
            // The time of a rest doesn't count, also where the run waits for people from now on.
            let rests =
                |cause: &&Cause| matches!(cause.event, Event::Rested { .. } | Event::Suspended { .. });
            let rested = causes.iter().take_while(rests).count();
            causes.insert(rested, Event::RulesChanged { at: first, verdicts }.into());
        }
        self.causes = causes;
    }

    fn judge_event(&self, gate: &Gate, event: &mut Event, effort: &Effort, at: Millis) {
        match event {
            Event::ModelReplied { calls, .. } => {
                for call in calls.iter_mut().filter(|call| call.judgement.is_some()) {
                    call.judgement =
                        Some(self.judgement(gate, &call.tool_name, Some(&call.input), effort, at));
                }
            }
            Event::CallDecided { call, approval, verdict: CallVerdict::Approved(approved), .. } => {
                let Some(known) = self.state.call(*call) else { return };
                let edited = approved.edited.as_ref().map(|(input, ..)| input);
                let input = edited.or_else(|| self.inputs.get(call));
                let judgement = self.judgement(gate, &known.tool_name, input, effort, at);
                let held = gate.held(judgement, approval.unwrap_or_else(|| known.approval_id()), at);
                approved.judged_again = held.judgement;
                (approved.deciders, approved.stands) = (Some(held.deciders), held.stands);
            }
            _ => {}
        }
    }

    /// Of the calls that may begin and have not.
    fn verdicts(&self, gate: &Gate, effort: &Effort, at: Millis) -> Vec<JudgedAgain> {
        let waiting = self.state.calls.iter().filter(|call| matches!(call.stage, Stage::Ready | Stage::Key));
        let judged = |call: &Call| {
            let judgement = self.judgement(gate, &call.tool_name, self.inputs.get(&call.id), effort, at);
            let (judgement, stands) = match &call.approved {
                None => (judgement, true),
                Some(given) => {
                    let held = gate.held(judgement, given.approval, at);
                    (held.judgement, held.stands)
                }
            };
            JudgedAgain { call: call.id, judgement, stands }
        };
        waiting.map(judged).collect()
    }

    /// The gate's verdict about a call. What isn't known isn't judged, and doesn't run.
    pub(crate) fn judgement(
        &self,
        gate: &Gate,
        tool_name: &str,
        input: Option<&Value>,
        effort: &Effort,
        at: Millis,
    ) -> Judgement {
        match input {
            Some(input) => {
                let asked = Asked { tool_name, input, input_hash: &input_hash(input) };
                judged_by(gate, &self.facts, &self.registry, &asked, effort, at)
            }
            None => Judgement::denied("the input isn't known").under(gate.number),
        }
    }
}

/// Whoever wants the run to end is heard before the rules of now, which might end it otherwise; nothing begins after that.
/// Only what became of calls stays before it.
fn cancel_comes_first(causes: &mut [Cause]) -> bool {
    let is_cancel = |cause: &Cause| matches!(cause.event, Event::CancelRequested { .. });
    let is_word = |cause: &Cause| {
        use Event::{BudgetChanged, BudgetDenied, CallDecided};
        matches!(cause.event, CallDecided { .. } | BudgetChanged { .. } | BudgetDenied { .. })
    };
    let Some(cancel) = causes.iter().position(is_cancel) else { return false };
    let is_first = causes[..cancel].iter().all(is_word);
    if is_first {
        causes[..=cancel].rotate_right(1);
    }
    is_first
}

#[cfg(test)]
mod tests {
    use answerable_core::id::CallId;
    use answerable_core::run::CallVerdict;
    use answerable_core::tool::{Attempt, Output};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_cancel_passes_words_but_not_what_became_of_calls() {
        let (at, call) = (1, CallId(Uuid::nil()));
        let cancel = Event::CancelRequested { at, reason: None };
        let denied = Event::CallDecided {
            at,
            call,
            approval: None,
            verdict: CallVerdict::Denied,
            by: "user:ann".into(),
            reason: None,
            given_at: None,
        };
        let outcome = Attempt::Succeeded(Output::plain("done"));
        let done = Event::ToolAttempted { at, call, outcome, jitter: 0 };
        for (events, is_first) in [
            (vec![&cancel, &done], true),
            (vec![&denied, &denied, &cancel, &done], true),
            (vec![&done, &cancel], false),
            (vec![&denied, &done], false),
        ] {
            let mut causes: Vec<Cause> = events.iter().map(|event| Cause::from((*event).clone())).collect();
            assert_eq!(cancel_comes_first(&mut causes), is_first, "{events:?}");
            let mut wanted = events.clone();
            wanted.sort_by_key(|event| is_first && **event != cancel);
            assert_eq!(causes.iter().map(|cause| &cause.event).collect::<Vec<_>>(), wanted);
        }
    }
}
