//! What can happen to a run. Time, ids and jitter come in here; the bodies that go to the rows pass through.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::child::{ChildEnd, PinnedAgent};
use super::listing::ToolList;
use super::summing::SummaryTask;
use crate::Millis;
use crate::budget::{BudgetPatch, DayLimit, Estimate};
use crate::context::Manifest;
use crate::id::{ApprovalId, CallId, LedgerId, MessageId};
use crate::message::{Part, ProviderExtra, is_false};
use crate::model::{ModelFailure, Usage};
use crate::permission::Judgement;
use crate::registry::Validation;
use crate::reply::ReplyKind;
use crate::tool::{Attempt, ErrorCode, Output, Reconciled, ToolResult};

/// Something that happened, at `at`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "`at` is when it happened; the rest is said at the variants")]
pub enum Event {
    /// A server took the run up for the first time.
    Started { at: Millis },
    /// A server took it over from one that died; `deaths` so far. `unsent`: calls that were written down as out and waited
    /// for their turn, so that nothing of this attempt has left.
    Recovered {
        at: Millis,
        deaths: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unsent: Vec<CallId>,
    },
    /// MCP servers were asked for their tools; that took `duration_ms`.
    ToolsListed { at: Millis, list: ToolList, duration_ms: u64 },
    /// They were asked again, and offer what they did: the run keeps the tools that it has.
    ToolsKept { at: Millis, duration_ms: u64 },
    /// A server that the agent can't do without doesn't give its tools, and never gave the run any.
    ToolsUnavailable { at: Millis, server: String, detail: String },
    /// A server may have other tools by now: they are asked for again before the next step.
    ToolsChanged { at: Millis },
    /// The context of the next turn is built; that took `duration_ms`.
    ContextBuilt {
        at: Millis,
        manifest: Manifest,
        estimate: Estimate,
        provider: String,
        model: String,
        #[serde(default)]
        duration_ms: u64,
    },
    /// It can't be built.
    ContextOverflowed { at: Millis, tokens: u64, max_tokens: u64 },
    /// The history outgrew its room: its oldest turns are to be summed up first.
    SummaryNeeded { at: Millis, task: SummaryTask, estimate: Estimate },
    /// A model replied with a summary, or with nothing that could be one.
    Summarized { at: Millis, reply: Box<ReplyFacts> },
    /// An attempt to get a summary failed; as with [`Self::ModelFailed`].
    SummaryFailed {
        at: Millis,
        failure: ModelFailure,
        cost_microusd: u64,
        jitter: u16,
        duration_ms: u64,
        wire: Option<String>,
    },
    /// A model replied. `more_input`: a person said something meanwhile that the model must still see.
    ModelReplied { at: Millis, reply: Box<ReplyFacts>, calls: Vec<NewCall>, more_input: bool },
    /// An attempt on a model failed after `duration_ms`; `wire` as in [`ReplyFacts`].
    ModelFailed {
        at: Millis,
        failure: ModelFailure,
        cost_microusd: u64,
        jitter: u16,
        #[serde(default)]
        duration_ms: u64,
        #[serde(default)]
        wire: Option<String>,
    },
    /// The attempt that is due would take more than its tenant has left of the day; nobody was asked.
    QuotaUsedUp { at: Millis, limit: DayLimit },
    /// People, or time, decided on a call: on this approval of it (`None` in older journals: the one that is open).
    CallDecided {
        at: Millis,
        call: CallId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<ApprovalId>,
        verdict: CallVerdict,
        by: String,
        reason: Option<String>,
        /// When they did; `None`: when it happened to the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given_at: Option<Millis>,
    },
    /// Calls are judged by other rules than before: those that have not begun were judged again.
    RulesChanged { at: Millis, verdicts: Vec<JudgedAgain> },
    /// No earlier entry is in the call's way.
    KeyFree { at: Millis, call: CallId },
    /// An earlier entry is, and the call takes its outcome.
    KeyTaken { at: Millis, call: CallId, holder: KeyHolder },
    /// Who the agent of a call is; or, in words for the model, why it can't be called.
    AgentFound { at: Millis, call: CallId, found: Result<PinnedAgent, String> },
    /// The run that a call began has ended.
    ChildEnded { at: Millis, call: CallId, end: Box<ChildEnd> },
    /// An attempt of a call came to an end.
    ToolAttempted { at: Millis, call: CallId, outcome: Attempt, jitter: u16 },
    /// The far side was asked what became of a call.
    ToolReconciled { at: Millis, call: CallId, reconciliation: Reconciliation },
    /// A person said what became of a call.
    EffectSettled { at: Millis, call: CallId, applied: bool, content: Option<String>, by: String },
    /// The caller of the API answered a client call.
    ToolResultSubmitted { at: Millis, call: CallId, submitted: Submitted },
    /// A person said something to the run.
    Steered {
        at: Millis,
        message_id: MessageId,
        content: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part>,
        #[serde(default, skip_serializing_if = "is_false")]
        pinned: bool,
    },
    /// Some timer of the state is due.
    TimerFired { at: Millis },
    /// Its tenant is suspended: until it is resumed no call begins, and none is sent again.
    Suspended { at: Millis },
    /// Its tenant isn't suspended any more.
    Resumed { at: Millis },
    /// Nobody worked on it from then until then: its tenant was suspended. That time doesn't count.
    Rested { at: Millis, from: Millis, until: Millis },
    /// Somebody wants it to end.
    CancelRequested { at: Millis, reason: Option<String> },
    /// Its limits changed. If it asks for more and this is enough ([`super::RunState::is_enough`]), it goes on.
    BudgetChanged { at: Millis, patch: BudgetPatch, by: String },
    /// More budget was asked for and refused.
    BudgetDenied { at: Millis, approval: ApprovalId, by: String },
    /// The runtime itself can't go on.
    Broken { at: Millis, code: String, detail: String },
}

impl Event {
    /// When it happened.
    pub fn at(&self) -> Millis {
        match self {
            Self::Started { at }
            | Self::Recovered { at, .. }
            | Self::ToolsListed { at, .. }
            | Self::ToolsKept { at, .. }
            | Self::ToolsUnavailable { at, .. }
            | Self::ToolsChanged { at }
            | Self::ContextBuilt { at, .. }
            | Self::ContextOverflowed { at, .. }
            | Self::SummaryNeeded { at, .. }
            | Self::Summarized { at, .. }
            | Self::SummaryFailed { at, .. }
            | Self::ModelReplied { at, .. }
            | Self::ModelFailed { at, .. }
            | Self::QuotaUsedUp { at, .. }
            | Self::CallDecided { at, .. }
            | Self::RulesChanged { at, .. }
            | Self::KeyFree { at, .. }
            | Self::KeyTaken { at, .. }
            | Self::AgentFound { at, .. }
            | Self::ChildEnded { at, .. }
            | Self::ToolAttempted { at, .. }
            | Self::ToolReconciled { at, .. }
            | Self::EffectSettled { at, .. }
            | Self::ToolResultSubmitted { at, .. }
            | Self::Steered { at, .. }
            | Self::TimerFired { at }
            | Self::Suspended { at }
            | Self::Resumed { at }
            | Self::Rested { at, .. }
            | Self::CancelRequested { at, .. }
            | Self::BudgetChanged { at, .. }
            | Self::BudgetDenied { at, .. }
            | Self::Broken { at, .. } => *at,
        }
    }

    /// The same event at another time.
    #[must_use]
    pub fn moved_to(mut self, to: Millis) -> Self {
        if let Self::CallDecided { at, given_at: Some(given_at), .. } = &mut self {
            *given_at = given_at.saturating_add(to.saturating_sub(*at));
        }
        if let Self::Rested { at, from, until } = &mut self {
            let later = to.saturating_sub(*at);
            (*from, *until) = (from.saturating_add(later), until.saturating_add(later));
        }
        match &mut self {
            Self::Started { at }
            | Self::Recovered { at, .. }
            | Self::ToolsListed { at, .. }
            | Self::ToolsKept { at, .. }
            | Self::ToolsUnavailable { at, .. }
            | Self::ToolsChanged { at }
            | Self::ContextBuilt { at, .. }
            | Self::ContextOverflowed { at, .. }
            | Self::SummaryNeeded { at, .. }
            | Self::Summarized { at, .. }
            | Self::SummaryFailed { at, .. }
            | Self::ModelReplied { at, .. }
            | Self::ModelFailed { at, .. }
            | Self::QuotaUsedUp { at, .. }
            | Self::CallDecided { at, .. }
            | Self::RulesChanged { at, .. }
            | Self::KeyFree { at, .. }
            | Self::KeyTaken { at, .. }
            | Self::AgentFound { at, .. }
            | Self::ChildEnded { at, .. }
            | Self::ToolAttempted { at, .. }
            | Self::ToolReconciled { at, .. }
            | Self::EffectSettled { at, .. }
            | Self::ToolResultSubmitted { at, .. }
            | Self::Steered { at, .. }
            | Self::TimerFired { at }
            | Self::Suspended { at }
            | Self::Resumed { at }
            | Self::Rested { at, .. }
            | Self::CancelRequested { at, .. }
            | Self::BudgetChanged { at, .. }
            | Self::BudgetDenied { at, .. }
            | Self::Broken { at, .. } => *at = to,
        }
        self
    }
}

/// A model's reply, looked at ([`crate::reply::read`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplyFacts {
    /// Kind.
    pub kind: ReplyKind,
    /// Text.
    pub text: String,
    /// Parts for the same provider.
    pub extra: Option<ProviderExtra>,
    /// The provider's word for why it stopped.
    pub finish_reason: Option<String>,
    /// Tokens.
    pub usage: Usage,
    /// Their price.
    pub cost_microusd: u64,
    /// Time of the attempt.
    pub duration_ms: u64,
    /// Id of the message that will hold it.
    pub message_id: MessageId,
    /// A final answer that doesn't match `output_schema`: why.
    pub output_fault: Option<String>,
    /// Kind of the provider (contract, "Provider"): what it speaks.
    #[serde(default)]
    pub wire: Option<String>,
}

/// A call of a reply, validated and judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewCall {
    /// Ours.
    pub id: CallId,
    /// The model's.
    pub model_call_id: Option<String>,
    /// Tool.
    pub tool_name: String,
    /// Input: an object.
    pub input: Value,
    /// Its hash.
    pub input_hash: String,
    /// Validation's verdict.
    pub validation: Validation,
    /// Validation's words for the model.
    pub message: Option<String>,
    /// The gate's verdict, where validation found nothing.
    pub judgement: Option<Judgement>,
    /// Key for the far side, and whether it is the agent's own.
    pub idempotency_key: (String, bool),
    /// Id of the message that will hold its result; `None` if it stands in no history.
    pub message_id: Option<MessageId>,
}

/// What became of an approval of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallVerdict {
    /// It may run. Boxed: it is much larger than the others.
    Approved(Box<Approval>),
    /// It may not.
    Denied,
    /// A person gives this as its result.
    Answered(Output),
}

/// An approval that is used now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The policies' verdict at this moment: a `deny` voids the approval.
    pub judged_again: Judgement,
    /// Those who approved, as far as their word counts; `None`: older journals don't tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deciders: Option<Vec<String>>,
    /// They are those who must by that verdict ([`Judgement::is_met_by`]); if not, the approval is void.
    #[serde(default = "yes")]
    pub stands: bool,
    /// What runs, where a person changed the input: the input, its hash and its key.
    pub edited: Option<(Value, String, String)>,
}

fn yes() -> bool {
    true
}

/// A call that has not begun, judged by the rules of this moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedAgain {
    /// Which.
    pub call: CallId,
    /// The policies' verdict.
    pub judgement: Judgement,
    /// Those who approved it are those who must by that verdict.
    pub stands: bool,
}

/// An earlier entry that a call takes its outcome from: it holds the call's business key, or is the same effect made
/// before by the run that this one stands on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyHolder {
    /// Its id.
    pub ledger_id: LedgerId,
    /// It was made with the same input.
    pub same_input: bool,
    /// What came of it.
    pub result: ToolResult,
    /// It is an effect that the run brought along, which one call of its may take.
    #[serde(default)]
    pub inherited: bool,
}

/// What the far side said of an unclear call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// Its word.
    pub state: Reconciled,
    /// What the call would have answered, if it happened.
    pub result: Option<Output>,
}

/// A client's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submitted {
    /// Whether it did what it should.
    pub status: SubmittedStatus,
    /// What the model is shown.
    pub output: Output,
    /// Why it didn't succeed.
    pub error_code: Option<ErrorCode>,
}

/// Whether a client's call did what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the contract's names")]
pub enum SubmittedStatus {
    Succeeded,
    Failed,
}
