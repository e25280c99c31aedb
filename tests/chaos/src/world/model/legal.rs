//! What model providers accept.

use std::collections::HashSet;

use serde_json::Value;

/// What is wrong with a history: each call must be answered once, at once and in order, with an id of its own; arguments
/// must be an object; nothing may be empty.
pub(super) fn violation(messages: &[Value]) -> Option<String> {
    let (mut open, mut seen) = (Vec::new(), HashSet::new());
    for (n, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if open.first() != Some(&id) {
                return Some(format!("message {n} answers {id:?}, but open are {open:?}"));
            }
            open.remove(0);
            if !has_text(message) {
                return Some(format!("message {n} is an empty result"));
            }
            continue;
        }
        if !open.is_empty() {
            return Some(format!("{open:?} have no result before message {n}"));
        }
        let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        if !has_text(message) && calls.is_empty() {
            return Some(format!("message {n} says nothing"));
        }
        for call in calls {
            let id = call["id"].as_str().unwrap_or_default();
            if id.is_empty() || !seen.insert(id) {
                return Some(format!("the id {id:?} in message {n} is not its own"));
            }
            open.push(id);
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let parsed: Option<Value> = serde_json::from_str(arguments).ok();
            if !parsed.is_some_and(|parsed| parsed.is_object()) {
                return Some(format!("arguments {arguments:?} in message {n}"));
            }
        }
    }
    (!open.is_empty()).then(|| format!("{open:?} have no result"))
}

fn has_text(message: &Value) -> bool {
    message["content"].as_str().is_some_and(|text| !text.is_empty())
}
