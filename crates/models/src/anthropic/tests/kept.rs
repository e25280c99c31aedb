//! What only the vendor understands: kept just so and in its place, or not at all.

use serde_json::{Value, json};

use super::replies::{begin, delta, end, input, read, read_in_every_way, start, stream, text, tool};

fn thinking(index: u64, field: &str, value: &str) -> Value {
    delta(index, json!({"type": format!("{field}_delta"), field: value}))
}

/// What is kept of a stream, and of the same as a whole answer.
fn kept(events: Vec<Value>, whole: Value) -> Value {
    let all = [vec![begin()], events, end("end_turn")].concat();
    let streamed = read_in_every_way(&stream(&all)).expect("a reply");
    let answer = json!({"type": "message", "content": whole, "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5}});
    assert_eq!(read(&[answer.to_string().as_bytes()]).expect("a reply"), streamed, "whole or not");
    streamed.extra.get("blocks").cloned().unwrap_or_default()
}

#[test]
fn what_only_the_vendor_understands_is_kept_in_its_place() {
    let empty = json!({"type": "thinking", "thinking": "", "signature": ""});
    let thought =
        json!({"type": "thinking", "thinking": "Tür? — \"maybe\"\n 🚪 1.50", "signature": "EqQB+/=="});
    let sealed = json!({"type": "redacted_thinking", "data": "b3Bh+/=="});
    let own_call = r#"{"type": "server_tool_use", "id": "srv_1", "name": "search", "input": {"n": 1.50}}"#;
    let own_call: Value = serde_json::from_str(own_call).expect("JSON");
    let events = vec![
        start(0, empty.clone()),
        thinking(0, "thinking", "Tür? — \"may"),
        thinking(0, "thinking", "be\"\n 🚪 1.50"),
        thinking(0, "signature", "EqQB+/=="),
        start(1, json!({"type": "text", "text": ""})),
        text(1, "Höhle"),
        start(2, sealed.clone()),
        start(3, tool("a", "look", json!({}))),
        input(3, "{}"),
        start(4, json!({"type": "server_tool_use", "id": "srv_1", "name": "search", "input": {}})),
        input(4, "{\"n\""),
        input(4, ": 1.50}"),
        start(5, empty.clone()),
    ];
    let text = json!({"type": "text", "text": "Höhle"});
    let whole = json!([thought, text, sealed, tool("a", "look", json!({})), own_call, empty]);
    let places = json!([thought, {"type": "text", "bytes": 6}, sealed, {"type": "tool_use"}, own_call]);
    assert_eq!(kept(events, whole), places);
}

#[test]
fn what_can_not_go_back_just_so_is_not_kept() {
    let begun = || start(0, json!({"type": "thinking", "thinking": "", "signature": ""}));
    let signed = |thought: &str| json!([{"type": "thinking", "thinking": thought, "signature": "c2ln"}]);
    for thought in ["my key is sk-secret-1", "a NUL: \u{0}"] {
        let events = vec![begun(), thinking(0, "thinking", thought), thinking(0, "signature", "c2ln")];
        assert_eq!(kept(events, signed(thought)), json!(null), "{thought:?}");
    }
    for events in [
        vec![begun(), thinking(0, "signature", "one"), thinking(0, "signature", "another")],
        vec![begun(), thinking(0, "thinking", "hm"), delta(0, json!({"type": "shine_delta", "shine": 1}))],
        vec![start(0, json!({"type": "odd", "a": 1})), delta(0, json!({"type": "odd_delta", "a": 2}))],
        vec![start(0, json!({"type": "odd", "input": {}})), input(0, "{\"half")],
        vec![
            begun(),
            thinking(0, "thinking", "hm"),
            thinking(0, "signature", "c2ln"),
            text(1, "It is sk-secret-1."),
        ],
    ] {
        let all = [vec![begin()], events, end("end_turn")].concat();
        let reply = read(&[stream(&all).as_bytes()]).expect("a reply");
        assert!(reply.extra.is_empty(), "{all:?}");
        assert!(!reply.text.contains("sk-secret"));
    }
}

#[test]
fn what_is_no_block_of_an_assistant_is_not_kept() {
    for block in [
        json!({"a": 1}),
        json!({"type": 7, "a": 1}),
        json!({"type": "tool_result", "content": "x"}),
        json!({"type": "image", "source": {}}),
        json!({"type": "thinking", "thinking": 7, "signature": "c2ln"}),
        json!({"type": "redacted_thinking"}),
    ] {
        assert_eq!(kept(vec![start(0, block.clone())], json!([block])), json!(null), "{block}");
    }
}
