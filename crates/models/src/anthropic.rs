//! The messages wire, as Anthropic and the servers that follow it speak it.
//!
//! ```text
//! POST {base_url}/messages
//! x-api-key: {api_key}
//! anthropic-version: 2023-06-01
//! {"model", "max_tokens", "system": [{"type": "text", "text", "cache_control"?}],
//!  "messages": [{"role": "user"|"assistant", "content": [BLOCK]}],
//!  "tools": [{"name", "description", "input_schema"}], "tool_choice"?, "output_config"?, "stream": true, …}
//! ```
//! Blocks are `text`, `image` and `document` of the user, `tool_use` of the assistant and `tool_result` of the user's next
//! message, and what only the vendor understands: `thinking`, `redacted_thinking` and whatever comes later.
//!
//! A whole answer is one object, `{"type": "message", "content": [BLOCK], "stop_reason", "usage"}`. A streamed one is a row
//! of events: `message_start` with the first counts, `content_block_start`, `content_block_delta` and `content_block_stop`
//! for each block, `message_delta` with the stop reason and the counts, `message_stop`; `ping` anywhere, and `error`, under
//! status 200 too.
//!
//! `request` renders, with `turns` (who says what, one after the other), `said` (what a user says), `tools`, `thinking`,
//! `cache` (what is worth caching) and `answer_schema`. `pieces` puts a reply together, with `block` and `usage`; `kept`
//! holds what goes back just as it came, and in its place.

mod answer_schema;
mod block;
mod cache;
mod kept;
mod pieces;
mod request;
mod said;
mod thinking;
mod tools;
mod turns;
mod usage;

use answerable_core::model::ModelRequest;
use answerable_core::provider::{AnthropicOptions, read_options};
use serde_json::{Map, Value};

use crate::assembly::Assembly;
use crate::exchange::Outgoing;
use crate::words::Words;
use pieces::Pieces;

/// The name of this wire in stored messages.
const WIRE: &str = "anthropic";

/// What is sent, under the provider's switches.
pub(crate) fn outgoing(request: &ModelRequest, options: &Map<String, Value>) -> Outgoing {
    let options: AnthropicOptions = read_options(options);
    Outgoing {
        body: request::body(request, &options),
        streams: options.stream,
        path: options.path,
        key_header: options.key_header,
        headers: vec![("anthropic-version", options.version)],
    }
}

/// A reply of which nothing has come.
pub(crate) fn pieces<'s>(words: Words<'s>) -> impl Assembly + use<'s> {
    Pieces::new(words)
}

#[cfg(test)]
mod tests;
