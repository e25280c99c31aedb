//! What is asked of a model and what comes back, free of any vendor's format.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::ArtifactId;
use crate::message::Message;

/// A request to a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelRequest {
    /// What it is for.
    pub purpose: Purpose,
    /// The provider's name for the model.
    pub model: String,
    /// Name of the provider, as the tenant calls it.
    pub provider: String,
    /// System text; empty: none.
    pub system: String,
    /// History, oldest first: one that any provider accepts.
    pub messages: Vec<Message>,
    /// Words that follow the history but are not part of it: why the model is asked again.
    pub note: Option<String>,
    /// Tools on offer.
    pub tools: Vec<ToolOffer>,
    /// JSON Schema that the answer must match; wires that can make the model keep to it do.
    pub output_schema: Option<Value>,
    /// What the messages' attachments that are kept here hold. One that isn't there can't be shown.
    pub attachments: BTreeMap<ArtifactId, Arc<[u8]>>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Cap of the reply in tokens.
    pub max_output_tokens: Option<u64>,
    /// More fields, as the provider names them.
    pub params: Map<String, Value>,
    /// Model calls that this run has made before, attempts not counted: which reply of a script is due.
    pub turn: u32,
    /// `traceparent` header: the span of this attempt.
    pub traceparent: Option<String>,
}

/// What a model is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The run's next turn.
    #[default]
    Turn,
    /// A summary of its older messages.
    Summary,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOffer {
    /// Name.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of an object.
    pub input_schema: Value,
}

/// Tokens of one attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All input, cached included.
    pub input_tokens: u64,
    /// All output, reasoning included.
    pub output_tokens: u64,
    /// Part of the input that came from the provider's cache.
    pub cached_input_tokens: u64,
    /// Part of the input that was written to the cache.
    pub cache_write_tokens: u64,
    /// The provider gave no (believable) count.
    pub estimated: bool,
}

/// Why a model stopped, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// The cap was reached.
    Length,
    /// A filter or the model itself refused.
    Refusal,
    /// Any other word; what the reply holds decides.
    Other,
}

/// A whole reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// Text; may be empty.
    pub text: String,
    /// Calls in the model's order.
    pub calls: Vec<ReplyCall>,
    /// Why it stopped.
    pub finish: Finish,
    /// The provider's own word for it.
    pub finish_reason: Option<String>,
    /// Tokens, where the provider told them.
    pub usage: Option<Usage>,
    /// Reasoning and unknown fields, to be sent back just so or not at all.
    pub extra: Map<String, Value>,
}

/// A call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyCall {
    /// The model's id, if it gave one. Never trusted to be unique.
    pub id: Option<String>,
    /// Tool.
    pub name: String,
    /// Arguments as they came: text that should be a JSON object.
    pub arguments: String,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// Kind, on which retry and fallback depend.
    pub kind: FailureKind,
    /// HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// For people; without secrets.
    pub message: String,
    /// What `Retry-After` said, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Tokens that the attempt took, as far as is known.
    pub usage: Option<Usage>,
}

/// Kinds of failed attempts (contract, "Behaviours decided" 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// 408, 409, 429, 5xx, a cut line, a timeout, an unreadable answer: may pass.
    Passing,
    /// 401, 403, 404, or an address that the guard refuses: this target won't answer; another may.
    Unusable,
    /// Other 4xx: the request itself is refused.
    Refused,
    /// A filter refused the request: as a refusal of the model's.
    Filtered,
    /// The history is longer than the model's window.
    ContextOverflow,
    /// Input plus output cap are over the window.
    CapOverWindow,
    /// Nobody was asked: too many attempts on this target failed lately. It may pass, but another target won't make one wait.
    Held,
    /// A replay has no more recorded replies: nobody was asked.
    Exhausted,
}

/// Tokens of `text`, estimated on the safe side: four bytes a token, and never fewer than one a word.
pub fn estimate_tokens(text: &str) -> u64 {
    let by_bytes = text.len().div_ceil(4);
    let by_words = text.split_whitespace().count();
    by_bytes.max(by_words) as u64
}
