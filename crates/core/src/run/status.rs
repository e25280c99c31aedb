//! How a run stands, and why it ended: the contract's words.

use serde::{Deserialize, Serialize};

use crate::budget::Limit;

/// Status of a run (contract, "Run").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the contract's names")]
pub enum Status {
    Queued,
    Running,
    WaitingApproval,
    WaitingTool,
    Finished,
    Failed,
    Cancelled,
}

impl Status {
    /// Whether it never changes again.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Cancelled)
    }

    /// Whether the run waits for somebody.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingApproval | Self::WaitingTool)
    }

    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WaitingApproval => "waiting_approval",
            Self::WaitingTool => "waiting_tool",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why a run ended (contract, "`stop_reason`").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the contract's names")]
pub enum StopReason {
    FinalAnswer,
    Cancelled,
    MaxSteps,
    MaxTokens,
    MaxToolCalls,
    MaxCost,
    Timeout,
    PermissionDenied,
    ApprovalExpired,
    RepeatedToolCall,
    SameErrorRepeated,
    SideEffectUncertain,
    ContextOverflow,
    ModelError,
    ModelRefusal,
    OutputInvalid,
    ToolsUnavailable,
    CrashLoop,
    InternalError,
}

impl StopReason {
    /// The status that goes with it.
    pub fn status(self) -> Status {
        match self {
            Self::FinalAnswer => Status::Finished,
            Self::Cancelled => Status::Cancelled,
            _ => Status::Failed,
        }
    }

    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FinalAnswer => "final_answer",
            Self::Cancelled => "cancelled",
            Self::MaxSteps => "max_steps",
            Self::MaxTokens => "max_tokens",
            Self::MaxToolCalls => "max_tool_calls",
            Self::MaxCost => "max_cost",
            Self::Timeout => "timeout",
            Self::PermissionDenied => "permission_denied",
            Self::ApprovalExpired => "approval_expired",
            Self::RepeatedToolCall => "repeated_tool_call",
            Self::SameErrorRepeated => "same_error_repeated",
            Self::SideEffectUncertain => "side_effect_uncertain",
            Self::ContextOverflow => "context_overflow",
            Self::ModelError => "model_error",
            Self::ModelRefusal => "model_refusal",
            Self::OutputInvalid => "output_invalid",
            Self::ToolsUnavailable => "tools_unavailable",
            Self::CrashLoop => "crash_loop",
            Self::InternalError => "internal_error",
        }
    }
}

impl From<Limit> for StopReason {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::MaxSteps => Self::MaxSteps,
            Limit::MaxTokens => Self::MaxTokens,
            Limit::MaxToolCalls => Self::MaxToolCalls,
            Limit::MaxCost => Self::MaxCost,
            Limit::Timeout => Self::Timeout,
        }
    }
}
