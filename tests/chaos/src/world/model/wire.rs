//! The chat-completions wire: a whole completion, or its stream.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use axum::{Json, http::header::CONTENT_TYPE};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::script::{Call, arguments};
use crate::world::http::LineCut;

/// A reply.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) calls: Vec<Call>,
    pub(super) text: String,
    /// Time between two pieces of a stream.
    pub(super) pause: Duration,
    /// The line is cut in the middle.
    pub(super) is_cut: bool,
}

/// The answer: a stream where one was asked for. `done` is dropped when it has been sent, or nobody reads it.
pub(super) fn respond<T: Send + 'static>(
    reply: Reply,
    streams: bool,
    done: impl FnOnce() -> T + Send + 'static,
) -> Response {
    if !streams {
        done();
        return Json(whole(&reply)).into_response();
    }
    let (pause, is_cut) = (reply.pause, reply.is_cut);
    let mut events = events(&reply);
    if is_cut {
        events.truncate(events.len() / 2);
    }
    let pieces = futures::stream::iter(events).then(move |event| async move {
        sleep(pause).await;
        Ok::<Bytes, LineCut>(event)
    });
    let end = futures::stream::once(async move {
        done();
        if is_cut { Err(LineCut) } else { Ok(Bytes::from_static(b"data: [DONE]\n\n")) }
    });
    let body = Body::from_stream(pieces.chain(end));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn calls(reply: &Reply) -> Vec<Value> {
    let calls = reply.calls.iter().enumerate();
    let call = |(n, call): (usize, &Call)| {
        let function = json!({"name": call.tool, "arguments": arguments(call)});
        json!({"id": format!("call_{n}"), "type": "function", "function": function})
    };
    calls.map(call).collect()
}

fn finish_reason(reply: &Reply) -> &'static str {
    if reply.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn usage() -> Value {
    json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
}

fn frame(object: &str, choices: &Value) -> Value {
    json!({"id": "chatcmpl-world", "object": object, "created": 1_767_225_600, "model": "m", "choices": choices})
}

fn whole(reply: &Reply) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if !reply.calls.is_empty() {
        message["tool_calls"] = calls(reply).into();
        message["content"] = Value::Null;
    }
    let choice = json!([{"index": 0, "message": message, "finish_reason": finish_reason(reply)}]);
    let mut whole = frame("chat.completion", &choice);
    whole["usage"] = usage();
    whole
}

/// Role, then the text a word at a time, or each call in two pieces; the reason; what it took.
fn events(reply: &Reply) -> Vec<Bytes> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    if reply.calls.is_empty() {
        deltas.extend(reply.text.split_inclusive(' ').map(|word| json!({"content": word})));
    }
    for (n, mut call) in calls(reply).into_iter().enumerate() {
        let arguments = call["function"]["arguments"].take();
        call["function"]["arguments"] = "".into();
        call["index"] = n.into();
        let rest = json!({"index": n, "function": {"arguments": arguments}});
        deltas.extend([json!({"tool_calls": [call]}), json!({"tool_calls": [rest]})]);
    }
    let choice =
        |delta: &Value, reason: Value| json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
    let mut choices: Vec<Value> = deltas.iter().map(|delta| choice(delta, Value::Null)).collect();
    choices.push(choice(&json!({}), finish_reason(reply).into()));
    let mut events: Vec<Value> = choices.iter().map(|c| frame("chat.completion.chunk", c)).collect();
    let mut last = frame("chat.completion.chunk", &json!([]));
    last["usage"] = usage();
    events.push(last);
    events.into_iter().map(|event| Bytes::from(format!("data: {event}\n\n"))).collect()
}
