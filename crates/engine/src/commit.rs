//! From what happened to what is committed: events are folded over the committed state, and all of it is stored or none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_core::id::{ApprovalId, CallId};
use answerable_core::message::{Message, place};
use answerable_core::run::{
    ApprovalKind, Call, Command, Event, EventType, Record, RunState, Stage, inputs_after, outstanding,
};
use answerable_ports::commit::{Commit, CommitOutcome, InboundBody, Release};
use answerable_ports::{Inbound, StoreError};
use serde_json::Value;
use uuid::Uuid;

use crate::draft::{Draft, Late, release, without_words};
use crate::session::{Cause, Session, answered};

/// Contexts that may be built for one commit; more would be a circle.
const MAX_CONTEXTS: usize = 8;

/// What became of what happened.
#[derive(Debug)]
pub(crate) enum Settled {
    /// The run goes on here.
    GoesOn,
    /// The run waits or has ended; its lease is given back.
    Released,
    /// The run has ended.
    EndedWithLateCalls {
        /// The state before, in which calls were out.
        before: Box<RunState>,
        /// Calls that came in late; others may still be out.
        late: Vec<Late>,
    },
    /// The lease is lost, or the run can't be written any more: nothing more is done here.
    Gone,
}

impl Session {
    /// Commits what happened, however often the store must be asked. `writes_out`: calls that change something are out.
    pub(crate) async fn settle(&mut self, writes_out: bool) -> Settled {
        let mut broken = false;
        while !self.causes.is_empty() {
            if let Err(error) = self.keep_within_bounds().await {
                tracing::error!(%error, "a run's artifacts can't be counted; left to its lease");
                return Settled::Gone;
            }
            let draft = self.draft().await;
            #[cfg(feature = "faults")]
            self.act_before_commit(&draft).await;
            let release = release(&draft, writes_out, self.env.now());
            match self.store(&draft, release).await {
                Ok(CommitOutcome::Stored) => match release {
                    Release::Keep => self.adopt(draft),
                    Release::EndWithLateCalls => {
                        let (before, late) = (Box::new(self.state.clone()), draft.late.clone());
                        self.adopt(draft);
                        return Settled::EndedWithLateCalls { before, late };
                    }
                    Release::Park { .. } | Release::End => return Settled::Released,
                },
                Ok(CommitOutcome::InboxFirst(inbound)) => self.receive(inbound).await,
                Ok(CommitOutcome::RulesChanged) => self.judge_again().await,
                Ok(CommitOutcome::LeaseLost) => return Settled::Gone,
                Ok(CommitOutcome::KeyTaken(call)) => self.key_was_taken(call),
                Err(error) if broken => {
                    tracing::error!(%error, "the run can't be written; left to its lease");
                    return Settled::Gone;
                }
                Err(error) => {
                    tracing::error!(%error, "a commit failed; the run is ended");
                    broken = true;
                    self.give_up();
                }
            }
        }
        Settled::GoesOn
    }

    /// Another call took the key between the look and the write: look again.
    fn key_was_taken(&mut self, taken: CallId) {
        let begins = |event: &Event| matches!(event, Event::KeyFree { call, .. } | Event::AgentFound { call, .. } if *call == taken);
        self.causes.retain(|cause| !begins(&cause.event));
    }

    /// What happened can't be stored; that the run ends must be. What came from outside is dealt with by that, and what
    /// became of calls is kept without their words: a write whose outcome was forgotten would be sent again.
    fn give_up(&mut self) {
        let detail = "the runtime could not store what happened".into();
        let broken = Event::Broken { at: self.now(), code: "internal_error".into(), detail };
        let kept = self.causes.drain(..).filter_map(|cause| match cause.event.clone() {
            Event::ToolAttempted { .. } | Event::ToolReconciled { .. } | Event::Recovered { .. } => {
                Some(Cause { event: without_words(cause.event), artifacts: Vec::new(), inbox: None })
            }
            event => {
                let kept =
                    |inbox| Cause { event: without_words(event), artifacts: Vec::new(), inbox: Some(inbox) };
                cause.inbox.map(kept)
            }
        });
        self.causes = std::iter::once(broken.into()).chain(kept.collect::<Vec<_>>()).collect();
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
        let mut draft = Draft::of(self.state.clone(), Arc::clone(&self.registry));
        if steers_first {
            self.steer(&mut draft);
        }
        for cause in &self.causes {
            let mut event = cause.event.clone();
            if let Event::ModelReplied { more_input, .. } = &mut event {
                *more_input = !self.steers.is_empty() && !draft.steered;
            }
            if let Event::Recovered { unsent, .. } = &mut event {
                unsent.extend(begun(&self.state, &draft.state));
            }
            draft.consumed.extend(cause.inbox);
            if draft.apply(self, event) {
                draft.artifacts.extend(cause.artifacts.iter().cloned());
            } else if draft.state.is_ended() {
                draft.comes_late(&self.state, cause);
            }
        }
        for _ in 0..MAX_CONTEXTS {
            if !outstanding(&draft.state).contains(&Command::BuildContext) {
                break;
            }
            if self.tools_are_stale(&draft.state) && draft.apply(self, Event::ToolsChanged { at: self.now() })
            {
                break;
            }
            self.steer(&mut draft);
            let history = self.history_with(&draft.records);
            let (event, target) = self.context_event(&draft.registry, &draft.state, &history).await;
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
            if let InboundBody::Steer { message_id, content, parts, pinned } = item.body.clone() {
                draft.apply(self, Event::Steered { at: self.now(), message_id, content, parts, pinned });
                draft.consumed.push(item.number);
            }
        }
    }

    /// The history with the messages of `records`, in order: results take places that were kept for them.
    fn history_with(&self, records: &[Record]) -> Vec<Message> {
        let mut history = self.history.clone();
        for record in records {
            if let Record::Message(message) = record {
                place(&mut history, message.clone());
            }
        }
        history
    }

    async fn store(&mut self, draft: &Draft, release: Release) -> Result<CommitOutcome, StoreError> {
        let id = Uuid::now_v7();
        let mut pause = Duration::from_millis(100);
        loop {
            let (commit, began) = (self.commit(draft, release), Instant::now());
            match answered(self.env.store.commit(self.lease(), self.seq, commit, id)).await {
                Ok(CommitOutcome::Stored) => {
                    self.observed(draft, began.elapsed());
                    return Ok(CommitOutcome::Stored);
                }
                Err(StoreError::Away(why)) => {
                    self.env.observer.commit_failed();
                    tracing::warn!(%why, "the store is away; the commit is sent again");
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
            spans: draft.spans.clone(),
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

    /// Inputs of the calls that people are asked about, for the first time or again.
    fn asked_inputs(&self, draft: &Draft) -> Vec<(ApprovalId, Value)> {
        let inputs = inputs_after(&self.inputs, &draft.records);
        let opened = draft.records.iter().filter_map(|record| match record {
            Record::ApprovalOpened(row) => Some(&**row),
            _ => None,
        });
        let reminded = draft.state.open_approvals.iter().map(|open| &open.row);
        let asked = opened.chain(reminded.filter(|row| is_reminded(&draft.records, row.id)));
        asked
            .filter(|row| row.kind != ApprovalKind::Budget)
            .filter_map(|row| Some((row.id, inputs.get(&row.call?)?.clone())))
            .collect()
    }

    /// The draft is true now.
    fn adopt(&mut self, draft: Draft) {
        if let Some(kept) = &mut self.kept {
            kept.number += draft.artifacts.len() as u64;
            kept.bytes += draft.artifacts.iter().map(|artifact| artifact.content.len() as u64).sum::<u64>();
        }
        self.inputs = inputs_after(&self.inputs, &draft.records);
        for record in draft.records {
            if let Record::Message(message) = record {
                place(&mut self.history, message);
            }
        }
        self.steers.retain(|item: &Inbound| !draft.consumed.contains(&item.number));
        self.state = draft.state;
        self.registry = draft.registry;
        self.target = draft.target;
        self.seq += 1;
        self.causes.clear();
    }
}

/// Whether people hear again of what they are asked.
fn is_reminded(records: &[Record], approval: ApprovalId) -> bool {
    records.iter().any(|record| {
        matches!(record, Record::Event { kind: EventType::ApprovalReminder | EventType::ApprovalExpiring, data, .. }
            if data["approval_id"] == approval.to_string())
    })
}

/// Calls that begin with what is being committed: whoever died before had not sent them.
fn begun<'s>(committed: &'s RunState, draft: &'s RunState) -> impl Iterator<Item = CallId> + use<'s> {
    let is_out = |call: &&Call| matches!(call.stage, Stage::Out { .. });
    let was_out = move |id: CallId| committed.call(id).as_ref().is_some_and(is_out);
    draft.calls.iter().filter(is_out).map(|call| call.id).filter(move |id| !was_out(*id))
}
