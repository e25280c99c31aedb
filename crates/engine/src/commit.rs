//! From what happened to what is committed: events are folded over the committed state, and all of it is stored or none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use answerable_core::id::{ApprovalId, CallId, LedgerId};
use answerable_core::ledger::Outcome;
use answerable_core::message::Message;
use answerable_core::run::{ApprovalKind, Command, Event, Record, RunState, Stage, Status, next_due, outstanding, step};
use answerable_core::tool::ErrorCode;
use answerable_ports::commit::{Commit, CommitOutcome, InboundBody, Release, StoredArtifact};
use answerable_ports::{Inbound, ModelTarget, StoreError};
use serde_json::Value;
use uuid::Uuid;

use crate::drive::NOT_YET;
use crate::env::now;
use crate::session::{Cause, Session};

/// Contexts that may be built for one commit; more would be a circle.
const MAX_CONTEXTS: usize = 8;

/// What became of what happened.
#[derive(Debug)]
pub(crate) enum Settled {
    /// The run goes on here.
    GoesOn,
    /// The run waits or has ended; its lease is given back.
    Released,
    /// The run has ended; these calls came in late, others may still be out.
    EndedWithLateCalls(Vec<Late>),
    /// The lease is lost, or the run can't be written any more: nothing more is done here.
    Gone,
}

/// An attempt whose run had ended when it came in.
#[derive(Debug, Clone)]
pub(crate) struct Late {
    pub(crate) event: Event,
    pub(crate) artifact: Option<StoredArtifact>,
}

/// The next state and its rows, not committed yet.
struct Draft {
    state: RunState,
    events: Vec<Event>,
    records: Vec<Record>,
    artifacts: Vec<StoredArtifact>,
    consumed: Vec<i64>,
    late: Vec<Late>,
    steered: bool,
    target: Option<ModelTarget>,
}

impl Session {
    /// Commits what happened, however often the store must be asked. `writes_out`: calls that change something are out.
    pub(crate) async fn settle(&mut self, writes_out: bool) -> Settled {
        let mut broken = false;
        while !self.causes.is_empty() {
            let draft = self.draft().await;
            let late = draft.late.clone();
            let release = release(&draft, writes_out);
            match self.store(&draft, release).await {
                Ok(CommitOutcome::Stored) => {
                    self.adopt(draft);
                    match release {
                        Release::Keep => {}
                        Release::EndWithLateCalls => return Settled::EndedWithLateCalls(late),
                        Release::Park { .. } | Release::End => return Settled::Released,
                    }
                }
                Ok(CommitOutcome::InboxFirst(inbound)) => self.receive(inbound).await,
                Ok(CommitOutcome::LeaseLost) => return Settled::Gone,
                Ok(CommitOutcome::KeyTaken(call)) => self.key_was_taken(call),
                Err(error) if broken => {
                    tracing::error!(run_id = %self.lease().run_id, %error, "the run can't be written; left to its lease");
                    return Settled::Gone;
                }
                Err(error) => {
                    tracing::error!(run_id = %self.lease().run_id, %error, "a commit failed; the run is ended");
                    broken = true;
                    self.give_up();
                }
            }
        }
        Settled::GoesOn
    }

    /// Another call took the key between the look and the write: look again.
    fn key_was_taken(&mut self, taken: CallId) {
        self.causes.retain(|cause| !matches!(cause.event, Event::KeyFree { call, .. } if call == taken));
    }

    /// What happened can't be stored; that the run ends must be.
    fn give_up(&mut self) {
        let consumed: Vec<Cause> = self.causes.drain(..).filter(|cause| cause.inbox.is_some()).collect();
        let detail = "the runtime could not store what happened".into();
        self.causes.push(Event::Broken { at: self.now(), code: "internal_error".into(), detail }.into());
        // What came from outside is dealt with by the end of the run.
        self.causes.extend(consumed.into_iter().map(|cause| Cause { artifact: None, ..cause }));
    }

    async fn draft(&self) -> Draft {
        let draft = self.fold(false).await;
        if draft.state.is_ended() && !self.steers.is_empty() && !draft.steered {
            // The run ends without another step: what people said joins its history all the same.
            return self.fold(true).await;
        }
        draft
    }

    async fn fold(&self, steers_first: bool) -> Draft {
        let mut draft = Draft::of(self.state.clone());
        if steers_first {
            self.steer(&mut draft);
        }
        for cause in &self.causes {
            let mut event = cause.event.clone();
            if let Event::ModelReplied { more_input, .. } = &mut event {
                *more_input = !self.steers.is_empty() && !draft.steered;
            }
            draft.consumed.extend(cause.inbox);
            if draft.apply(self, event.clone()) {
                draft.artifacts.extend(cause.artifact.clone());
            } else if draft.state.is_ended() && matches!(event, Event::ToolAttempted { .. }) {
                draft.late.push(Late { event, artifact: cause.artifact.clone() });
            }
        }
        for _ in 0..MAX_CONTEXTS {
            if !outstanding(&draft.state).contains(&Command::BuildContext) {
                break;
            }
            self.steer(&mut draft);
            let history = self.history_with(&draft.records);
            let (event, target) = self.context_event(&draft.state, &history).await;
            draft.apply(self, event);
            draft.target = target;
        }
        draft.close_unsent(&self.state);
        draft
    }

    /// What people said joins at a step's boundary.
    fn steer(&self, draft: &mut Draft) {
        if draft.steered {
            return;
        }
        draft.steered = true;
        for item in &self.steers {
            if let InboundBody::Steer { message_id, content } = &item.body {
                let event = Event::Steered { at: self.now(), message_id: *message_id, content: content.clone() };
                draft.apply(self, event);
                draft.consumed.push(item.number);
            }
        }
    }

    /// The history with the messages of `records`, in order: results take places that were kept for them.
    fn history_with(&self, records: &[Record]) -> Vec<Message> {
        let mut history = self.history.clone();
        for record in records {
            if let Record::Message(message) = record {
                insert(&mut history, message.clone());
            }
        }
        history
    }

    async fn store(&self, draft: &Draft, release: Release) -> Result<CommitOutcome, StoreError> {
        let id = Uuid::now_v7();
        let mut pause = Duration::from_millis(100);
        loop {
            let (commit, began) = (self.commit(draft, release), Instant::now());
            match self.env.store.commit(self.lease(), self.seq, commit, id).await {
                Ok(CommitOutcome::Stored) => {
                    self.env.observer.committed(&draft.records, began.elapsed());
                    return Ok(CommitOutcome::Stored);
                }
                Err(StoreError::Away(why)) => {
                    self.env.observer.commit_failed();
                    tracing::warn!(run_id = %self.lease().run_id, %why, "the store is away; the commit is sent again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                answer => return answer,
            }
        }
    }

    fn commit(&self, draft: &Draft, release: Release) -> Commit {
        Commit {
            state: draft.state.clone(),
            events: draft.events.clone(),
            records: draft.records.clone(),
            thread_id: self.facts.thread_id,
            asked_inputs: self.asked_inputs(draft),
            artifacts: draft.artifacts.clone(),
            consumed: draft.consumed.clone(),
            known_inbox: self.known_inbox,
            release,
            at: draft.events.last().map_or_else(|| self.now(), Event::at),
        }
    }

    /// Inputs of the calls that people are asked about.
    fn asked_inputs(&self, draft: &Draft) -> Vec<(ApprovalId, Value)> {
        let inputs = inputs_after(&self.inputs, &draft.records);
        let asked = draft.records.iter().filter_map(|record| match record {
            Record::ApprovalOpened(row) if row.kind != ApprovalKind::Budget => Some((row.id, row.call?)),
            _ => None,
        });
        asked.filter_map(|(id, call)| inputs.get(&call).map(|input| (id, input.clone()))).collect()
    }

    /// The draft is true now.
    fn adopt(&mut self, draft: Draft) {
        self.inputs = inputs_after(&self.inputs, &draft.records);
        for record in draft.records {
            if let Record::Message(message) = record {
                insert(&mut self.history, message);
            }
        }
        self.steers.retain(|item: &Inbound| !draft.consumed.contains(&item.number));
        self.state = draft.state;
        self.target = draft.target;
        self.seq += 1;
        self.causes.clear();
    }
}

impl Draft {
    fn of(state: RunState) -> Self {
        Self {
            state,
            events: Vec::new(),
            records: Vec::new(),
            artifacts: Vec::new(),
            consumed: Vec::new(),
            late: Vec::new(),
            steered: false,
            target: None,
        }
    }

    /// A run that ends in the same breath in which a call would have been sent: it wasn't, so its entry is closed here and
    /// now. What was out before stays open until its outcome comes in.
    fn close_unsent(&mut self, committed: &RunState) {
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

    /// Applies an event; false if it can't happen (any more).
    fn apply(&mut self, session: &Session, event: Event) -> bool {
        match step(session.config(), self.state.clone(), event.clone()) {
            Ok(transition) => {
                self.state = transition.state;
                self.records.extend(transition.records);
                self.events.push(event);
                true
            }
            Err(illegal) => {
                tracing::debug!(run_id = %session.lease().run_id, %illegal, "an event came too late");
                false
            }
        }
    }
}

/// What becomes of the lease.
fn release(draft: &Draft, writes_out: bool) -> Release {
    let state = &draft.state;
    if state.is_ended() {
        let late = writes_out || !draft.late.is_empty();
        return if late { Release::EndWithLateCalls } else { Release::End };
    }
    if state.status == Status::Queued {
        // It can't start yet; what came in for it is dealt with.
        return Release::Park { wake_at: Some(now() + NOT_YET) };
    }
    let idle = state.status.is_waiting() && outstanding(state).is_empty();
    if idle { Release::Park { wake_at: next_due(state) } } else { Release::Keep }
}

/// Puts a message in its place. Messages of earlier runs come first; within the run it goes by `seq`, and those of the
/// run are a tail of the history because earlier runs have ended.
fn insert(history: &mut Vec<Message>, message: Message) {
    let mut at = history.len();
    while at > 0 && belongs_after(&history[at - 1], &message) {
        at -= 1;
    }
    history.insert(at, message);
}

/// Only results can come in after what follows them; they stand in the same step.
fn belongs_after(known: &Message, message: &Message) -> bool {
    known.seq > message.seq && known.step == message.step && message.tool_call_id.is_some()
}

/// Inputs of the newest step's calls.
fn inputs_after(inputs: &BTreeMap<CallId, Value>, records: &[Record]) -> BTreeMap<CallId, Value> {
    let mut after = inputs.clone();
    for record in records {
        match record {
            Record::StepOpened { .. } => after.clear(),
            Record::CallOpened(row) => drop(after.insert(row.id, row.input.clone())),
            Record::CallEdited { call, input, .. } => drop(after.insert(*call, input.clone())),
            _ => {}
        }
    }
    after
}
