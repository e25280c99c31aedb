//! What is asked of people, as it is stored.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Millis;
use crate::agent::Risk;
use crate::id::{ApprovalId, CallId};

/// What is asked of people (contract, "Approval").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRow {
    /// Its id.
    pub id: ApprovalId,
    /// What is asked.
    pub kind: ApprovalKind,
    /// The call it is about; none for a budget.
    pub call: Option<CallId>,
    /// Step.
    pub step: u32,
    /// Tool.
    pub tool_name: Option<String>,
    /// Hash of the input it is bound to.
    pub input_hash: Option<String>,
    /// The tool's risk.
    pub risk: Option<Risk>,
    /// Why they are asked.
    pub reason: String,
    /// Different deciders that must agree.
    pub required: u32,
    /// They have until then.
    pub expires_at: Millis,
    /// Hash of the tool that the call is of ([`crate::registry::Registry::tool_version`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_version: Option<String>,
    /// Whoever started the run may approve, too.
    #[serde(default = "yes")]
    pub self_approval: bool,
    /// People are reminded this often, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind_every_ms: Option<u64>,
}

fn yes() -> bool {
    true
}

impl ApprovalRow {
    /// What events say of it.
    pub(super) fn event_data(&self) -> Value {
        let mut data = json!({"approval_id": self.id, "kind": self.kind, "reason": self.reason, "required": self.required});
        if let (Some(call), Some(tool_name)) = (self.call, &self.tool_name) {
            data["tool_call_id"] = json!(call);
            data["tool_name"] = json!(tool_name);
        }
        data
    }
}

/// What is asked of people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalKind {
    /// Whether a call may run.
    ToolCall,
    /// Whether a call happened.
    UncertainEffect,
    /// More budget.
    Budget,
}

impl ApprovalKind {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolCall => "tool_call",
            Self::UncertainEffect => "uncertain_effect",
            Self::Budget => "budget",
        }
    }
}

/// State of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the contract's names")]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Denied,
    Expired,
    Cancelled,
}

impl ApprovalStatus {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}
