//! The lines of the clients' logs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the log of accepted runs.
pub const ACCEPTED: &str = "accepted.jsonl";
/// Name of the log of what people and callers were told.
pub const TOLD: &str = "told.jsonl";
/// Name of the log of events that were seen on streams.
pub const SEEN: &str = "seen.jsonl";
/// Name of the log of ends that were seen.
pub const ENDS: &str = "ends.jsonl";
/// Name of the log of answers that nobody should get.
pub const ODD: &str = "odd.jsonl";

/// A run that was accepted; written when the 201 arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// When it was first asked for.
    pub asked_ms: u64,
    /// Names the run; no two have the same.
    pub tag: String,
    /// What it does ([`crate::world::model::script`]).
    pub kind: String,
    /// `Idempotency-Key` of the request.
    pub key: String,
    /// Its id.
    pub run_id: String,
}

/// Something that was answered with 2xx and must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// When the answer came.
    pub at_ms: u64,
    /// `cancel`, `decision`, `settled`, `tool_result`, `steer` or `budget`.
    pub what: String,
    /// The run.
    pub run_id: String,
    /// Approval, call or message.
    pub id: String,
    /// The decision or state, or what was said.
    pub word: String,
    /// The run's status in the answer, of a cancel; the kind, of a decision.
    pub shown: String,
    /// Arguments in place of the model's; new limits.
    pub input: Value,
}

/// An event on a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The run.
    pub run_id: String,
    /// Number.
    pub seq: u64,
    /// Id.
    pub id: String,
    /// Type.
    pub kind: String,
}

/// A run that was seen to have ended: what never changes any more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// When.
    pub at_ms: u64,
    /// The run.
    pub run_id: String,
    /// `status`, `stop_reason`, `final_answer`, `error` and `finished_at` as they were shown.
    pub end: Value,
}

/// An answer that nobody should get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Odd {
    /// When.
    pub at_ms: u64,
    /// What was asked, and what came.
    pub what: String,
}

/// What never changes once a run has ended; `None`: it has not.
#[must_use]
pub fn end_of(run: &Value) -> Option<Value> {
    let has_ended = matches!(run["status"].as_str(), Some("finished" | "failed" | "cancelled"));
    let fields = ["status", "stop_reason", "final_answer", "error", "finished_at"];
    has_ended.then(|| fields.iter().map(|name| ((*name).to_owned(), run[*name].clone())).collect())
}
