//! Replies as servers really send them, in pieces of every size.

use answerable_core::model::{Finish, ModelReply};
use answerable_ports::DeltaSink;
use answerable_tools::Mask;
use serde_json::{Value, json};

use super::super::pieces::Pieces;
use crate::assembly::{Broken, Told};
use crate::reader::Reader;
use crate::words::Words;

struct Deaf;

impl DeltaSink for Deaf {
    fn text(&self, _: &str) {}
}

fn reader() -> Reader<Pieces<'static>> {
    Reader::new(Pieces::new(Words::new(Mask::new(["sk-secret-1"]), &Deaf)))
}

pub(super) fn read(pieces: &[&[u8]]) -> Result<ModelReply, Broken> {
    let mut reader = reader();
    for piece in pieces {
        if reader.feed(piece)? == Told::End {
            break;
        }
    }
    reader.end()?;
    reader.finish()
}

/// Reads a text whole, in two pieces parted at every byte, and byte by byte; all must come to the same.
pub(super) fn read_in_every_way(text: &str) -> Result<ModelReply, Broken> {
    let bytes = text.as_bytes();
    let whole = read(&[bytes]);
    for at in 0..=bytes.len() {
        assert_eq!(read(&[&bytes[..at], &bytes[at..]]), whole, "parted at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(&single), whole, "byte by byte");
    whole
}

pub(super) fn stream(events: &[Value]) -> String {
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(event).collect()
}

pub(super) fn begin() -> Value {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    json!({"type": "message_start", "message": {"type": "message", "role": "assistant", "content": [], "usage": usage}})
}

pub(super) fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

pub(super) fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

pub(super) fn text(index: u64, text: &str) -> Value {
    delta(index, json!({"type": "text_delta", "text": text}))
}

pub(super) fn input(index: u64, partial: &str) -> Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": partial}))
}

pub(super) fn tool(id: &str, name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

pub(super) fn end(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ]
}

#[test]
fn line_ends_comments_and_split_characters() {
    let text = "\u{feff}: keep-alive\r\n\r\nevent:message_start\r\ndata:{\"type\": \"message_start\",\r\ndata:\"message\": {}}\r\n\r\n\
                event: ping\ndata: {\"type\": \"ping\"}\n\n\
                data: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"text_delta\", \"text\": \"Fuchs: 🦊 — 終わり\"}}\n\n\
                event: message_delta\ndata: {\"delta\": {\"stop_reason\": \"end_turn\"}}\n\ndata: {\"type\": \"message_stop\"}";
    let reply = read_in_every_way(text).expect("a reply");
    assert_eq!((reply.text.as_str(), reply.finish, reply.usage), ("Fuchs: 🦊 — 終わり", Finish::Stop, None));
}

#[test]
fn what_is_whole_and_what_is_cut() {
    let half = vec![begin(), start(0, json!({"type": "text", "text": ""})), text(0, "Half an ans")];
    let cut = |events: &[Value]| matches!(read(&[stream(events).as_bytes()]), Err(Broken::Cut(_)));
    assert!(cut(&half), "neither a reason nor an end");
    let stopped = [half.clone(), vec![json!({"type": "message_stop"})]].concat();
    let reply = read(&[stream(&stopped).as_bytes()]).expect("an end without a reason");
    assert_eq!((reply.finish, reply.finish_reason), (Finish::Other, None));
    assert_eq!(
        reply.usage.map(|usage| (usage.input_tokens, usage.output_tokens)),
        Some((10, 0)),
        "1 was no last word"
    );
    let told = [half.clone(), end("end_turn")[..1].to_vec()].concat();
    assert!(read(&[stream(&told).as_bytes()]).is_ok(), "a reason without an end");
    for reason in ["pause_turn", "error"] {
        assert!(cut(&[half.clone(), end(reason)].concat()), "{reason}");
    }
    let after =
        [told, vec![json!({"type": "message_stop"}), json!({"type": "error"}), text(0, "more")]].concat();
    assert_eq!(read(&[stream(&after).as_bytes()]).expect("a reply").text, "Half an ans", "after the end");
    let garbage = stream(&half) + "data: {\"type\": \"content_bl\n\n" + &stream(&end("end_turn"));
    assert!(matches!(read_in_every_way(&garbage), Err(Broken::Cut(_))));
    let many: Vec<Value> = (0..5000).map(|n| start(n, tool("a", "pay", json!({})))).collect();
    assert!(cut(&many), "too many");
    for text in
        ["", " \n", "<html>no</html>", "{\"ok\": true}", "{\"content\": 7}", "[]", "{\"content\": [{\"ty"]
    {
        assert!(matches!(read(&[text.as_bytes()]), Err(Broken::Cut(_))), "{text}");
    }
}

#[test]
fn a_line_that_is_lost() {
    let mut reader = reader();
    assert_eq!(reader.feed(stream(&[begin(), text(0, "All.")]).as_bytes()), Ok(Told::Piece));
    assert!(reader.line_is_lost().is_err());
    assert_eq!(reader.tokens().0.map(|usage| usage.output_tokens), Some(1), "as far as is known");
    assert!(reader.tokens().1 > 0);
    assert_eq!(reader.feed(b"event: ping\ndata: {\"type\": \"ping\"}\n\n"), Ok(Told::Nothing));
    assert_eq!(reader.feed(stream(&end("end_turn")[..1]).as_bytes()), Ok(Told::Piece));
    assert!(reader.line_is_lost().is_ok());
}

#[test]
fn errors_in_place_of_a_reply() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let within = stream(&[begin(), text(0, "Half"), error.clone()]) + &stream(&end("end_turn"));
    assert_eq!(read_in_every_way(&within), Err(Broken::Error(error.clone())));
    assert_eq!(read(&[error.to_string().as_bytes()]), Err(Broken::Error(error)));
    let bare = json!({"error": {"message": "no"}});
    assert_eq!(read(&[format!("data: {bare}\n\n").as_bytes()]), Err(Broken::Error(bare)));
}

#[test]
fn how_it_finished() {
    for (reason, wanted) in [
        ("end_turn", Finish::Stop),
        ("tool_use", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("refusal", Finish::Refusal),
        ("from_the_future", Finish::Other),
    ] {
        let reply = read(&[stream(&[vec![begin()], end(reason)].concat()).as_bytes()]).expect("a reply");
        assert_eq!((reply.finish, reply.finish_reason.as_deref()), (wanted, Some(reason)));
        let whole = json!({"type": "message", "content": [], "stop_reason": reason});
        assert_eq!(read(&[whole.to_string().as_bytes()]).expect("a reply").finish, wanted);
    }
}

#[test]
fn a_whole_answer() {
    let content = json!([{"type": "text", "text": "Paying "}, {"type": "text", "text": "both.", "citations": null},
        tool("dup", "pay", json!({"n": 12345678901234567890_u128})), tool("dup", "pay", json!(null)), 7]);
    let answer = json!({"type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 9, "cache_creation_input_tokens": 2}});
    let reply = read_in_every_way(&format!(" \n{answer}")).expect("a reply");
    assert_eq!(reply.text, "Paying both.");
    let arguments: Vec<&str> = reply.calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(arguments, [r#"{"n":12345678901234567890}"#, ""]);
    let usage = reply.usage.expect("usage");
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.cache_write_tokens),
        (14, 4, 9, 2)
    );
    assert!(reply.extra.is_empty());
    let plain = read(&[br#"{"content": "As text.", "stop_reason": null}"#]).expect("a reply");
    assert_eq!((plain.text.as_str(), plain.finish), ("As text.", Finish::Other));
    let empty =
        read(&[br#"{"type": "message", "content": null, "stop_reason": "end_turn"}"#]).expect("a reply");
    assert_eq!((empty.text.as_str(), empty.calls.len()), ("", 0));
}

#[test]
fn odd_text_is_mended_and_secrets_are_masked() {
    let text = "data: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"text_delta\", \"text\": \"half \\ud83d of\\u0000 sk-sec\"}}\n\n\
                data: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"text_delta\", \"text\": \"ret-1\"}}\n\n\
                data: {\"type\": \"content_block_start\", \"index\": 1, \"content_block\": {\"type\": \"tool_use\", \"name\": \"pay\", \"input\": {\"key\": \"sk-secret-1\"}}}\n\n\
                data: {\"type\": \"message_stop\"}\n\n";
    let reply = read_in_every_way(text).expect("a reply");
    assert_eq!(reply.text, "half \u{fffd} of\u{fffd} ***");
    assert_eq!(reply.calls[0].arguments, r#"{"key":"***"}"#);
}
