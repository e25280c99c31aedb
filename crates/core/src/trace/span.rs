//! A span as it is stored with what it tells of, and exported later.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Millis;
use crate::json::sha256_hex;

/// Something that a run did, from its begin to its end. Exported as it is, however often it must be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// What was done; its name.
    pub kind: SpanKind,
    /// Its id: it follows from the run, the kind, and which one of them it is.
    pub id: SpanId,
    /// The span that it is part of: the run's, or for the run itself its caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SpanId>,
    /// When it began.
    pub began: Millis,
    /// When it ended; never before it began.
    pub ended: Millis,
    /// It failed: a short word for why, never content (`error.type` of OpenTelemetry).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Attributes by name: strings, integers, floats, booleans, and lists of strings.
    pub attributes: Map<String, Value>,
    /// Spans of other traces that it has to do with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SpanLink>,
}

impl Span {
    /// When it began, in nanoseconds since the epoch. Moments are known to the millisecond; within one, spans are put in the
    /// order in which a run works, so that viewers, which sort by time, show a decision before the call that it allowed.
    pub fn began_nanos(&self) -> u64 {
        nanos(self.began, self.kind.place())
    }

    /// When it ended, likewise.
    pub fn ended_nanos(&self) -> u64 {
        // The run is around all that it did.
        let place = if self.kind == SpanKind::Agent { LAST_PLACE } else { self.kind.place() };
        nanos(self.ended, place)
    }
}

/// The last place within a millisecond.
const LAST_PLACE: u64 = 9;

fn nanos(ms: Millis, place: u64) -> u64 {
    u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000) + place * 1_000
}

/// What a span tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// The run, from when it was accepted to its end.
    Agent,
    /// A context was built.
    Context,
    /// An attempt on a model.
    Model,
    /// The gate or a person decided, the wait for the person included.
    Permission,
    /// An attempt of a tool call, or a result that needed none.
    Tool,
    /// A checkpoint was saved.
    Checkpoint,
}

impl SpanKind {
    /// The span's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent.run",
            Self::Context => "context.build",
            Self::Model => "model.call",
            Self::Permission => "permission.decision",
            Self::Tool => "tool.call",
            Self::Checkpoint => "checkpoint.save",
        }
    }

    /// Its place in a step, in microseconds of a millisecond. A checkpoint is that of the step before.
    fn place(self) -> u64 {
        match self {
            Self::Agent | Self::Checkpoint => 0,
            Self::Context => 1,
            Self::Model => 2,
            Self::Permission => 3,
            Self::Tool => 4,
        }
    }

    /// It tells of a request to another system (`CLIENT` of OpenTelemetry); the others are `INTERNAL`.
    pub fn is_client(self) -> bool {
        matches!(self, Self::Model)
    }
}

/// A span of another trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanLink {
    /// Its trace: 32 hex digits.
    pub trace_id: String,
    /// Its id.
    pub span_id: SpanId,
}

/// A span's id: 16 hex digits, not all zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpanId(String);

impl SpanId {
    /// The id that follows from what a span is.
    pub fn of(parts: &[&str]) -> Self {
        let digest = sha256_hex(parts.join("|").as_bytes());
        let id = digest.trim_start_matches("sha256:")[..16].to_owned();
        Self(if id.bytes().all(|byte| byte == b'0') { "0000000000000001".into() } else { id })
    }

    /// One that came from outside. `None`: it isn't 16 lower-case hex digits, or all zero.
    pub fn parse(text: &str) -> Option<Self> {
        let legal = text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        (legal && text.bytes().any(|b| b != b'0')).then(|| Self(text.to_owned()))
    }

    /// As 16 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
