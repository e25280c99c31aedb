//! Rows that a transition writes. They go into one commit with the state.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::approval_row::{ApprovalRow, ApprovalStatus};
use super::decision::Decision;
use super::event_type::EventType;
use crate::Millis;
use crate::agent::ToolSpec;
use crate::context::Manifest;
use crate::id::{ApprovalId, CallId, LedgerId};
use crate::ledger::Outcome;
use crate::message::Message;
use crate::registry::Validation;
use crate::tool::ToolResult;

/// A row, or a change of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// An event for those who watch the run; they are numbered as they come.
    Event {
        /// Its name.
        kind: EventType,
        /// The step it belongs to.
        step: Option<u32>,
        /// Its data.
        data: Value,
    },
    /// A message of the history.
    Message(Message),
    /// A step began, or its context was built again.
    StepOpened {
        /// Number from 1.
        number: u32,
        /// What the model is shown, and not.
        manifest: Manifest,
    },
    /// What is known of the step's model call.
    StepModel {
        /// Number from 1.
        number: u32,
        /// The call.
        model: StepModel,
    },
    /// A step is over.
    StepClosed {
        /// Number from 1.
        number: u32,
    },
    /// A call of the model's.
    CallOpened(Box<CallRow>),
    /// Who let it happen, or not.
    CallDecided {
        /// Which.
        call: CallId,
        /// The decision.
        decision: Decision,
    },
    /// A person changed its input.
    CallEdited {
        /// Which.
        call: CallId,
        /// What will run.
        input: Value,
        /// Its hash.
        input_hash: String,
    },
    /// Its result.
    CallResult {
        /// Which.
        call: CallId,
        /// The result.
        result: ToolResult,
        /// The entry that tells of it.
        ledger_id: Option<LedgerId>,
    },
    /// A call is about to be sent: the intent before the effect.
    LedgerOpened(Box<LedgerRow>),
    /// Another attempt is about to be sent.
    LedgerAttempt {
        /// Which.
        ledger_id: LedgerId,
        /// Its number.
        attempt: u32,
        /// The entry must be known by then.
        until: Millis,
    },
    /// What came of it.
    LedgerClosed {
        /// Which.
        ledger_id: LedgerId,
        /// The outcome.
        outcome: Outcome,
    },
    /// A call took an effect that the run brought along; no other may.
    EffectTaken {
        /// The entry.
        ledger_id: LedgerId,
        /// The call.
        call: CallId,
    },
    /// A call of another agent begins its run.
    ChildOpened(Box<super::child::ChildRow>),
    /// The run that a call began is to end.
    ChildStopped {
        /// The call.
        call: CallId,
        /// Why.
        reason: String,
    },
    /// People are asked.
    ApprovalOpened(Box<ApprovalRow>),
    /// An approval that was given can't be used: what it was given for has changed. People are asked anew, or not at all.
    ApprovalVoid {
        /// Which.
        approval_id: ApprovalId,
        /// What changed.
        reason: String,
    },
    /// Nobody needs to decide any more.
    ApprovalClosed {
        /// Which.
        approval_id: ApprovalId,
        /// `Expired`, `Cancelled`, or `Approved` by a change of limits.
        status: ApprovalStatus,
        /// Who.
        by: String,
    },
    /// The tools of MCP servers that the run has from here on.
    ToolsListed {
        /// Their hash ([`crate::catalog::hash`]).
        hash: String,
        /// They.
        tools: Vec<ToolSpec>,
    },
    /// The state as it is now can be gone back to.
    Checkpoint(CheckpointRow),
    /// The run is over.
    Ended {
        /// The answer for its user.
        final_answer: Option<String>,
        /// `error` of the API.
        error: Option<Value>,
    },
}

/// A step's model call (contract, "Step").
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepModel {
    /// Who was asked.
    pub provider: String,
    /// What was asked.
    pub model: String,
    /// Attempts so far.
    pub attempts: u32,
    /// The provider's word for why it stopped.
    pub finish_reason: Option<String>,
    /// Tokens that the input was estimated at and reserved for; `input_tokens` is what it came to.
    #[serde(default)]
    pub estimated_input_tokens: u64,
    /// Tokens of this attempt's input.
    pub input_tokens: u64,
    /// Tokens of this attempt's output.
    pub output_tokens: u64,
    /// Part of the input from the provider's cache.
    pub cached_input_tokens: u64,
    /// Price of this attempt.
    pub cost_microusd: u64,
    /// Time of this attempt.
    pub duration_ms: u64,
    /// The provider gave no believable counts.
    pub usage_estimated: bool,
    /// Why this attempt came to nothing; it joins the step's `failures`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Value>,
}

/// A call as it is stored (contract, "ToolCall").
#[derive(Debug, Clone, PartialEq)]
pub struct CallRow {
    /// Its id.
    pub id: CallId,
    /// Place in its step, from 0.
    pub index: u32,
    /// Step.
    pub step: u32,
    /// The model's id for it.
    pub model_call_id: Option<String>,
    /// Tool.
    pub tool_name: String,
    /// Input.
    pub input: Value,
    /// Its hash.
    pub input_hash: String,
    /// Validation's verdict.
    pub validation: Validation,
    /// The caller of the API answers it.
    pub client: bool,
}

/// A ledger entry as it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// Its id.
    pub id: LedgerId,
    /// The call.
    pub call: CallId,
    /// Step.
    pub step: u32,
    /// Tool.
    pub tool_name: String,
    /// Hash of the input that is sent.
    pub input_hash: String,
    /// Key that is sent.
    pub idempotency_key: String,
    /// The key is the agent's own: no other entry of the tenant's may have it for this tool.
    pub business_key: bool,
    /// It may change something.
    pub writes: bool,
    /// When it is known at the latest: its attempt's timeout and some more.
    pub until: Millis,
    /// Number of the tenant's rules under which the call was judged last ([`super::Call::rules_at`]). Nothing is written
    /// under others.
    pub rules: i64,
    /// The approval that is used up by it.
    pub approval: Option<ApprovalId>,
}

/// A state that can be gone back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRow {
    /// The step that it follows.
    pub step: u32,
}
