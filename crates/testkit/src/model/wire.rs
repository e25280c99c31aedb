//! The wire's forms: the whole completion and its stream.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::reply::{Kind, ModelReply};
use crate::body::answer;
use crate::loopback::Line;

const ID: &str = "chatcmpl-scripted";
/// When every completion was made, in seconds: some time that is always the same.
const CREATED: u64 = 1_767_225_600;

/// The answer to a request: a stream where it asked for one.
pub(crate) fn respond(reply: &ModelReply, asked: &Value, line: &Line) -> Response {
    let cut = reply.cut_after;
    match &reply.kind {
        Kind::Dropped => {
            line.cut();
            StatusCode::OK.into_response()
        }
        Kind::Plain { status, headers, body } => answer(*status, headers, vec![body.clone()], cut),
        Kind::Message { message, finish_reason, usage } if asked["stream"] == Value::Bool(true) => {
            let wants_usage = asked["stream_options"]["include_usage"] == Value::Bool(true);
            let usage = if wants_usage { told(reply, usage, asked) } else { Value::Null };
            let events = events(&asked["model"], message, finish_reason, &usage);
            answer(200, &typed("text/event-stream"), events, cut)
        }
        Kind::Message { message, finish_reason, usage } => {
            let whole = whole(&asked["model"], message, finish_reason, &told(reply, usage, asked));
            answer(200, &typed("application/json"), vec![whole.to_string().into()], cut)
        }
    }
}

/// The usage that a reply tells of: no more output than was asked for, where it keeps to that.
fn told(reply: &ModelReply, usage: &Value, asked: &Value) -> Value {
    let mut told = usage.clone();
    let most = asked["max_completion_tokens"].as_u64().or(asked["max_tokens"].as_u64());
    if let (true, Some(most), Some(output)) = (reply.is_bounded, most, usage["completion_tokens"].as_u64()) {
        told["completion_tokens"] = output.min(most).into();
        told["total_tokens"] = (output.min(most) + usage["prompt_tokens"].as_u64().unwrap_or(0)).into();
    }
    told
}

/// An error in the wire's form.
pub(crate) fn error(status: StatusCode, message: &str) -> Response {
    let body = json!({"error": {"message": message, "type": "scripted", "code": null}}).to_string();
    answer(status.as_u16(), &typed("application/json"), vec![body.into()], None)
}

fn typed(content_type: &str) -> [(String, String); 1] {
    [("content-type".to_owned(), content_type.to_owned())]
}

fn whole(model: &Value, message: &Map<String, Value>, finish_reason: &Value, usage: &Value) -> Value {
    let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason});
    let mut whole = chunk("chat.completion", model, &[choice]);
    if !usage.is_null() {
        whole["usage"] = usage.clone();
    }
    whole
}

/// The events of a stream, each as its bytes: role, text in two pieces, each call in three, the end, usage.
fn events(model: &Value, message: &Map<String, Value>, finish_reason: &Value, usage: &Value) -> Vec<Bytes> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    for (name, value) in message.iter().filter(|(name, _)| *name != "role" && *name != "tool_calls") {
        match value {
            Value::String(text) => {
                let (head, tail) = halves(text);
                deltas.extend([json!({name: head}), json!({name: tail})]);
            }
            Value::Null => {}
            other => deltas.push(json!({name: other})),
        }
    }
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    deltas.extend(calls.enumerate().flat_map(|(n, call)| call_deltas(n, call)));
    let mut chunks: Vec<Value> =
        deltas.iter().map(|delta| json!({"index": 0, "delta": delta, "finish_reason": null})).collect();
    chunks.push(json!({"index": 0, "delta": {}, "finish_reason": finish_reason}));
    let mut events: Vec<Value> =
        chunks.into_iter().map(|choice| chunk("chat.completion.chunk", model, &[choice])).collect();
    if !usage.is_null() {
        let mut last = chunk("chat.completion.chunk", model, &[]);
        last["usage"] = usage.clone();
        events.push(last);
    }
    let data = events.iter().map(|event| Bytes::from(format!("data: {event}\n\n")));
    data.chain([Bytes::from_static(b"data: [DONE]\n\n")]).collect()
}

fn call_deltas(index: usize, call: &Value) -> [Value; 3] {
    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
    let (head, tail) = halves(arguments);
    let mut opening = call.clone();
    opening["index"] = index.into();
    opening["function"]["arguments"] = "".into();
    let piece = |text: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]});
    [json!({"tool_calls": [opening]}), piece(head), piece(tail)]
}

fn chunk(object: &str, model: &Value, choices: &[Value]) -> Value {
    json!({"id": ID, "object": object, "created": CREATED, "model": model, "choices": choices})
}

/// Two pieces of a text, parted between characters.
fn halves(text: &str) -> (&str, &str) {
    let middle = text.chars().count() / 2;
    text.split_at(text.char_indices().nth(middle).map_or(text.len(), |(at, _)| at))
}
