//! The parsers and renderers of this crate, for whoever feeds them garbage. Nothing else is meant to use them.

use answerable_core::model::{ModelFailure, ModelReply, ModelRequest};
use answerable_ports::{DeltaSink, ModelTarget};
use answerable_tools::sse::{SseDecoder, SseEvent};
use serde_json::{Map, Value};

use crate::assembly::{Assembly, Told};
use crate::reader::Reader;
use crate::words::Words;
use crate::{anthropic, openai_chat, openai_responses, refusal, secrets};

/// The wires.
pub const WIRES: [&str; 3] = ["openai_chat", "openai_responses", "anthropic"];

/// Hears nothing.
struct Deaf;

impl DeltaSink for Deaf {
    fn text(&self, _: &str) {}
}

/// Events of a stream that comes in pieces of `size` bytes, as name and data; nothing where one is too long.
pub fn events(bytes: &[u8], size: usize) -> Option<Vec<(String, String)>> {
    let mut decoder = SseDecoder::default();
    let mut events: Vec<SseEvent> = Vec::new();
    for piece in bytes.chunks(size.max(1)) {
        events.extend(decoder.push(piece).ok()?);
    }
    events.extend(decoder.finish());
    Some(events.into_iter().map(|event| (event.name, event.data)).collect())
}

/// What comes of an answer of a wire that comes in pieces of `size` bytes.
///
/// # Errors
/// It is no whole reply.
pub fn reply(
    wire: &str,
    target: &ModelTarget,
    request: &ModelRequest,
    bytes: &[u8],
    size: usize,
) -> Result<ModelReply, ModelFailure> {
    let words = Words::new(secrets::of_replies(target), &Deaf);
    let broken = match wire {
        "openai_chat" => read(openai_chat::pieces(words), bytes, size),
        "anthropic" => read(anthropic::pieces(words), bytes, size),
        _ => read(openai_responses::pieces(words), bytes, size),
    };
    broken.map_err(|broken| refusal::of_broken(&broken, target, request))
}

fn read<A: Assembly>(pieces: A, bytes: &[u8], size: usize) -> Result<ModelReply, crate::assembly::Broken> {
    let mut reader = Reader::new(pieces);
    for piece in bytes.chunks(size.max(1)) {
        if reader.feed(piece)? == Told::End {
            break;
        }
    }
    reader.end()?;
    reader.finish()
}

/// What an answer means whose status is no success.
pub fn refusal(target: &ModelTarget, request: &ModelRequest, status: u16, body: &[u8]) -> ModelFailure {
    refusal::of_body(status, body, target, request)
}

/// The body of a request.
pub fn body(wire: &str, request: &ModelRequest, options: &Map<String, Value>) -> Value {
    let outgoing = match wire {
        "openai_chat" => openai_chat::outgoing(request, options),
        "anthropic" => anthropic::outgoing(request, options),
        _ => openai_responses::outgoing(request, options),
    };
    outgoing.body
}
