//! Names of what is told of a run.

use serde::{Deserialize, Serialize};

/// Names of stored events (contract, "Events").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract's names")]
pub enum EventType {
    RunQueued,
    RunStarted,
    RunWaiting,
    RunResumed,
    RunFinished,
    RunFailed,
    RunCancelled,
    ToolsListed,
    StepStarted,
    ContextSummarizing,
    ContextSummarized,
    ContextSummaryFailed,
    ContextBuilt,
    ModelStarted,
    ModelCompleted,
    ModelFailed,
    ToolRejected,
    PermissionDecided,
    ApprovalRequested,
    ApprovalReminder,
    ApprovalExpiring,
    ApprovalDecided,
    ToolStarted,
    ToolCompleted,
    ToolReconciled,
    CheckpointSaved,
}

impl EventType {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunQueued => "run.queued",
            Self::RunStarted => "run.started",
            Self::RunWaiting => "run.waiting",
            Self::RunResumed => "run.resumed",
            Self::RunFinished => "run.finished",
            Self::RunFailed => "run.failed",
            Self::RunCancelled => "run.cancelled",
            Self::ToolsListed => "tools.listed",
            Self::StepStarted => "step.started",
            Self::ContextSummarizing => "context.summarizing",
            Self::ContextSummarized => "context.summarized",
            Self::ContextSummaryFailed => "context.summary_failed",
            Self::ContextBuilt => "context.built",
            Self::ModelStarted => "model.started",
            Self::ModelCompleted => "model.completed",
            Self::ModelFailed => "model.failed",
            Self::ToolRejected => "tool.rejected",
            Self::PermissionDecided => "permission.decided",
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalReminder => "approval.reminder",
            Self::ApprovalExpiring => "approval.expiring",
            Self::ApprovalDecided => "approval.decided",
            Self::ToolStarted => "tool.started",
            Self::ToolCompleted => "tool.completed",
            Self::ToolReconciled => "tool.reconciled",
            Self::CheckpointSaved => "checkpoint.saved",
        }
    }

    /// Whether webhooks can hear of it: what happens to the run as a whole, and what people are asked.
    pub fn is_for_webhooks(self) -> bool {
        let name = self.as_str();
        name.starts_with("run.") || name.starts_with("approval.")
    }
}
