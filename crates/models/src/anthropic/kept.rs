//! Blocks that only the vendor understands, as they are stored with a message, and back in their places among its text and
//! calls. The vendor checks them against where they stood.
//!
//! Stored is a list of all blocks of the reply: of text how many bytes of the message's it is, of a call that there was one;
//! anything else just as it came.

use answerable_core::json;
use answerable_core::message::{Message, MessageCall};
use answerable_core::model::ModelRequest;
use answerable_tools::Mask;
use serde_json::{Map, Value, json};

use super::WIRE;
use super::block::Block;

/// The field of a message's extra that holds the list.
const BLOCKS: &str = "blocks";

/// What is stored of a reply's blocks beside `text` and calls. Nothing, if there is only that, or if anything can't go back
/// just as it came: of thinking the vendor takes all or none.
pub(super) fn store(blocks: &[Block], text: &str, mask: &Mask) -> Map<String, Value> {
    let mut list = Vec::new();
    let (mut told, mut has_more) = (String::new(), false);
    for block in blocks {
        match block {
            Block::Text(piece) => {
                let piece = json::clean_text(piece);
                list.push(json!({"type": "text", "bytes": piece.len()}));
                told.push_str(&piece);
            }
            Block::Call(_) => list.push(json!({"type": "tool_use"})),
            Block::Kept(kept) if kept.says_nothing() => {}
            Block::Kept(kept) => {
                let whole = kept.whole().filter(|block| json::find_unfit(block).is_none());
                let Some(whole) = whole.filter(|block| !mask.finds_in(block)) else { return Map::new() };
                list.push(whole);
                has_more = true;
            }
        }
    }
    // Where a secret was masked in the text, its pieces are not those that came.
    if has_more && told == text {
        Map::from_iter([(BLOCKS.to_owned(), Value::Array(list))])
    } else {
        Map::new()
    }
}

/// The blocks of an assistant's message, with what was kept of it if it is this model's own.
pub(super) fn restore(message: &Message, request: &ModelRequest, sends_kept: bool) -> Vec<Value> {
    let own = message.extra.as_ref().filter(|extra| {
        sends_kept
            && (extra.wire.as_str(), &extra.provider, &extra.model)
                == (WIRE, &request.provider, &request.model)
    });
    let list = own.and_then(|extra| extra.fields.get(BLOCKS)).and_then(Value::as_array);
    list.and_then(|list| in_place(list, message)).unwrap_or_else(|| plain(message))
}

/// Thinking of any kind.
pub(super) fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

/// Text and calls alone.
fn plain(message: &Message) -> Vec<Value> {
    text_block(&message.content).into_iter().chain(message.tool_calls.iter().map(call_block)).collect()
}

/// `None`: the message isn't the one that the list was made of.
fn in_place(list: &[Value], message: &Message) -> Option<Vec<Value>> {
    let (mut text, mut calls) = (message.content.as_str(), message.tool_calls.iter());
    let mut out = Vec::new();
    for block in list {
        match block["type"].as_str() {
            // Blank text isn't stored.
            Some("text") if message.content.is_empty() => {}
            Some("text") => {
                let (piece, rest) = text.split_at_checked(usize::try_from(block["bytes"].as_u64()?).ok()?)?;
                out.extend(text_block(piece));
                text = rest;
            }
            // Calls over the limit aren't stored.
            Some("tool_use") => out.extend(calls.next().map(call_block)),
            _ => out.push(block.clone()),
        }
    }
    // The vendor refuses a message that ends with thinking.
    let end = out.iter().rposition(|block| !is_thinking(block)).map_or(0, |last| last + 1);
    out.truncate(end);
    (text.is_empty() && calls.next().is_none()).then_some(out)
}

/// A text block; blank ones are refused.
pub(super) fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn call_block(call: &MessageCall) -> Value {
    let input = serde_json::from_str(&call.arguments).ok().filter(Value::is_object);
    let input = input.unwrap_or_else(|| json!({}));
    json!({"type": "tool_use", "id": call.id.to_string(), "name": call.name, "input": input})
}
