//! Replies as files have them: written by hand, or recorded.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::{Called, Reply, Said, Usage, What};

/// What stands for arguments that were no JSON object: the recording doesn't keep them.
const MALFORMED: &str = "{";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    #[serde(rename = "final")]
    answer: Option<String>,
    text: Option<String>,
    tool_calls: Option<Vec<WrittenCall>>,
    finish_reason: Option<String>,
    #[serde(default, deserialize_with = "present")]
    usage: Option<Option<WrittenUsage>>,
    #[serde(default)]
    message: Map<String, Value>,
    http: Option<u16>,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    body: Value,
    #[serde(default)]
    drop: bool,
    #[serde(default)]
    delay_ms: u64,
    cut_after: Option<usize>,
    // What follows, only recorded attempts have.
    kind: Option<String>,
    error: Option<RecordedError>,
    step: Option<u32>,
    provider: Option<String>,
    #[serde(rename = "purpose")]
    _purpose: Option<String>,
    #[serde(rename = "attempt")]
    _attempt: Option<u32>,
    #[serde(rename = "model")]
    _model: Option<String>,
    #[serde(rename = "duration_ms")]
    _duration_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    name: String,
    #[serde(default)]
    arguments: Value,
    id: Option<String>,
    validation: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUsage {
    input_tokens: u64,
    output_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    estimated: bool,
}

/// A recorded attempt that failed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedError {
    kind: String,
    status: Option<u16>,
    #[serde(default)]
    message: String,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<WrittenUsage>>, D::Error> {
    Option::<WrittenUsage>::deserialize(deserializer).map(Some)
}

impl Written {
    pub(super) fn reply(self) -> Result<Reply, &'static str> {
        let (delay, cut_after) = (Duration::from_millis(self.delay_ms), self.cut_after);
        let (provider, step) = (self.provider.clone(), self.step);
        Ok(Reply { what: self.what()?, delay, cut_after, provider, step })
    }

    fn what(self) -> Result<What, &'static str> {
        let is_said = self.answer.is_some() || self.text.is_some() || self.tool_calls.is_some();
        let of_http = !self.headers.is_empty() || !self.body.is_null();
        match (is_said, self.http, self.drop, &self.error) {
            (true, None, false, None) if of_http => Err("headers and body belong to a reply with http"),
            (true, None, false, None) => self.said(),
            (false, Some(100..=599), false, None) if self.has_message_parts() => {
                Err("finish_reason, usage and message belong to what the model says")
            }
            (false, Some(status @ 100..=599), false, None) => {
                Ok(What::Http { status, headers: self.headers, body: self.body })
            }
            (false, Some(_), false, None) => Err("http is a status from 100 to 599"),
            (false, None, true, None) => Ok(What::Drop),
            (false, None, false, Some(error)) => Ok(error.again()),
            _ => Err("a reply is one of: final, text and tool_calls; http; drop: true"),
        }
    }

    fn has_message_parts(&self) -> bool {
        self.finish_reason.is_some() || self.usage.is_some() || !self.message.is_empty()
    }

    fn said(self) -> Result<What, &'static str> {
        let tool_calls: Vec<Called> =
            self.tool_calls.unwrap_or_default().into_iter().map(WrittenCall::called).collect();
        let text = match (self.answer, self.text) {
            (Some(_), Some(_)) => return Err("final and text are the same: one will do"),
            (Some(_), None) if !tool_calls.is_empty() => {
                return Err("a final reply calls no tools; words beside calls are its text");
            }
            (answer, text) => answer.or(text).unwrap_or_default(),
        };
        // By its kind a recorded reply ends as it did, whatever word its provider had for that.
        let finish_reason = match self.kind.as_deref() {
            Some("truncated") => Some("length".to_owned()),
            Some("refusal") => Some("content_filter".to_owned()),
            Some(_) => None,
            None => self.finish_reason,
        };
        let usage = match self.usage {
            None => Some(Usage::USUAL),
            Some(told) => told.and_then(WrittenUsage::told),
        };
        Ok(What::Said(Said { text, tool_calls, finish_reason, usage, message: self.message }))
    }
}

impl WrittenCall {
    fn called(self) -> Called {
        let is_malformed = self.validation.as_deref() == Some("malformed_arguments");
        let arguments = if is_malformed { MALFORMED.into() } else { self.arguments };
        Called { name: self.name, arguments, id: self.id }
    }
}

impl WrittenUsage {
    /// What the provider told; nothing, where it was estimated.
    fn told(self) -> Option<Usage> {
        let told =
            Usage { input: self.input_tokens, output: self.output_tokens, cached: self.cached_input_tokens };
        (!self.estimated).then_some(told)
    }
}

impl RecordedError {
    /// An answer that means the same.
    fn again(&self) -> What {
        let status = match (self.kind.as_str(), self.status) {
            ("context_overflow" | "cap_over_window" | "filtered", _) => 400,
            (_, Some(status @ 300..=599)) => status,
            ("unusable", _) => 404,
            ("refused" | "exhausted", _) => 400,
            // The line was cut, or nothing came in time.
            _ => return What::Drop,
        };
        let code = match self.kind.as_str() {
            "context_overflow" => json!("context_length_exceeded"),
            "filtered" => json!("content_filter"),
            _ => Value::Null,
        };
        let said = self.message.strip_prefix(&format!("HTTP {status}")).unwrap_or(&self.message);
        let message = match said.trim_start_matches(": ") {
            _ if self.kind == "cap_over_window" => "max_tokens is too large: it exceeds the maximum",
            said => said,
        };
        let body = json!({"error": {"message": message, "type": "recorded", "code": code}});
        What::Http { status, headers: Map::new(), body }
    }
}
