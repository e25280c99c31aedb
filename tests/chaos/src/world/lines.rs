//! The lines of the world's logs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the log of effects.
pub const EFFECTS: &str = "effects.jsonl";
/// Name of the log of requests to tools.
pub const REQUESTS: &str = "requests.jsonl";
/// Name of the log of requests to the model.
pub const MODEL: &str = "model.jsonl";

/// Something that was done; written before the answer leaves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Effect {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The tool.
    pub tool: String,
    /// What was done, whatever the keys say: the same token twice is the same thing done twice.
    pub token: String,
    /// `Idempotency-Key` of the request.
    pub key: String,
    /// `X-Tool-Call-Id`.
    pub call_id: String,
    /// `X-Run-Id`.
    pub run_id: String,
    /// `X-Attempt`.
    pub attempt: u32,
    /// What was asked for.
    pub input: Value,
}

/// A request began, with all that is known of it, or ended, with `n` and `how` alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestLine {
    /// When.
    pub at_ms: u64,
    /// Requests are numbered in order of arrival.
    pub n: u64,
    /// `None`: this line tells of the beginning. Else how it ended: `answered STATUS`, `cut`, `refused WHY`, or `gone`:
    /// the peer went away first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// The tool.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The token in its input; of `find_payment` the key that it asks about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// `Idempotency-Key`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `X-Tool-Call-Id`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub call_id: String,
    /// `X-Run-Id`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub run_id: String,
    /// `X-Attempt`.
    pub attempt: u32,
    /// The peer's address: whose process that is, the kernel knows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub peer: String,
}

/// A request to the model began or ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelLine {
    /// When.
    pub at_ms: u64,
    /// Number in order of arrival.
    pub n: u64,
    /// As in [`RequestLine::how`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// The run's tag, out of the script in its first message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// Replies that the conversation had before, since the script.
    pub turn: usize,
    /// What is wrong with the history that was sent, if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violation: Option<String>,
}
