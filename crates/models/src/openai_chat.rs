//! The chat-completions wire, as OpenAI and the many servers that follow it speak it.
//!
//! ```text
//! POST {base_url}/chat/completions
//! Authorization: Bearer {api_key}
//! {"model", "messages": [{"role", "content", "tool_calls"?, "tool_call_id"?}],
//!  "tools": [{"type": "function", "function": {"name", "description", "parameters", "strict"?}}],
//!  "response_format"?, "stream": true, "stream_options": {"include_usage": true}, …}
//! ```
//! A whole answer is one object, `{"choices": [{"message", "finish_reason"}], "usage"}`. A streamed one is a row of
//! events, each with a piece of it, `{"choices": [{"delta", "finish_reason"}], "usage"?}`, and `[DONE]` at its end.
//! An `error` object may stand in both, under status 200.
//!
//! Reasoning has no form that all share: a field of the message (`reasoning_content`, `reasoning`), lists of blocks in pieces
//! (`reasoning_details`, `thinking_blocks`), parts of the content, signatures beside calls. Whatever a message or a call has
//! beside what is above is kept, and goes back in its place where the provider's options say so.
//!
//! `request` renders, with `history` (`turns`), and `content` a user's pieces; `pieces` puts the reply together, with `calls`
//! (`whole`), `thoughts`, `extra` (`grow`, `links`), `finish` and `usage`.

mod calls;
mod content;
mod extra;
mod finish;
mod grow;
mod history;
mod links;
mod pieces;
mod request;
mod thoughts;
mod turns;
mod usage;
mod whole;

use answerable_core::model::ModelRequest;
use answerable_core::provider::{OpenAiChatOptions, read_options};
use serde_json::{Map, Value};

use crate::assembly::Assembly;
use crate::exchange::Outgoing;
use crate::words::Words;
use pieces::Pieces;

/// The name of this wire in stored messages.
const WIRE: &str = "openai_chat";

/// What is sent, under the provider's switches.
pub(crate) fn outgoing(request: &ModelRequest, options: &Map<String, Value>) -> Outgoing {
    let options: OpenAiChatOptions = read_options(options);
    Outgoing {
        body: request::body(request, &options),
        streams: options.stream,
        path: options.path,
        key_header: options.key_header,
        headers: Vec::new(),
    }
}

/// A reply of which nothing has come.
pub(crate) fn pieces<'s>(words: Words<'s>) -> impl Assembly + use<'s> {
    Pieces::new(words)
}

#[cfg(test)]
mod tests;
