//! Messages: the history of a run, in one neutral form that each wire renders in its own.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{CallId, MessageId};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Place in its run, from 1.
    pub seq: u64,
    /// Who speaks.
    pub role: Role,
    /// Text; may be empty beside tool calls.
    pub content: String,
    /// Calls of an assistant's message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<MessageCall>,
    /// The call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<CallId>,
    /// Step that it came in; `None` for what came before the first.
    pub step: Option<u32>,
    /// Parts that only the provider that sent them understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<ProviderExtra>,
}

/// Puts a message in its place. Messages of earlier runs come first; within the run it goes by `seq`, and those of the
/// run are a tail of the history because earlier runs have ended.
pub fn place(history: &mut Vec<Message>, message: Message) {
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

/// A call as it stands in the history: always one that a provider accepts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageCall {
    /// The runtime's own id, which stands for the model's in the history.
    pub id: CallId,
    /// Tool.
    pub name: String,
    /// Arguments as JSON text of an object; `{}` where the model's were none.
    pub arguments: String,
}

/// Unknown fields and reasoning of a reply, kept for the same provider and model alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderExtra {
    /// The provider that sent it.
    pub provider: String,
    /// The model that sent it.
    pub model: String,
    /// Its wire.
    pub wire: String,
    /// Fields of the message (chat wires) or blocks (under `blocks`), just as they came.
    pub fields: Map<String, Value>,
}

/// A message of a run's `input` (contract, "Runs").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputMessage {
    /// `user` or `assistant`.
    pub role: Role,
    /// Text.
    pub content: String,
}
