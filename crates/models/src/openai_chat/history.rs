//! The history as messages.

use answerable_core::id::CallId;
use answerable_core::json::sha256_hex;
use answerable_core::message::{Message, MessageCall, Role};
use answerable_core::model::ModelRequest;
use answerable_core::provider::{CallIds, OpenAiChatOptions, SystemRole};
use serde_json::{Map, Value, json};

use super::{WIRE, content, links, thoughts, turns};
use crate::fillers::GO_ON;

/// Letters and digits of a short id.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// How many of them it has.
const SHORT: usize = 9;

/// System text, what was said, and the words that follow it.
pub(super) fn messages(request: &ModelRequest, system: &str, options: &OpenAiChatOptions) -> Vec<Value> {
    let mut messages: Vec<Value> =
        request.messages.iter().filter_map(|message| rendered(message, request, options)).collect();
    let note = request.note.as_ref().filter(|note| !note.trim().is_empty());
    messages.extend(note.map(|note| json!({"role": "user", "content": note})));
    if messages.last().is_some_and(turns::is_words) {
        messages.push(json!({"role": "user", "content": GO_ON}));
    }
    match system_role(options) {
        _ if system.is_empty() => {}
        Some(role) => messages.insert(0, json!({"role": role, "content": system})),
        None => content::put_before(&mut messages, system),
    }
    if options.strict_turns { turns::strict(messages) } else { messages }
}

/// `None`: the user says it.
fn system_role(options: &OpenAiChatOptions) -> Option<&'static str> {
    match options.system_role {
        SystemRole::System => Some("system"),
        SystemRole::Developer => Some("developer"),
        SystemRole::User => None,
    }
}

/// A message; one that says nothing is none.
fn rendered(message: &Message, request: &ModelRequest, options: &OpenAiChatOptions) -> Option<Value> {
    let is_blank = message.content.trim().is_empty();
    match message.role {
        Role::System => {
            let role = system_role(options).unwrap_or("user");
            (!is_blank).then(|| json!({"role": role, "content": message.content}))
        }
        Role::User => {
            let content = content::of_user(message, request, options)?;
            Some(json!({"role": "user", "content": content}))
        }
        Role::Tool => {
            let id = id(message.tool_call_id?, options);
            Some(json!({"role": "tool", "tool_call_id": id, "content": message.content}))
        }
        Role::Assistant if is_blank && message.tool_calls.is_empty() => None,
        Role::Assistant => Some(assistant(message, request, options)),
    }
}

/// An assistant's message. Unknown fields go back to whom they came from alone.
fn assistant(message: &Message, request: &ModelRequest, options: &OpenAiChatOptions) -> Value {
    let is_blank = message.content.trim().is_empty();
    let content = if is_blank { Value::Null } else { message.content.as_str().into() };
    let mut out = Map::from_iter([("role".into(), "assistant".into()), ("content".into(), content)]);
    let ids: Vec<String> = message.tool_calls.iter().map(|call| id(call.id, options)).collect();
    if !message.tool_calls.is_empty() {
        out.insert("tool_calls".into(), message.tool_calls.iter().zip(&ids).map(call).collect());
    }
    let own = message.extra.as_ref().filter(|extra| {
        let came_from = (extra.wire.as_str(), &extra.provider, &extra.model);
        options.send_reasoning && came_from == (WIRE, &request.provider, &request.model)
    });
    if let Some(mut fields) = own.map(|extra| extra.fields.clone())
        && links::tighten(&mut fields, &ids)
    {
        add_kept(&mut out, fields);
    }
    Value::Object(out)
}

/// Adds what was kept of the reply: fields of its own, thinking before the text, and fields of its calls.
fn add_kept(out: &mut Map<String, Value>, mut fields: Map<String, Value>) {
    let calls = out.get_mut("tool_calls").and_then(Value::as_array_mut);
    if let (Some(calls), Some(Value::Array(kept))) = (calls, fields.remove("tool_calls")) {
        calls.iter_mut().zip(kept).for_each(|(call, kept)| add_fields(call, kept));
    }
    if let Some(Value::Array(mut parts)) = fields.remove(thoughts::FIELD) {
        let text = out.get(thoughts::FIELD).filter(|text| !text.is_null());
        parts.extend(text.map(|text| json!({"type": "text", "text": text})));
        out.insert(thoughts::FIELD.into(), parts.into());
    }
    for (name, value) in fields {
        out.entry(name).or_insert(value);
    }
}

/// Adds fields to an object, and within its objects, over none that it has.
fn add_fields(object: &mut Value, more: Value) {
    let (Value::Object(fields), Value::Object(more)) = (object, more) else { return };
    for (name, value) in more {
        match fields.get_mut(&name) {
            Some(known) => add_fields(known, value),
            None => drop(fields.insert(name, value)),
        }
    }
}

fn call((call, id): (&MessageCall, &String)) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    json!({"id": id, "type": "function", "function": function})
}

/// What a call is named by.
fn id(call: CallId, options: &OpenAiChatOptions) -> String {
    match options.call_ids {
        CallIds::Own => call.to_string(),
        CallIds::Short => short(&call.to_string()),
    }
}

/// Two of a history's ids would have to share 53 bits of a hash to be the same.
fn short(id: &str) -> String {
    let hash = sha256_hex(id.as_bytes());
    let hash = hash.rsplit(':').next().and_then(|digits| digits.get(..16));
    let mut rest = hash.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default();
    let digit = |_| {
        let digit = DIGITS[usize::try_from(rest % 62).unwrap_or_default()];
        rest /= 62;
        char::from(digit)
    };
    (0..SHORT).map(digit).collect()
}
