//! What model providers accept.

#[path = "../../../crates/models/tests/outside/valid/openai_responses.rs"]
mod responses;

use std::collections::HashSet;

use serde_json::Value;

/// Fails the test unless a request's messages are such as providers take: each call answered once and at once,
/// with an id of its own; arguments that are an object; nothing empty.
pub(crate) fn history(request: &Value) {
    if request["messages"].is_null() {
        return responses::check(request);
    }
    let mut open: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for message in request["messages"].as_array().expect("messages") {
        let role = message["role"].as_str().expect("a role");
        if role == "tool" {
            let id = message["tool_call_id"].as_str().expect("the id of a call");
            let place = open.iter().position(|known| *known == id);
            open.remove(place.unwrap_or_else(|| panic!("a result of no open call: {request:#}")));
            assert!(has_text(message), "an empty result: {request:#}");
            continue;
        }
        assert!(open.is_empty(), "{open:?} have no result: {request:#}");
        let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        let says = has_text(message) || (role == "user" && has_pieces(message));
        assert!(says || !calls.is_empty(), "an empty message: {request:#}");
        assert!(message["tool_calls"].is_null() || !calls.is_empty(), "an empty list of calls: {request:#}");
        for call in calls {
            let id = call["id"].as_str().expect("an id");
            assert!(seen.insert(id), "the id {id} comes twice: {request:#}");
            open.push(id);
            let arguments = call["function"]["arguments"].as_str().expect("arguments");
            let parsed: Option<Value> = serde_json::from_str(arguments).ok();
            assert!(parsed.is_some_and(|parsed| parsed.is_object()), "arguments {arguments:?}: {request:#}");
        }
    }
    assert!(open.is_empty(), "{open:?} have no result: {request:#}");
}

fn has_text(message: &Value) -> bool {
    is_said(&message["content"])
}

/// Whether it is more than text: pieces, none of them empty.
fn has_pieces(message: &Value) -> bool {
    let says = |piece: &Value| match piece["type"].as_str() {
        Some("text") => is_said(&piece["text"]),
        Some("image_url") => is_said(&piece["image_url"]["url"]),
        Some("file") => is_said(&piece["file"]["file_data"]) && is_said(&piece["file"]["filename"]),
        _ => false,
    };
    message["content"].as_array().is_some_and(|pieces| !pieces.is_empty() && pieces.iter().all(says))
}

fn is_said(text: &Value) -> bool {
    text.as_str().is_some_and(|text| !text.is_empty())
}
