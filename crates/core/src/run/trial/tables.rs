//! The rows that records write, in memory; each row's own rules are checked as it is written.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::approvals::Approvals;
use super::ledger::Ledger;
use crate::Millis;
use crate::id::{ApprovalId, CallId, LedgerId};
use crate::message::Message;
use crate::permission::Effect;
use crate::registry::Validation;
use crate::run::{ApprovalRow, ApprovalStatus, CallRow, Decision, Event, EventType, Record};
use crate::tool::{ResultStatus, ToolResult};

/// A stored call.
#[derive(Debug)]
pub(in crate::run) struct CallTold {
    pub(in crate::run) row: CallRow,
    pub(in crate::run) decisions: Vec<Decision>,
    pub(in crate::run) result: Option<(ToolResult, Option<LedgerId>)>,
}

/// A stored event.
#[derive(Debug)]
pub(in crate::run) struct Told {
    pub(in crate::run) kind: EventType,
    pub(in crate::run) step: Option<u32>,
    pub(in crate::run) data: Value,
}

/// Everything that is stored of a run.
#[derive(Debug, Default)]
pub(in crate::run) struct Tables {
    pub(in crate::run) messages: BTreeMap<u64, Message>,
    pub(in crate::run) calls: BTreeMap<CallId, CallTold>,
    pub(in crate::run) approvals: Approvals,
    pub(in crate::run) ledger: Ledger,
    pub(in crate::run) events: Vec<Told>,
    pub(in crate::run) checkpoints: Vec<u32>,
    /// Steps, and whether they are closed.
    pub(in crate::run) steps: BTreeMap<u32, bool>,
    pub(in crate::run) ended: Option<(Option<String>, Option<Value>)>,
    /// Effects of before that calls took.
    pub(in crate::run) taken: HashSet<LedgerId>,
    /// Calls that began runs of other agents.
    pub(in crate::run) children: HashSet<CallId>,
    message_ids: HashSet<crate::id::MessageId>,
}

impl Tables {
    /// Writes what the API's own transaction wrote of `event`, then its records.
    pub(super) fn fold(&mut self, event: &Event, records: &[Record], at: Millis) {
        assert!(self.ended.is_none(), "rows after the end");
        self.decided_by_people(event);
        for record in records {
            self.write(record, at);
        }
    }

    /// People's words are stored before the run hears of them.
    fn decided_by_people(&mut self, event: &Event) {
        let (approval, status) = match event {
            Event::CallDecided { call, approval, verdict, by, .. } => {
                return self.approvals.decide(*call, *approval, verdict, by);
            }
            Event::EffectSettled { call, applied, .. } => {
                self.ledger.settled(LedgerId(call.0), *applied);
                let id = ApprovalId(uuid::Uuid::from_u128(call.0.as_u128() ^ 1));
                (id, if *applied { ApprovalStatus::Approved } else { ApprovalStatus::Denied })
            }
            // Whoever tells of a child's end writes down what it changed.
            Event::ChildEnded { call, end, .. } => {
                let entry = self.ledger.entries.get_mut(&LedgerId(call.0)).expect("an entry");
                entry.row.writes |= end.effect != crate::ledger::Effect::None;
                return;
            }
            Event::BudgetDenied { approval, .. } => (*approval, ApprovalStatus::Denied),
            _ => return,
        };
        self.approvals.close(approval, status);
    }

    fn write(&mut self, record: &Record, at: Millis) {
        match record {
            Record::Event { kind, step, data } => {
                self.events.push(Told { kind: *kind, step: *step, data: data.clone() });
            }
            Record::Message(message) => self.message(message.clone()),
            Record::StepOpened { number, .. } => {
                assert_ne!(
                    self.steps.insert(*number, false),
                    Some(true),
                    "a closed step is not opened again"
                );
            }
            Record::StepModel { number, .. } => {
                assert_eq!(self.steps.get(number), Some(&false), "an open step")
            }
            Record::StepClosed { number } => {
                assert_eq!(self.steps.insert(*number, true), Some(false), "a step is closed once");
            }
            Record::CallOpened(row) => self.open_call(row),
            Record::CallDecided { call, decision } => {
                let known = self.undone(*call);
                assert_eq!(known.row.validation, Validation::Ok, "only a legal call is decided on");
                // What a person decided is looked at again later.
                assert!(decision.decided_at <= at);
                known.decisions.push(decision.clone());
            }
            Record::CallEdited { call, input, input_hash } => {
                let known = self.undone(*call);
                (known.row.input, known.row.input_hash) = (input.clone(), input_hash.clone());
            }
            Record::CallResult { call, result, ledger_id } => self.result(*call, result, *ledger_id),
            Record::LedgerOpened(row) => {
                let known = self.undone(row.call);
                assert_eq!(known.row.validation, Validation::Ok, "only a legal call runs");
                let allowed = known.decisions.last().map(|decision| decision.effect);
                assert_eq!(allowed, Some(Effect::Allow), "only a call that was let through runs");
                assert_eq!(known.row.input_hash, row.input_hash, "what runs is what was decided on");
                self.ledger.open(row);
                if let Some(approval) = row.approval {
                    self.approvals.using(approval, row);
                }
            }
            Record::LedgerAttempt { ledger_id, attempt, .. } => self.ledger.attempt(*ledger_id, *attempt),
            Record::LedgerClosed { ledger_id, outcome } => self.ledger.close(*ledger_id, *outcome),
            Record::EffectTaken { ledger_id, call } => {
                self.undone(*call);
                assert!(self.taken.insert(*ledger_id), "an effect is taken once");
            }
            Record::ToolsListed { hash, tools } => {
                assert_eq!(*hash, crate::catalog::hash(tools));
            }
            Record::ApprovalOpened(row) => self.approvals.open(row, at),
            Record::ChildOpened(row) => {
                let _ = self.undone(row.call);
                assert!(self.children.insert(row.call), "one run a call");
            }
            Record::ChildStopped { call, .. } => {
                assert!(self.children.contains(call), "a run that was begun")
            }
            Record::ApprovalVoid { approval_id, reason } => self.approvals.void(*approval_id, reason),
            Record::ApprovalClosed { approval_id, status, .. } => {
                self.approvals.close(*approval_id, *status);
            }
            Record::Checkpoint(row) => {
                assert!(!self.checkpoints.contains(&row.step), "one checkpoint a step");
                self.checkpoints.push(row.step);
            }
            Record::Ended { final_answer, error } => {
                assert!(self.ended.is_none(), "one end");
                self.ended = Some((final_answer.clone(), error.clone()));
            }
        }
    }

    /// A message takes its place, once.
    pub(super) fn message(&mut self, message: Message) {
        assert!(self.message_ids.insert(message.id), "a message has its own id");
        assert!(self.messages.insert(message.seq, message).is_none(), "a place is taken once");
    }

    fn open_call(&mut self, row: &CallRow) {
        let told = CallTold { row: row.clone(), decisions: vec![], result: None };
        assert!(self.calls.insert(row.id, told).is_none(), "a call has its own id");
    }

    fn undone(&mut self, id: CallId) -> &mut CallTold {
        let call = self.calls.get_mut(&id).expect("a call that was opened");
        assert!(call.result.is_none(), "nothing happens to a call that has its result");
        call
    }

    fn result(&mut self, id: CallId, result: &ToolResult, ledger_id: Option<LedgerId>) {
        let known = self.undone(id);
        let decided = known.decisions.last().map(|decision| decision.effect);
        known.result = Some((result.clone(), ledger_id));
        if matches!(result.status, ResultStatus::Rejected | ResultStatus::Denied) {
            assert!(ledger_id.is_none(), "a call that didn't run has no entry");
        }
        if result.status == ResultStatus::Denied {
            assert_eq!(decided, Some(Effect::Deny));
        }
        if let Some(entry) = self.ledger.entries.get(&LedgerId(id.0)) {
            assert_eq!(ledger_id, Some(entry.row.id), "a call that ran names its entry");
            entry.agrees_with(result);
        }
    }

    /// Approvals that nobody has decided.
    pub(in crate::run) fn pending(&self) -> Vec<&ApprovalRow> {
        self.approvals.pending().collect()
    }

    /// The names of the events so far.
    pub(in crate::run) fn names(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.kind.as_str()).collect()
    }
}
