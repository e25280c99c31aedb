//! Messages: the history of a run, in one neutral form that each wire renders in its own.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{ArtifactId, CallId, MessageId};

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
    /// Its pieces in order, where a user sent more than text; `content` is the text among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// No context leaves it out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
    /// It stands for the messages before it that it sums up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

/// For fields that are stored only where they are true.
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

impl Message {
    /// A message that is text and nothing else.
    pub fn text(id: MessageId, seq: u64, role: Role, content: impl Into<String>) -> Self {
        Self {
            id,
            seq,
            role,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            step: None,
            extra: None,
            parts: Vec::new(),
            pinned: false,
            summary: None,
        }
    }
}

/// A piece of what a user sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text(String),
    /// A picture.
    Image(Attachment),
    /// A document.
    File(Attachment),
}

impl Part {
    /// The picture or document that it is.
    pub fn attachment(&self) -> Option<&Attachment> {
        match self {
            Self::Text(_) => None,
            Self::Image(attachment) | Self::File(attachment) => Some(attachment),
        }
    }
}

/// The text among pieces, each on a line of its own.
pub fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A picture or a document: kept as an artifact, or at an address that the provider fetches it from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// What it is, such as `image/png`; empty where only the far side knows.
    pub media_type: String,
    /// A file's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is.
    pub source: AttachmentSource,
}

impl Attachment {
    /// The artifact that it is, if it is kept here.
    pub fn artifact(&self) -> Option<ArtifactId> {
        match self.source {
            AttachmentSource::Artifact { id, .. } => Some(id),
            AttachmentSource::Url(_) => None,
        }
    }
}

/// Where an attachment is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentSource {
    /// Kept here.
    Artifact {
        /// Which.
        id: ArtifactId,
        /// Its size in bytes.
        bytes: u64,
    },
    /// An address that the provider fetches it from; this service never does.
    Url(String),
}

/// What a message sums up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The newest message that it covers; it covers all before it, too.
    pub upto: MessageId,
    /// How many summaries its history has had, this one included.
    pub version: u32,
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
