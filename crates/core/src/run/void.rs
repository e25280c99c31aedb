//! What was approved, or allowed, is looked at again before it begins: by the rules and the tool of that moment.

use super::call::{Approved, Stage};
use super::decision::Decision;
use super::event::JudgedAgain;
use super::open_approval::VERSION_OF_APPROVALS;
use super::record::Record;
use super::status::StopReason;
use super::step::{Legal, Machine};
use crate::id::ApprovalId;
use crate::permission::{Effect, Judgement, OnExpiry};

/// How often people are asked about one call at most.
const MAX_ASKED: u32 = 5;

/// Why an approval of a call can't be used by a verdict of this moment. `stands`: those who gave it are those who must.
pub(super) fn void_by_rules(judgement: &Judgement, stands: bool) -> Option<&'static str> {
    match judgement.effect {
        Effect::Deny => Some("policy denies it by now"),
        Effect::Ask if !stands => Some("policy asks for others by now than those who approved"),
        Effect::Ask | Effect::Allow => None,
    }
}

impl Machine<'_> {
    /// The rules are others now: what has not begun was judged again.
    pub(super) fn rules_changed(&mut self, verdicts: &[JudgedAgain]) -> Legal {
        let mut judged = Vec::new();
        for verdict in verdicts {
            judged.push((self.index_of(verdict.call, "RulesChanged")?, verdict));
        }
        for (index, verdict) in judged {
            // What has begun, or is done, was judged when it was. In a run that ends nothing begins.
            let waits = matches!(self.state.calls[index].stage, Stage::Ready | Stage::Key);
            if waits && self.state.ending.is_none() {
                self.judged_again(index, verdict);
            }
        }
        self.note_progress();
        Ok(())
    }

    fn judged_again(&mut self, index: usize, verdict: &JudgedAgain) {
        let judgement = &verdict.judgement;
        self.allow_for_older_servers(index);
        self.note_rules(index, judgement);
        match self.state.calls[index].approved.take() {
            None => self.judged(index, judgement),
            // Tools don't change within a step: it is of the tool that was asked about.
            Some(given) => match void_by_rules(judgement, verdict.stands) {
                Some(why) => self.void(index, given.approval, why, judgement),
                None => self.stands(index, given, judgement),
            },
        }
    }

    /// A server of an older version may have asked people about it and kept no word of that, nor of rules, whose numbers
    /// begin at 1: the id of the first approval may be taken.
    fn allow_for_older_servers(&mut self, index: usize) {
        let call = &mut self.state.calls[index];
        if call.rules == 0 && call.approved.is_none() {
            call.asked_before = call.asked_before.max(1);
        }
    }

    /// By what a call was judged last.
    pub(super) fn note_rules(&mut self, index: usize, judgement: &Judgement) {
        let call = &mut self.state.calls[index];
        (call.rules, call.allowed_until) = (judgement.rules, judgement.until);
    }

    /// An approval may be used by the verdict of this moment. Servers that would forget it don't get the run any more.
    pub(super) fn stands(&mut self, index: usize, given: Approved, judgement: &Judgement) {
        self.state.version = self.state.version.max(VERSION_OF_APPROVALS);
        self.note_denials(judgement);
        let decision = Decision { judged_by: judgement.judged_by.clone(), ..given.decision };
        let call = &mut self.state.calls[index];
        self.records.push(Record::CallDecided { call: call.id, decision: decision.clone() });
        call.approved = Some(Approved { decision, ..given });
    }

    /// The tool that was asked about is another by now.
    pub(super) fn void_by_tool(&self, index: usize) -> Option<&'static str> {
        let call = &self.state.calls[index];
        let asked = self.state.open_approvals.iter().find(|open| open.row.id == call.approval_id())?;
        let then = asked.row.tool_version.as_ref()?;
        let now = self.config.registry.tool_version(&call.tool_name);
        (now.as_ref() != Some(then)).then_some("the tool is not the one that was asked about")
    }

    /// An approval is void; the verdict of this moment holds in its place.
    pub(super) fn void(&mut self, index: usize, approval_id: ApprovalId, why: &str, judgement: &Judgement) {
        self.void_approval(approval_id, why);
        let call = &mut self.state.calls[index];
        call.stage = Stage::Ready;
        call.asked_before += 1;
        if judgement.effect == Effect::Ask && call.asked_before >= MAX_ASKED {
            let reason = "what was approved changed again and again before it could run";
            let judged_by = judgement.judged_by.clone();
            self.judged(index, &Judgement { judged_by, ..Judgement::denied(reason) });
        } else {
            self.judged(index, judgement);
        }
    }

    pub(super) fn is_approval_too_old(&self, index: usize) -> bool {
        self.state.calls[index].approved.as_ref().is_some_and(|given| given.until < self.at)
    }

    /// An approval was given, and not used in time.
    pub(super) fn approval_too_old(&mut self, index: usize) {
        let Some(given) = self.state.calls[index].approved.take() else { return };
        let tool_name = self.state.calls[index].tool_name.clone();
        let reason = "the approval was not used in time";
        self.void_approval(given.approval, reason);
        if given.on_expiry == OnExpiry::Stop {
            let detail = format!("the approval of the call of {tool_name} was not used in time");
            self.end_by(StopReason::ApprovalExpired, detail, Some(tool_name));
        }
        let decision = Decision::by_person(Effect::Deny, "expiry".into(), reason.into(), self.at);
        self.decided(index, &decision);
        self.deny(index, &decision.by, &decision.reason);
    }

    /// A call has its result, and didn't begin by the approval that was given for it: nothing else will.
    pub(super) fn leave_approval_unused(&mut self, index: usize) {
        if let Some(given) = self.state.calls[index].approved.take() {
            self.void_approval(given.approval, "the call came to its end without it");
        }
    }

    fn void_approval(&mut self, approval_id: ApprovalId, reason: &str) {
        self.records.push(Record::ApprovalVoid { approval_id, reason: reason.into() });
    }
}
