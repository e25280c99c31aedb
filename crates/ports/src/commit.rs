//! The one write of the engine, and what comes in from outside meanwhile.

use answerable_core::Millis;
use answerable_core::budget::{BudgetPatch, Used};
use answerable_core::id::{ApprovalId, ArtifactId, CallId, MessageId};
use answerable_core::ledger::Effect;
use answerable_core::message::Part;
use answerable_core::run::{Event, Record, RunState, Status, StopReason, SubmittedStatus};
use answerable_core::tool::ErrorCode;
use answerable_core::trace::Span;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// Everything that goes into one transaction: the state, what led to it, and the rows that tell of it.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The state after all of it.
    pub state: RunState,
    /// What happened, for the journal, in order.
    pub events: Vec<Event>,
    /// The spans that ended with each of them.
    pub spans: Vec<Vec<Span>>,
    /// Rows, in order.
    pub records: Vec<Record>,
    /// The run's thread, for those who are told of it.
    pub thread_id: Option<Uuid>,
    /// Inputs of the calls that people are asked about here, for endpoints that want them.
    pub asked_inputs: Vec<(ApprovalId, Value)>,
    /// Whole outputs.
    pub artifacts: Vec<StoredArtifact>,
    /// Things from outside that are dealt with by this commit.
    pub consumed: Vec<i64>,
    /// The newest thing from outside that its author knows of; with a newer one waiting, nothing is written.
    pub known_inbox: i64,
    /// What becomes of the lease.
    pub release: Release,
    /// When all of it happened.
    pub at: Millis,
}

/// What becomes of the lease with a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It is kept: the run goes on here.
    Keep,
    /// The run waits: no server needs it before `wake_at` or before something comes in.
    Park {
        /// When it wakes by itself.
        wake_at: Option<Millis>,
    },
    /// The run has ended.
    End,
    /// The run has ended, but calls are still out whose outcome this server will write to the ledger.
    EndWithLateCalls,
}

/// A whole output, kept apart from the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredArtifact {
    /// Its id.
    pub id: ArtifactId,
    /// The call that made it.
    pub call_id: CallId,
    /// What it is.
    pub media_type: String,
    /// The bytes.
    pub content: Bytes,
}

/// What became of a commit.
#[derive(Debug, Clone, PartialEq)]
pub enum CommitOutcome {
    /// It is stored.
    Stored,
    /// Nothing is written: these came in meanwhile and must be dealt with first.
    InboxFirst(Vec<Inbound>),
    /// Nothing is written: another server has the run, or its tenant is gone.
    LeaseLost,
    /// Nothing is written: another call took this call's business key first.
    KeyTaken(CallId),
    /// Nothing is written: calls would begin that were judged by other rules than those of this moment.
    RulesChanged,
}

/// Something that came in from outside for a run, in the order `number`.
#[derive(Debug, Clone, PartialEq)]
pub struct Inbound {
    /// Its number, rising.
    pub number: i64,
    /// What it is.
    pub body: InboundBody,
}

/// What can come in from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum InboundBody {
    /// Somebody wants the run to end.
    Cancel {
        /// Why.
        reason: Option<String>,
    },
    /// Somebody said something to it.
    Steer {
        /// Id that the message will have.
        message_id: MessageId,
        /// Its text.
        content: String,
        /// Its pieces, where it is more than text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part>,
        /// No context leaves it out.
        #[serde(default)]
        pinned: bool,
    },
    /// An approval of kind `tool_call` was decided.
    Decided {
        /// Which.
        approval_id: ApprovalId,
        /// The call.
        call_id: CallId,
        /// `approve`, `deny` or `answer`.
        decision: DecisionWord,
        /// Edited input.
        input: Option<Value>,
        /// The answer.
        content: Option<String>,
        /// Why.
        reason: Option<String>,
        /// Who.
        by: String,
        /// When; `None` in older rows.
        #[serde(default)]
        at: Option<Millis>,
    },
    /// A person settled an uncertain effect; the ledger has it already.
    Settled {
        /// The call.
        call_id: CallId,
        /// Whether it happened.
        applied: bool,
        /// Its result, as far as they know.
        content: Option<String>,
        /// Who.
        by: String,
    },
    /// A client call was answered.
    ToolResult {
        /// The call.
        call_id: CallId,
        /// Whether it did what it should.
        status: SubmittedStatus,
        /// What the model is shown.
        content: String,
        /// Why it didn't succeed.
        error_code: Option<ErrorCode>,
    },
    /// The run that a call began has ended.
    ChildEnded {
        /// The call.
        call_id: CallId,
        /// `Finished`, `Failed` or `Cancelled`.
        status: Status,
        /// Why it ended.
        reason: StopReason,
        /// Its answer, or what stopped it.
        content: String,
        /// Used by it.
        used: Used,
        /// Time of it that counts, in milliseconds.
        ran_ms: u64,
        /// What is known of its effects.
        effect: Effect,
    },
    /// The run's limits changed.
    Budget {
        /// The change.
        patch: BudgetPatch,
        /// Who.
        by: String,
    },
    /// More budget was refused.
    BudgetDenied {
        /// The approval that asked for it.
        approval_id: ApprovalId,
        /// Who.
        by: String,
    },
}

/// The word of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the contract's names")]
pub enum DecisionWord {
    Approve,
    Deny,
    Answer,
}
