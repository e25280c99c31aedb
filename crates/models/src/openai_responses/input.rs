//! The history as a row of items.

use std::collections::BTreeSet;

use answerable_core::message::{Message, Role};
use answerable_core::model::ModelRequest;
use answerable_core::provider::OpenAiResponsesOptions;
use serde_json::{Value, json};

use super::{WIRE, blocks, content};
use crate::fillers::GO_ON;

/// What stands for a user who said nothing: the vendor takes no empty input.
const NOTHING: &str = "(nothing was said)";
/// What stands for a tool that gave nothing.
const NO_OUTPUT: &str = "(no output)";

/// The items of a request.
pub(super) fn items(request: &ModelRequest, options: &OpenAiResponsesOptions) -> Vec<Value> {
    let note = request.note.as_deref().filter(|note| !note.trim().is_empty());
    let note = note.map(|note| said("user", note.into()));
    let history = request.messages.iter().flat_map(|message| of_message(message, request, options));
    let mut items: Vec<Value> = history.chain(note).collect();
    // Only what goes back just so has an id, and the vendor takes none twice.
    let mut ids = BTreeSet::new();
    items.retain(|item| item["id"].as_str().is_none_or(|id| ids.insert(id.to_owned())));
    match items.last() {
        None => items.push(said("user", NOTHING.into())),
        Some(last) if last["role"] == "assistant" => items.push(said("user", GO_ON.into())),
        Some(_) => {}
    }
    items
}

fn of_message(message: &Message, request: &ModelRequest, options: &OpenAiResponsesOptions) -> Vec<Value> {
    match message.role {
        Role::System if message.content.trim().is_empty() => Vec::new(),
        Role::System => vec![said("system", message.content.as_str().into())],
        Role::User => {
            let content = content::of_user(message, request, options);
            content.map(|content| said("user", content)).into_iter().collect()
        }
        Role::Tool => result(message).into_iter().collect(),
        Role::Assistant => {
            let kept = kept(message, request).filter(|_| options.send_reasoning);
            blocks::laid_out(message, kept.unwrap_or_default())
        }
    }
}

/// A message.
pub(super) fn said(role: &str, content: Value) -> Value {
    json!({"type": "message", "role": role, "content": content})
}

fn result(message: &Message) -> Option<Value> {
    let id = message.tool_call_id?.to_string();
    let output = Some(message.content.as_str()).filter(|text| !text.trim().is_empty()).unwrap_or(NO_OUTPUT);
    Some(json!({"type": "function_call_output", "call_id": id, "output": output}))
}

/// What was kept of the reply, for whom it came from alone.
fn kept<'m>(message: &'m Message, request: &ModelRequest) -> Option<&'m [Value]> {
    let extra = message.extra.as_ref()?;
    let from = (extra.wire.as_str(), &extra.provider, &extra.model);
    let blocks = extra.fields.get("blocks").and_then(Value::as_array)?;
    (from == (WIRE, &request.provider, &request.model)).then_some(blocks)
}
