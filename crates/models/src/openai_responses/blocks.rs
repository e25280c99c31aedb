//! What a reply holds beside text and calls: sealed reasoning, which goes back just so and in its place, and the phase that
//! the model gave a text. Kept as a row of `{"item": …}`, `{"text": characters, "phase"?: …}` and `{"call": true}`.
//!
//! Rule: such an item is told together with what it led to, or not at all. The vendor refuses one that nothing follows.

use answerable_core::json;
use answerable_core::message::{Message, MessageCall};
use answerable_tools::Mask;
use serde_json::{Map, Value, json};

use super::item::{Item, Kind};

/// What is kept of a reply's items; nothing where text and calls are all there is.
pub(super) fn kept(items: &[Item], mask: &Mask) -> Map<String, Value> {
    let mut blocks = Vec::new();
    let mut waiting = Vec::new();
    let mut tells = false;
    for item in items {
        let block = match item.kind {
            Kind::Message if item.text().trim().is_empty() => None,
            Kind::Message => Some(text_block(item, mask)),
            Kind::Call => Some(json!({"call": true})),
            Kind::Other => {
                match item.value.as_ref().filter(|value| can_go_back(value, mask)) {
                    Some(value) => waiting.push(json!({"item": value})),
                    None => waiting.clear(),
                }
                continue;
            }
        };
        match block {
            Some(block) => {
                tells |= !waiting.is_empty() || block.get("phase").is_some();
                blocks.append(&mut waiting);
                blocks.push(block);
            }
            None => waiting.clear(),
        }
    }
    if tells { Map::from_iter([("blocks".into(), blocks.into())]) } else { Map::new() }
}

/// A text that is as long as in the history, so that it can be found there.
fn text_block(item: &Item, mask: &Mask) -> Value {
    let characters = mask.text(&json::clean_text(&item.text())).chars().count();
    let mut block = json!({"text": characters});
    if let Some(phase) =
        item.phase.as_ref().filter(|phase| can_be_said(&Value::String((*phase).clone()), mask))
    {
        block["phase"] = phase.as_str().into();
    }
    block
}

/// Only what the vendor needs nothing more for: it keeps no items, so all of it must be in this one.
fn can_go_back(item: &Value, mask: &Mask) -> bool {
    let kind = item["type"].as_str().unwrap_or_default();
    // What is no model's to say, but ours.
    if kind.is_empty() || kind.ends_with("_output") || kind == "item_reference" {
        return false;
    }
    let is_sealed = item["encrypted_content"].as_str().is_some_and(|sealed| !sealed.is_empty());
    // Servers of open models tell the reasoning itself.
    let is_open = kind == "reasoning" && item["content"].as_array().is_some_and(|parts| !parts.is_empty());
    (is_sealed || is_open) && can_be_said(item, mask)
}

fn can_be_said(value: &Value, mask: &Mask) -> bool {
    json::find_unfit(value).is_none() && !mask.finds_in(value)
}

/// The items of an assistant's message, of which `blocks` were kept.
pub(super) fn laid_out(message: &Message, blocks: &[Value]) -> Vec<Value> {
    let mut texts = texts(message, blocks).into_iter();
    let mut calls = message.tool_calls.iter().map(call);
    let (mut items, mut waiting) = (Vec::new(), Vec::new());
    for block in blocks {
        if let Some(item) = block.get("item") {
            waiting.push(item.clone());
            continue;
        }
        let item = if block["call"] == true { calls.next() } else { texts.next().flatten() };
        match item {
            Some(item) => {
                items.append(&mut waiting);
                items.push(item);
            }
            None => waiting.clear(),
        }
    }
    items.extend(texts.flatten());
    items.extend(calls);
    items
}

/// The texts of a message, one a block of text; all in one where they can't be told apart any more.
fn texts(message: &Message, blocks: &[Value]) -> Vec<Option<Value>> {
    let lengths =
        || blocks.iter().filter_map(|block| Some((block["text"].as_u64()?, block["phase"].as_str())));
    let sum = lengths().try_fold(0, |sum: u64, (length, _)| sum.checked_add(length));
    if sum != u64::try_from(message.content.chars().count()).ok() || lengths().count() < 2 {
        let phase = lengths().next().and_then(|(_, phase)| phase).filter(|_| lengths().count() == 1);
        return vec![said(&message.content, phase)];
    }
    let mut rest = message.content.chars();
    let mut next =
        |length: u64| rest.by_ref().take(usize::try_from(length).unwrap_or(usize::MAX)).collect::<String>();
    lengths().map(|(length, phase)| said(&next(length), phase)).collect()
}

/// Text that the model said, if it is any.
fn said(text: &str, phase: Option<&str>) -> Option<Value> {
    if text.trim().is_empty() {
        return None;
    }
    let mut item = json!({"type": "message", "role": "assistant", "content": text});
    if let Some(phase) = phase {
        item["phase"] = phase.into();
    }
    Some(item)
}

fn call(call: &MessageCall) -> Value {
    json!({"type": "function_call", "call_id": call.id.to_string(), "name": call.name, "arguments": call.arguments})
}

#[cfg(test)]
mod tests;
