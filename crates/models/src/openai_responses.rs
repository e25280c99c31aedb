//! The responses wire, as OpenAI, Azure, and the servers that follow them speak it. Nothing is kept on the far side: every
//! request tells the whole history.
//!
//! ```text
//! POST {base_url}/responses
//! Authorization: Bearer {api_key}
//! {"model", "store": false, "instructions"?, "include": ["reasoning.encrypted_content"],
//!  "input": [{"type": "message", "role", "content"}, {"type": "function_call", "call_id", "name", "arguments"},
//!            {"type": "function_call_output", "call_id", "output"}, {"type": "reasoning", "encrypted_content", …}],
//!  "tools": [{"type": "function", "name", "description", "parameters", "strict"}],
//!  "text": {"format"}?, "max_output_tokens"?, "stream": true, …}
//! ```
//! A whole answer is one object, `{"status", "output": [item], "usage", "incomplete_details"?, "error"?}`. A streamed one is
//! a row of events that tell of its items: `response.output_item.added`, deltas of what is in it, `….done` with all of it;
//! the last, `response.completed`, `.incomplete` or `.failed`, holds the whole answer once more. Where both are there, they
//! must fit each other. There is no `[DONE]`, though some servers send one.
//!
//! `request` renders, with `input` (the history), `content` (a user's pieces) and `blocks` (what goes back just so, in its
//! place); `pieces` puts the reply together, with `output` (its items), `item`, `blocks` and `usage`.

mod blocks;
mod content;
mod input;
mod item;
mod output;
mod pieces;
mod request;
mod usage;

use answerable_core::model::ModelRequest;
use answerable_core::provider::{OpenAiResponsesOptions, read_options};
use serde_json::{Map, Value};

use crate::assembly::Assembly;
use crate::exchange::Outgoing;
use crate::words::Words;
use pieces::Pieces;

/// The name of this wire in stored messages.
const WIRE: &str = "openai_responses";

/// What is sent, under the provider's switches.
pub(crate) fn outgoing(request: &ModelRequest, options: &Map<String, Value>) -> Outgoing {
    let options: OpenAiResponsesOptions = read_options(options);
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
