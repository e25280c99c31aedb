//! The next state and its rows, while they are only thought of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use answerable_core::Millis;
use answerable_core::id::{CallId, LedgerId};
use answerable_core::ledger::Outcome;
use answerable_core::registry::Registry;
use answerable_core::run::{
    CallVerdict, ChildEnd, Event, Reconciliation, Record, RunState, Stage, Status, Transition, inputs_after,
    next_due, outstanding, step,
};
use answerable_core::tool::{Attempt, ErrorCode, Output};
use answerable_core::trace::{Span, Told, spans};
use answerable_ports::ModelTarget;
use answerable_ports::commit::{Release, StoredArtifact};

use crate::drive::NOT_YET;
use crate::session::{Cause, Session};

/// An attempt whose run had ended when it came in.
#[derive(Debug, Clone)]
pub(crate) struct Late {
    pub(crate) event: Event,
    pub(crate) artifacts: Vec<StoredArtifact>,
}

/// The next state and its rows, not committed yet.
pub(crate) struct Draft {
    pub(crate) state: RunState,
    /// The agent with the tools that it has then.
    pub(crate) registry: Arc<Registry>,
    pub(crate) events: Vec<Event>,
    /// The spans that ended with each of them.
    pub(crate) spans: Vec<Vec<Span>>,
    pub(crate) records: Vec<Record>,
    pub(crate) artifacts: Vec<StoredArtifact>,
    pub(crate) consumed: Vec<i64>,
    pub(crate) late: Vec<Late>,
    pub(crate) steered: bool,
    /// The run ended before what its dead server had out was looked at: nobody waits for that.
    pub(crate) orphans: bool,
    pub(crate) target: Option<ModelTarget>,
}

impl Draft {
    pub(crate) fn of(state: RunState, registry: Arc<Registry>) -> Self {
        Self {
            state,
            registry,
            events: Vec::new(),
            spans: Vec::new(),
            records: Vec::new(),
            artifacts: Vec::new(),
            consumed: Vec::new(),
            late: Vec::new(),
            steered: false,
            orphans: false,
            target: None,
        }
    }

    /// A run that ends in the same breath in which a call would have been sent: it wasn't, so its entry is closed here and
    /// now. What was out before stays open until its outcome comes in.
    pub(crate) fn close_unsent(&mut self, committed: &RunState) {
        if !self.state.is_ended() {
            return;
        }
        let mut unsent = BTreeSet::new();
        for record in &self.records {
            match record {
                Record::LedgerOpened(row) => drop(unsent.insert(row.id.0)),
                Record::LedgerAttempt { ledger_id, .. } => drop(unsent.insert(ledger_id.0)),
                Record::LedgerClosed { ledger_id, .. } => drop(unsent.remove(&ledger_id.0)),
                _ => {}
            }
        }
        for id in unsent {
            let before = committed.call(CallId(id)).map(|call| &call.stage);
            let tainted = matches!(before, Some(Stage::Backoff { tainted: true, .. }));
            let outcome = if tainted { Outcome::uncertain() } else { Outcome::failed(ErrorCode::Cancelled) };
            self.records.push(Record::LedgerClosed { ledger_id: LedgerId(id), outcome });
        }
    }

    /// What came in with the end of its run, which doesn't wait for it any more.
    pub(crate) fn comes_late(&mut self, committed: &RunState, cause: &Cause) {
        match &cause.event {
            Event::ToolAttempted { .. } => {
                self.late.push(Late { event: cause.event.clone(), artifacts: cause.artifacts.clone() });
            }
            Event::ChildEnded { call, end, .. } => {
                self.close_child(committed, *call, end);
                self.artifacts.extend(cause.artifacts.iter().cloned());
            }
            // Its row says that it was approved; it is of no use any more.
            Event::CallDecided { approval: Some(approval_id), verdict: CallVerdict::Approved(_), .. } => {
                let reason = "the run ended before it could be used".into();
                self.records.push(Record::ApprovalVoid { approval_id: *approval_id, reason });
            }
            Event::Recovered { .. } => self.orphans = true,
            _ => {}
        }
    }

    /// A run that another one called ended in the same breath as that one. Nobody tells it again, so the call's entry says
    /// here and now what became of it.
    fn close_child(&mut self, committed: &RunState, call: CallId, end: &ChildEnd) {
        let Some(known) = committed.call(call).filter(|known| matches!(known.stage, Stage::Child { .. }))
        else {
            return;
        };
        let ledger_id = known.ledger_id();
        let is_its = |record: &Record| matches!(record, Record::LedgerClosed { ledger_id: id, .. } if *id == ledger_id);
        self.records.retain(|record| !is_its(record));
        self.records.push(Record::LedgerClosed { ledger_id, outcome: end.outcome(known.writes) });
    }

    /// Applies an event; false if it can't happen (any more).
    pub(crate) fn apply(&mut self, session: &Session, event: Event) -> bool {
        let equipped = match equipped_by(session, &event) {
            Ok(equipped) => equipped,
            Err(why) => {
                tracing::error!(%why, "a list of tools can't be compiled");
                let (at, code) = (event.at(), "internal_error".into());
                return self.apply(session, Event::Broken { at, code, detail: why });
            }
        };
        match step(session.config(&self.registry), self.state.clone(), event.clone()) {
            Ok(transition) => {
                self.spans.push(self.told(session, &event, &transition));
                if let Some(registry) = equipped {
                    self.registry = registry;
                }
                self.state = transition.state;
                self.records.extend(transition.records);
                self.events.push(event);
                true
            }
            Err(illegal) => {
                tracing::debug!(%illegal, "an event came too late");
                false
            }
        }
    }

    /// The spans that end with an event.
    fn told(&self, session: &Session, event: &Event, transition: &Transition) -> Vec<Span> {
        let (registry, frame) = (&*self.registry, &session.facts.frame);
        let inputs = if frame.content && registry.spec.trace.content {
            inputs_after(&session.inputs, &[self.records.as_slice(), &transition.records].concat())
        } else {
            BTreeMap::new()
        };
        let (before, after, records) = (&self.state, &transition.state, transition.records.as_slice());
        spans(frame, &Told { registry, before, event, after, records, inputs: &inputs })
    }
}

/// The agent with the tools that an event lists, if it lists any.
fn equipped_by(session: &Session, event: &Event) -> Result<Option<Arc<Registry>>, String> {
    match event {
        Event::ToolsListed { list, .. } => session.equipped(&list.tools).map(Some),
        _ => Ok(None),
    }
}

/// What became of a call, without what the far side said.
pub(crate) fn without_words(event: Event) -> Event {
    let said = || "What came of it could not be stored.".to_owned();
    match event {
        Event::ToolAttempted { at, call, outcome, jitter } => {
            let outcome = match outcome {
                Attempt::Succeeded(_) => Attempt::Succeeded(Output::plain(said())),
                Attempt::Refused(code, _) => Attempt::Refused(code, said()),
                Attempt::NotDone(code, _, after) => Attempt::NotDone(code, said(), after),
                Attempt::Unclear(code, _) => Attempt::Unclear(code, said()),
            };
            Event::ToolAttempted { at, call, outcome, jitter }
        }
        Event::ToolReconciled { at, call, reconciliation } => {
            let reconciliation = Reconciliation { state: reconciliation.state, result: None };
            Event::ToolReconciled { at, call, reconciliation }
        }
        Event::ChildEnded { at, call, mut end } => {
            end.output = Output::plain(said());
            Event::ChildEnded { at, call, end }
        }
        other => other,
    }
}

/// What becomes of the lease.
pub(crate) fn release(draft: &Draft, writes_out: bool, now: Millis) -> Release {
    let state = &draft.state;
    if state.is_ended() {
        let late = writes_out || draft.orphans || !draft.late.is_empty();
        return if late { Release::EndWithLateCalls } else { Release::End };
    }
    if state.status == Status::Queued {
        // It can't start yet; what came in for it is dealt with.
        return Release::Park { wake_at: Some(now + NOT_YET) };
    }
    let idle = state.status.is_waiting() && outstanding(state).is_empty();
    if idle { Release::Park { wake_at: next_due(state) } } else { Release::Keep }
}
