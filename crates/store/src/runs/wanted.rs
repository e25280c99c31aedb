//! What a run that somebody wants is, and why it may not be had.

use std::time::Duration;

use answerable_core::FieldError;
use answerable_core::budget::Budgets;
use answerable_core::id::{AgentId, RunId, ScheduleId, ThreadId};
use answerable_core::input::InputMessage;
use answerable_core::permission::VERSION_OF_RUN_POLICIES;
use answerable_core::run::{Heir, RunState};
use answerable_core::trace::TraceContext;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::counts::Full;

/// A run that somebody wants.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id.
    pub run_id: RunId,
    /// The stored agent and its version; `None`: it came with the request.
    pub agent: Option<(AgentId, i32)>,
    /// Hash of the agent, which is stored already.
    pub spec_hash: String,
    /// The conversation it belongs to.
    pub thread_id: Option<ThreadId>,
    /// What to do where another run of the thread hasn't ended.
    pub on_busy: OnBusy,
    /// Its limits.
    pub budgets: Budgets,
    /// What it is to do.
    pub messages: Vec<InputMessage>,
    /// Context: a JSON object.
    pub context: Value,
    /// Metadata: a JSON object of strings.
    pub metadata: Value,
    /// Where its trace hangs.
    pub trace: TraceContext,
    /// Who wants it.
    pub created_by: String,
    /// All who count as having started it: a key, and whoever it spoke for.
    pub creators: Vec<String>,
    /// Its own policy, judged beside the agent's and the tenant's.
    pub policy: Option<Value>,
    /// From -10 to 10.
    pub priority: i16,
    /// It stays queued until then.
    pub not_before: Option<DateTime<Utc>>,
    /// It ends then.
    pub deadline: Option<DateTime<Utc>>,
    /// Of the tenant's runs with this key one works at a time.
    pub concurrency_key: Option<String>,
    /// The run that it stands on, and what it goes on from.
    pub origin: Option<Origin>,
    /// Runs above it, each of which called the next; the last called it.
    pub depth: u32,
    /// The schedule that it is of, and when it was due.
    pub schedule: Option<(ScheduleId, DateTime<Utc>)>,
    /// What servers must understand to work on it ([`answerable_core::run::version_of`] its agent).
    pub needs: u16,
}

/// What a run goes on from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// `continue` or `fork`.
    pub kind: OriginKind,
    /// The run that it stands on.
    pub run_id: RunId,
    /// The step after which it goes on; 0: from the input on.
    pub after_step: u32,
    /// The state there.
    pub(crate) state: RunState,
    /// Effects that it may take from the ledger.
    pub(crate) effects: u32,
    /// Rows of its lineage.
    pub(crate) lineage: i32,
    /// Its workspace, if it has no thread.
    pub(crate) workspace: Uuid,
}

/// How a run stands on another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginKind {
    /// It goes on where the other one ended.
    Continue,
    /// It goes on from a checkpoint of the other one.
    Fork,
}

impl OriginKind {
    /// As the API names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Fork => "fork",
        }
    }
}

impl NewRun {
    /// The state that it begins with; its time counts from `counts_from`.
    pub(super) fn first_state(&self, counts_from: DateTime<Utc>) -> RunState {
        let (messages, counts_from) = (self.messages.len() as u64, counts_from.timestamp_millis());
        let (run_id, budgets) = (self.run_id, self.budgets.clone());
        let state = match &self.origin {
            None => {
                let deadline = self.deadline.map(|at| at.timestamp_millis());
                RunState::accepted(run_id, budgets, messages, counts_from, deadline)
            }
            Some(origin) => {
                let heir = Heir { run_id, budgets, messages, effects: origin.effects, counts_from };
                match origin.kind {
                    OriginKind::Continue => origin.state.continued(heir),
                    OriginKind::Fork => origin.state.forked(origin.after_step, heir),
                }
            }
        };
        let needs = self.needs.max(if self.policy.is_some() { VERSION_OF_RUN_POLICIES } else { 0 });
        state.given(self.messages.iter().any(InputMessage::is_more)).needing(needs).below(self.depth)
    }
}

/// What to do where another run of the thread hasn't ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnBusy {
    /// Wait behind it.
    #[default]
    Queue,
    /// Refuse.
    Reject,
    /// Cancel it, and wait for its end.
    CancelPrevious,
}

/// Why a run isn't accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunRefused {
    /// Its input refers to what isn't there or doesn't fit; the pointer is one from the input's messages on.
    Input(FieldError),
    /// There is no such thread.
    UnknownThread,
    /// Another run of the thread hasn't ended.
    ThreadBusy,
    /// The tenant's queue is full.
    QueueFull,
    /// The tenant's tokens of the day are used up; there are new ones after this time.
    TokensUsedUp(Duration),
    /// The tenant's money of the day is used up; there is new money after this time.
    MoneyUsedUp(Duration),
    /// The tenant has as much as it may have.
    Full(Full),
}
