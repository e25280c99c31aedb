//! The wire of no vendor: replies out of the provider's own script, for demos, tests and evals.
//!
//! The n-th entry answers a run's n-th model call, and the last one all that follow. An entry is `{"final": "…"}` or
//! `{"tool_calls": [{"name", "arguments"}]}`, either with `text`, `delay_ms` and `usage` if it likes. A summary takes none:
//! it is what the provider's options say, or made of the beginnings of what is summed up.

use std::time::Duration;

use answerable_core::model::{
    FailureKind, Finish, ModelFailure, ModelReply, ModelRequest, Purpose, ReplyCall, Usage, estimate_tokens,
};
use answerable_core::provider::{ScriptedOptions, read_options};
use answerable_core::text;
use answerable_ports::{DeltaSink, ModelTarget, Patience};
use serde_json::{Map, Value};

use crate::assembly::Late;
use crate::failure;

/// Longest that a reply waits, in milliseconds.
const MOST_DELAY_MS: u64 = 60_000;
/// Characters that a summary takes of each message, and of all of them.
const BEGINNING: usize = 60;
const MOST_SUMMARY: usize = 600;

/// The reply that is due.
pub(crate) async fn ask(
    target: &ModelTarget,
    request: &ModelRequest,
    timeout: Duration,
    deltas: &dyn DeltaSink,
) -> Result<ModelReply, ModelFailure> {
    if request.purpose == Purpose::Summary {
        let options: ScriptedOptions = read_options(&target.options);
        return Ok(summary(options.summary.unwrap_or_else(|| beginnings(request)), request));
    }
    let due = usize::try_from(request.turn).unwrap_or(usize::MAX).min(target.script.len().saturating_sub(1));
    let Some(entry) = target.script.get(due) else {
        return Err(failure::of(FailureKind::Unusable, None, "the provider's script is empty"));
    };
    let delay = Duration::from_millis(entry["delay_ms"].as_u64().unwrap_or(0).min(MOST_DELAY_MS));
    tokio::time::sleep(delay.min(timeout)).await;
    if delay > timeout {
        return Err(failure::late(Late::Whole, &Patience::total(timeout)));
    }
    let reply = reply(entry, request);
    if !reply.text.is_empty() {
        deltas.text(&reply.text);
    }
    Ok(reply)
}

fn summary(text: String, request: &ModelRequest) -> ModelReply {
    ModelReply {
        usage: Some(usage(&Value::Null, request, &text, &[])),
        finish: Finish::Stop,
        finish_reason: Some("stop".into()),
        calls: Vec::new(),
        extra: Map::new(),
        text,
    }
}

/// The beginning of each piece that is summed up.
fn beginnings(request: &ModelRequest) -> String {
    let pieces = request.messages.iter().flat_map(|message| message.content.split("\n\n"));
    let heads: Vec<&str> = pieces.map(|piece| text::head(piece.trim(), BEGINNING)).collect();
    text::head(&heads.join(" / "), MOST_SUMMARY).to_owned()
}

fn reply(entry: &Value, request: &ModelRequest) -> ModelReply {
    let text = entry["final"].as_str().or(entry["text"].as_str()).unwrap_or_default().to_owned();
    let calls: Vec<ReplyCall> = entry["tool_calls"].as_array().into_iter().flatten().map(call).collect();
    ModelReply {
        finish: Finish::Stop,
        finish_reason: Some(if calls.is_empty() { "stop" } else { "tool_calls" }.into()),
        usage: Some(usage(&entry["usage"], request, &text, &calls)),
        extra: Map::new(),
        text,
        calls,
    }
}

fn call(entry: &Value) -> ReplyCall {
    let arguments = match &entry["arguments"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    ReplyCall { id: None, name: entry["name"].as_str().unwrap_or_default().to_owned(), arguments }
}

/// Tokens as the script tells them, or as the texts are long.
fn usage(told: &Value, request: &ModelRequest, text: &str, calls: &[ReplyCall]) -> Usage {
    if let (Some(input_tokens), Some(output_tokens)) =
        (told["input_tokens"].as_u64(), told["output_tokens"].as_u64())
    {
        return Usage { input_tokens, output_tokens, ..Usage::default() };
    }
    let history: u64 = request.messages.iter().map(|message| estimate_tokens(&message.content)).sum();
    let said: u64 =
        calls.iter().map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments)).sum();
    Usage {
        input_tokens: estimate_tokens(&request.system) + history,
        output_tokens: estimate_tokens(text) + said,
        estimated: true,
        ..Usage::default()
    }
}
