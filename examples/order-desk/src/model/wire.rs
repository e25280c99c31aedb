//! The chat completions wire: what a request says, and a reply as one JSON answer.

use serde_json::{Value, json};

use super::clerk::{Reply, ToolCall};
use super::conversation::Conversation;

/// A request, read.
pub(super) struct Request {
    pub(super) model: String,
    pub(super) conversation: Conversation,
    pub(super) stream: bool,
    /// Whether a stream ends with a chunk that tells the tokens used.
    pub(super) include_usage: bool,
    prompt_tokens: usize,
}

impl Request {
    /// Reads a request's body, or says what is wrong with it.
    pub(super) fn read(body: &Value) -> Result<Self, String> {
        let model = body["model"].as_str().ok_or("you must provide a model parameter")?;
        let messages = body["messages"].as_array().ok_or("messages must be an array")?;
        Ok(Self {
            model: model.to_owned(),
            conversation: Conversation::read(messages)?,
            stream: body["stream"].as_bool().unwrap_or(false),
            include_usage: body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
            prompt_tokens: tokens(&body["messages"].to_string()) + tokens(&body["tools"].to_string()),
        })
    }

    /// The reply's own id, the same for the same point of a conversation.
    pub(super) fn reply_id(&self) -> String {
        format!("chatcmpl-{}", self.conversation.replies)
    }

    /// The tokens of the request and of a reply.
    pub(super) fn usage(&self, reply: &Reply) -> Value {
        let completion = match reply {
            Reply::Say(text) => tokens(text),
            Reply::Call(calls) => calls.iter().map(|call| tokens(call.tool) + tokens(&call.arguments)).sum(),
        };
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
        })
    }

    /// The wire's id of the n-th call of a reply: new in every reply of a conversation.
    pub(super) fn call_id(&self, n: usize) -> String {
        format!("call_{}_{n}", self.conversation.replies)
    }
}

/// About four characters a token, as a rule of thumb has it.
fn tokens(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}

/// Why the reply ended, in the wire's words.
pub(super) fn finish_reason(reply: &Reply) -> &'static str {
    match reply {
        Reply::Say(_) => "stop",
        Reply::Call(_) => "tool_calls",
    }
}

/// A reply as one answer.
pub(super) fn completion(request: &Request, reply: &Reply) -> Value {
    let message = match reply {
        Reply::Say(text) => json!({ "role": "assistant", "content": text }),
        Reply::Call(calls) => {
            let calls: Vec<Value> =
                calls.iter().enumerate().map(|(n, call)| tool_call(request, n, call)).collect();
            json!({ "role": "assistant", "content": null, "tool_calls": calls })
        }
    };
    json!({
        "id": request.reply_id(),
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason(reply) }],
        "usage": request.usage(reply),
    })
}

fn tool_call(request: &Request, n: usize, call: &ToolCall) -> Value {
    json!({
        "id": request.call_id(n),
        "type": "function",
        "function": { "name": call.tool, "arguments": call.arguments },
    })
}
