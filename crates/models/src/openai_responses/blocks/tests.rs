//! What is kept of a reply, and where it goes back.

use super::*;
use answerable_core::id::{CallId, MessageId};
use answerable_core::message::Role;
use uuid::Uuid;

fn sealed(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAA"})
}

fn said_item(text: &str, phase: Option<&str>) -> Value {
    json!({"type": "message", "content": [{"type": "output_text", "text": text}], "phase": phase})
}

fn call_item() -> Value {
    json!({"type": "function_call", "name": "pay", "arguments": "{}"})
}

fn kept_of(items: &[Value]) -> Value {
    let items: Vec<Item> = items.iter().map(Item::whole).collect();
    kept(&items, &Mask::new(["sk-secret-1"])).remove("blocks").unwrap_or_default()
}

#[test]
fn what_is_kept() {
    let searched = json!({"type": "web_search_call", "id": "ws_1"});
    let named =
        json!({"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": null, "content": []});
    let open =
        json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]});
    let compacted = json!({"type": "compaction", "encrypted_content": "gBBB"});
    for (items, wanted) in [
        (vec![], json!(null)),
        (vec![said_item("Hi.", None), call_item()], json!(null)),
        (
            vec![sealed("a"), said_item("Höh", None), sealed("b"), sealed("c"), call_item()],
            json!([{"item": sealed("a")}, {"text": 3}, {"item": sealed("b")}, {"item": sealed("c")}, {"call": true}]),
        ),
        (vec![said_item("Hi.", Some("commentary"))], json!([{"text": 3, "phase": "commentary"}])),
        (vec![open.clone(), call_item()], json!([{"item": open}, {"call": true}])),
        (vec![compacted.clone(), said_item("x", None)], json!([{"item": compacted}, {"text": 1}])),
        // Nothing follows, or not what it led to.
        (vec![said_item("Hi.", None), sealed("a")], json!(null)),
        (vec![sealed("a"), said_item(" \n", None), call_item()], json!(null)),
        (vec![sealed("a"), searched, said_item("Hi.", None)], json!(null)),
        // Only a name for what the vendor doesn't keep.
        (vec![named, call_item()], json!(null)),
        // No model says such a thing.
        (vec![json!({"type": "shell_call_output", "encrypted_content": "gA"}), call_item()], json!(null)),
        (vec![json!({"encrypted_content": "gA"}), call_item()], json!(null)),
    ] {
        assert_eq!(kept_of(&items), wanted, "{items:?}");
    }
    let masked = kept_of(&[sealed("a"), said_item("sk-secret-1", None)]);
    assert_eq!(masked[1]["text"], 3, "as long as in the history");
}

fn message(content: &str, calls: u128) -> Message {
    let call = |n| MessageCall { id: CallId(Uuid::from_u128(n)), name: "pay".into(), arguments: "{}".into() };
    let said = Message::text(MessageId(Uuid::nil()), 1, Role::Assistant, content);
    Message { tool_calls: (1..=calls).map(call).collect(), ..said }
}

/// Items as words: texts, `call` and the ids of others.
fn shown(message: &Message, blocks: &Value) -> Vec<String> {
    let word = |item: &Value| match item["type"].as_str() {
        Some("message") => format!("{}{}", item["phase"].as_str().unwrap_or_default(), item["content"]),
        Some("function_call") => "call".into(),
        _ => item["id"].to_string(),
    };
    laid_out(message, blocks.as_array().expect("blocks")).iter().map(word).collect()
}

#[test]
fn what_is_kept_goes_back_in_its_place() {
    let (a, b) = (json!({"item": sealed("a")}), json!({"item": sealed("b")}));
    let (text, call) = (json!({"text": 3}), json!({"call": true}));
    let comment = json!({"text": 3, "phase": "commentary"});
    for (message, blocks, wanted) in [
        (message("", 0), json!([]), vec![]),
        (message("Höh", 2), json!([]), vec!["\"Höh\"", "call", "call"]),
        (message("Höh", 1), json!([a, text, b, call]), vec!["\"a\"", "\"Höh\"", "\"b\"", "call"]),
        (
            message("HöhHi.", 1),
            json!([comment, a, call, text]),
            vec!["commentary\"Höh\"", "\"a\"", "call", "\"Hi.\""],
        ),
        (message("Höh", 0), json!([comment]), vec!["commentary\"Höh\""]),
        // The text is not what it was.
        (message("HöhHi", 0), json!([comment, a, text]), vec!["\"HöhHi\""]),
        (message("   Hi.", 0), json!([a, comment, b, text]), vec!["\"b\"", "\"Hi.\""]),
        // The call was left out of the history.
        (message("Höh", 1), json!([text, a, call, b, call]), vec!["\"Höh\"", "\"a\"", "call"]),
        (message("", 0), json!([a, call]), vec![]),
        (message("", 2), json!([a, call]), vec!["\"a\"", "call", "call"]),
        (message("Höh", 1), json!([a, {"text": u64::MAX}, 7, {"text": 9}]), vec!["\"a\"", "\"Höh\"", "call"]),
    ] {
        assert_eq!(shown(&message, &blocks), wanted, "{message:?} {blocks}");
    }
}
