//! The rules of a trial's tenant: what calls are judged by, and the fence that lets none begin by older ones.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Trial;
use crate::id::ApprovalId;
use crate::json::input_hash;
use crate::permission::{
    CallFacts, CompiledPolicy, Effect, Grant, Judgement, Owner, Policies, Policy, judge,
};
use crate::run::{
    Approval, CallVerdict, Event, IllegalEvent, JudgedAgain, LedgerRow, Record, RunState, Stage,
};
use crate::schema::Effort;

/// Who started the run.
pub(in crate::run) const CREATOR: &str = "key_a";

/// What calls are judged by beside their agent's policy.
#[derive(Debug, Default)]
pub(in crate::run) struct Rules {
    /// It rises with every change that may forbid what was allowed.
    pub(in crate::run) number: i64,
    pub(in crate::run) tenant: Option<CompiledPolicy>,
    pub(in crate::run) grants: Vec<Grant>,
    /// Whose word doesn't count any more.
    pub(in crate::run) gone: BTreeSet<String>,
}

impl Trial {
    pub(in crate::run) fn judgement(&self, tool_name: &str, input: &Value) -> Judgement {
        let (risk, hash) = (self.equipped().tool(tool_name).expect("a tool").risk, input_hash(input));
        let (context, creators) = (json!({}), [CREATOR.to_owned()]);
        let (input_hash, context, creators, effort) = (&*hash, &context, &creators, &Effort::of_one());
        let facts = CallFacts { tool_name, risk, input, input_hash, context, creators, effort };
        let policies =
            Policies { agent: &self.equipped().policy, tenant: self.rules.tenant.as_ref(), run: None };
        judge(policies, &self.rules.grants, &facts, self.now).under(self.rules.number)
    }

    /// The tenant has this policy from now on, or none.
    pub(in crate::run) fn rules_are(&mut self, policy: Option<&Policy>) {
        self.rules.number += 1;
        let number = i32::try_from(self.rules.number).expect("few");
        let compiled = |policy| CompiledPolicy::compile(policy, Owner::Tenant).expect("a sound policy");
        self.rules.tenant = policy.map(|policy| compiled(policy).numbered(number));
    }

    /// These people approve the call, with the verdict of this moment.
    pub(in crate::run) fn approved_by(
        &mut self,
        index: usize,
        deciders: &[&str],
        edited: Option<(Value, &str)>,
    ) -> Vec<Record> {
        let deciders: Vec<String> = deciders.iter().map(|who| (*who).to_owned()).collect();
        let edited = edited.map(|(input, key)| (input.clone(), input_hash(&input), key.to_owned()));
        self.must(self.decided(index, self.approval(index, &deciders, edited)))
    }

    /// Those of them whose word counts.
    pub(in crate::run) fn counting(&self, deciders: &[String]) -> Vec<String> {
        deciders.iter().filter(|decider| !self.rules.gone.contains(*decider)).cloned().collect()
    }

    fn stands(&self, judgement: &Judgement, approval: ApprovalId) -> bool {
        let given = self.tables.approvals.all[&approval].given.as_ref().expect("an approval that was given");
        judgement.is_met_by(&self.counting(&given.deciders), &[CREATOR.to_owned()])
    }

    /// People approved, with the verdict of this moment.
    pub(in crate::run) fn approval(
        &self,
        index: usize,
        deciders: &[String],
        edited: Option<(Value, String, String)>,
    ) -> CallVerdict {
        let call = &self.state.calls[index];
        let input = edited.as_ref().map_or(&self.tables.calls[&call.id].row.input, |(input, ..)| input);
        let judged_again = self.judgement(&call.tool_name, input);
        let deciders = self.counting(deciders);
        let stands = judged_again.is_met_by(&deciders, &[CREATOR.to_owned()]);
        CallVerdict::Approved(Box::new(Approval { judged_again, deciders: Some(deciders), stands, edited }))
    }

    /// Whether a call would begin here that was judged by other rules than those of now.
    pub(super) fn is_behind(&self, records: &[Record]) -> bool {
        self.fenced && opened(records).any(|row| row.rules != self.rules.number)
    }

    /// What has not begun is judged by the rules of now, and then what would have happened does, if it still can.
    pub(super) fn judged_again(&mut self, mut event: Event) -> Result<Vec<Record>, IllegalEvent> {
        let verdicts = self.verdicts();
        let mut records = Vec::new();
        if !verdicts.is_empty() {
            records.extend(self.commits(Event::RulesChanged { at: self.now, verdicts }, true)?);
        }
        let is_looked_up = |state: &RunState, id| state.call(id).is_some_and(|call| call.stage == Stage::Key);
        let is_late = match &event {
            Event::KeyFree { call, .. } | Event::KeyTaken { call, .. } | Event::AgentFound { call, .. } => {
                !is_looked_up(&self.state, *call)
            }
            _ => self.state.is_ended(),
        };
        if !is_late {
            self.judge_event(&mut event);
            records.extend(self.commits(event, true)?);
        }
        Ok(records)
    }

    fn judge_event(&self, event: &mut Event) {
        match event {
            Event::ModelReplied { calls, .. } => {
                for call in calls.iter_mut().filter(|call| call.judgement.is_some()) {
                    call.judgement = Some(self.judgement(&call.tool_name, &call.input));
                }
            }
            Event::CallDecided { call, verdict, .. } => {
                if let CallVerdict::Approved(given) = verdict {
                    let index = self.state.calls.iter().position(|known| known.id == *call).expect("a call");
                    let deciders = given.deciders.clone().expect("those who approved");
                    *verdict = self.approval(index, &deciders, given.edited.clone());
                }
            }
            _ => {}
        }
    }

    fn verdicts(&self) -> Vec<JudgedAgain> {
        let waiting = self.state.calls.iter().filter(|call| matches!(call.stage, Stage::Ready | Stage::Key));
        let judged = |call: &crate::run::Call| {
            let judgement = self.judgement(&call.tool_name, &self.tables.calls[&call.id].row.input);
            let stands = call.approved.as_ref().is_none_or(|given| self.stands(&judgement, given.approval));
            JudgedAgain { call: call.id, judgement, stands }
        };
        waiting.map(judged).collect()
    }

    /// Whatever begins may, by the rules of this moment: nothing that they deny, and what they ask for was approved by those
    /// who must.
    pub(super) fn check_begun(&self, records: &[Record]) {
        for row in opened(records).filter(|_| self.fenced) {
            let verdict = self.judgement(&row.tool_name, &self.tables.calls[&row.call].row.input);
            match (verdict.effect, row.approval) {
                (Effect::Allow, _) => {}
                (Effect::Ask, Some(approval)) => {
                    assert!(self.stands(&verdict, approval), "too few approved {row:?} by {verdict:?}");
                }
                (effect, _) => panic!("{row:?} begins by {effect:?}"),
            }
        }
    }
}

fn opened(records: &[Record]) -> impl Iterator<Item = &LedgerRow> {
    records.iter().filter_map(|record| match record {
        Record::LedgerOpened(row) => Some(&**row),
        _ => None,
    })
}
