//! A reply as a stream of chunks, cut small, the way real servers send it.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::clerk::Reply;
use super::wire::{self, Request};

const PAUSE: Duration = Duration::from_millis(8);
const PIECE_CHARS: usize = 12;

/// The streamed answer to a request.
pub(super) fn answer(request: &Request, reply: &Reply) -> Response {
    let mut events: Vec<String> = chunks(request, reply).iter().map(Value::to_string).collect();
    events.push("[DONE]".into());
    let paced = stream::iter(events).then(|data| async move {
        tokio::time::sleep(PAUSE).await;
        Ok::<_, Infallible>(Event::default().data(data))
    });
    Sse::new(paced).into_response()
}

/// The chunks of a reply: its role, its text or calls piece by piece, why it ended, what it cost.
pub(super) fn chunks(request: &Request, reply: &Reply) -> Vec<Value> {
    let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
    match reply {
        Reply::Say(text) => deltas.extend(pieces(text).into_iter().map(|piece| json!({ "content": piece }))),
        Reply::Call(calls) => {
            for (n, call) in calls.iter().enumerate() {
                deltas.push(json!({ "tool_calls": [{
                    "index": n,
                    "id": request.call_id(n),
                    "type": "function",
                    "function": { "name": call.tool, "arguments": "" },
                }] }));
                deltas.extend(pieces(&call.arguments).into_iter().map(
                    |piece| json!({ "tool_calls": [{ "index": n, "function": { "arguments": piece } }] }),
                ));
            }
        }
    }
    let mut chunks: Vec<Value> =
        deltas.into_iter().map(|delta| chunk(request, json!([choice(&delta, None)]))).collect();
    chunks.push(chunk(request, json!([choice(&json!({}), Some(wire::finish_reason(reply)))])));
    if request.include_usage {
        let mut last = chunk(request, json!([]));
        last["usage"] = request.usage(reply);
        chunks.push(last);
    }
    chunks
}

fn choice(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({ "index": 0, "delta": delta, "finish_reason": finish_reason })
}

fn chunk(request: &Request, choices: Value) -> Value {
    json!({
        "id": request.reply_id(),
        "object": "chat.completion.chunk",
        "created": 0,
        "model": request.model,
        "choices": choices,
    })
}

fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(PIECE_CHARS).map(|piece| piece.iter().collect()).collect()
}
