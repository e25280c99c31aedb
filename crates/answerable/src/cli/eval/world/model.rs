//! The scripted model: the chat-completions wire, each answer whole.

use axum::response::Response;
use serde_json::{Map, Value, json};

use super::Stage;
use super::listen::{Asked, Cut, plain};
use answerable_evals::Shown;
use answerable_evals::case::{Reply, Said, What};

/// When every completion was made, in seconds: some time that is always the same.
const CREATED: u64 = 1_767_225_600;
const JSON: &str = "application/json";

pub(super) async fn answer(stage: &Stage, provider: &str, asked: &Asked) -> Result<Response, Cut> {
    let request: Value = serde_json::from_slice(&asked.body).unwrap_or(Value::Null);
    let reply = next(stage, provider, &request);
    stage.changed();
    // No server asks again after a 400.
    let Some(reply) = reply else {
        return Ok(plain(400, &Map::new(), JSON, error("the case has no reply left"), None));
    };
    tokio::time::sleep(reply.delay).await;
    match &reply.what {
        What::Drop => Err(Cut),
        What::Http { status, headers, body } => {
            let body = match body {
                Value::Null if *status >= 400 => error(&format!("scripted {status}")),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Ok(plain(*status, headers, JSON, body, reply.cut_after))
        }
        What::Said(said) => {
            let whole = completion(said, &request).to_string();
            Ok(plain(200, &Map::new(), JSON, whole, reply.cut_after))
        }
    }
}

/// Notes a request and picks its reply; `None` where the case has none left, which is a trouble.
fn next(stage: &Stage, provider: &str, request: &Value) -> Option<Reply> {
    let messages = request.get("messages").and_then(Value::as_array);
    let mut seen = stage.seen();
    seen.shown.push(Shown::of(messages.map(Vec::as_slice).unwrap_or_default()));
    let asked = seen.asked.entry(provider.to_owned()).or_default();
    let nth = *asked;
    *asked += 1;
    let replies = stage.models.get(provider).map(Vec::as_slice).unwrap_or_default();
    let reply = replies.get(nth).cloned();
    if reply.is_none() {
        let trouble =
            format!("the model of {provider} was asked {} times and has {} replies", nth + 1, replies.len());
        seen.troubles.push(trouble);
    }
    reply
}

fn completion(said: &Said, request: &Value) -> Value {
    let calls = said.tool_calls.iter().enumerate().map(|(n, call)| {
        let arguments = match &call.arguments {
            Value::String(text) => text.clone(),
            Value::Null => "{}".to_owned(),
            other => other.to_string(),
        };
        let id = call.id.clone().unwrap_or_else(|| format!("call_{n}"));
        json!({"id": id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
    });
    let calls: Vec<Value> = calls.collect();
    let usual_end = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut message = json!({"role": "assistant", "content": said.text});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    for (name, value) in &said.message {
        message[name] = value.clone();
    }
    let choice = json!({
        "index": 0, "message": message, "finish_reason": said.finish_reason.as_deref().unwrap_or(usual_end),
    });
    let mut whole = json!({
        "id": "chatcmpl-eval", "object": "chat.completion", "created": CREATED, "model": request["model"],
        "choices": [choice],
    });
    if let Some(usage) = said.usage {
        whole["usage"] = json!({
            "prompt_tokens": usage.input, "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output, "prompt_tokens_details": {"cached_tokens": usage.cached},
        });
    }
    whole
}

fn error(message: &str) -> String {
    json!({"error": {"message": message, "type": "scripted", "code": null}}).to_string()
}
