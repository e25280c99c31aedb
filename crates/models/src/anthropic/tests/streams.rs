//! Every recorded stream cut at every byte, and streams that no server should send: a failure or a reply, the same however
//! the bytes are parted, and never a panic.

use std::path::Path;

use answerable_core::model::ModelReply;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::replies::read;
use crate::assembly::Broken;

/// The recorded streams of this wire, by name.
fn recorded() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exchanges/anthropic");
    let files = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let streams = files.filter_map(|file| {
        let text = std::fs::read_to_string(&file).expect("a file");
        let all: Value = serde_json::from_str(&text).expect("JSON");
        let lines = all["stream"].as_array()?;
        let lines = lines.iter().map(|line| format!("{}\n", line.as_str().expect("a line")));
        Some((file.display().to_string(), lines.collect()))
    });
    streams.collect()
}

#[test]
fn a_stream_that_is_cut_anywhere_is_a_failure_or_whole() {
    let streams = recorded();
    assert!(streams.len() >= 12);
    for (name, text) in streams {
        let bytes = text.as_bytes();
        let whole = read(&[bytes]);
        let cuts: Vec<_> = (0..bytes.len()).map(|at| read(&[&bytes[..at]])).collect();
        assert!(cuts.iter().all(|cut| cut.is_err() || *cut == whole), "{name}");
    }
}

#[test]
fn a_recorded_stream_is_the_same_however_it_is_parted() {
    for (name, text) in recorded() {
        let whole = read(&[text.as_bytes()]);
        for size in [1, 2, 3, 7, 64, 1000] {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(read(&pieces), whole, "{name} in pieces of {size}");
        }
    }
}

/// Some event, well formed or not.
fn event() -> impl Strategy<Value = Value> {
    let index = prop_oneof![(0..3_u64).prop_map(|n| json!(n)), Just(json!(null)), Just(json!("0"))];
    let text = prop::sample::select(vec!["", "{", "}", "{\"n\":1}", "é", "\u{0}", "sk-secret-1", " "]);
    let kind = prop::sample::select(vec!["text", "tool_use", "thinking", "redacted_thinking", "odd"]);
    let piece = prop::sample::select(vec![
        "text_delta",
        "input_json_delta",
        "thinking_delta",
        "signature_delta",
        "odd_delta",
    ]);
    let start = (index.clone(), kind, text.clone()).prop_map(|(index, kind, text)| {
        let block = json!({"type": kind, "text": text, "id": "a", "name": "pay", "input": {}, "thinking": text, "signature": ""});
        json!({"type": "content_block_start", "index": index, "content_block": block})
    });
    let delta = (index, piece, text).prop_map(|(index, kind, text)| {
        let delta =
            json!({"type": kind, "text": text, "partial_json": text, "thinking": text, "signature": text});
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    });
    let other = prop::sample::select(vec![
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "message_start"}),
        json!({"type": "content_block_start", "index": 1, "content_block": 7}),
        json!({"type": "content_block_delta", "index": 1, "delta": null}),
        json!({"type": "content_block_stop", "index": 9}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_delta", "delta": 7, "usage": []}),
        json!({"type": "ping"}),
        json!({}),
    ]);
    prop_oneof![3 => start, 6 => delta, 2 => other]
}

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>()
        + "data: {\"type\": \"message_stop\"}\n\n"
}

fn is_sound(reply: &Result<ModelReply, Broken>) -> bool {
    let Ok(reply) = reply else { return true };
    let shown = serde_json::to_string(reply).expect("JSON");
    let blocks = reply.extra.get("blocks").and_then(Value::as_array);
    let bytes = blocks.map(|blocks| blocks.iter().filter_map(|block| block["bytes"].as_u64()).sum::<u64>());
    !shown.contains("sk-secret-1") && bytes.is_none_or(|bytes| bytes == reply.text.len() as u64)
}

proptest! {
    #[test]
    fn no_stream_does_harm(events in prop::collection::vec(event(), 0..14), size in 1..40_usize) {
        let text = stream(&events);
        let whole = read(&[text.as_bytes()]);
        prop_assert!(is_sound(&whole), "{:?}", whole);
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        prop_assert_eq!(read(&pieces), whole);
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), begins in prop::sample::select(vec!["", "data: ", "{\"content\":", "event: error\ndata:"])) {
        let all = [begins.as_bytes(), &bytes].concat();
        prop_assert!(is_sound(&read(&[&all])));
    }
}
