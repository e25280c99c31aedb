//! Replies as servers really send them, in pieces of every size, and histories as the core gives them.

mod histories;
mod items;
mod replies;

use super::pieces::Pieces;
use crate::assembly::{Broken, Told};
use crate::reader::Reader;
use crate::words::Words;
use answerable_core::model::{Finish, ModelReply};
use answerable_ports::DeltaSink;
use answerable_tools::Mask;
use serde_json::{Value, json};
use std::sync::Mutex;

#[derive(Default)]
struct Heard(Mutex<String>);

impl DeltaSink for Heard {
    fn text(&self, text: &str) {
        self.0.lock().expect("unpoisoned").push_str(text);
    }
}

/// What comes of these pieces, and what was passed on meanwhile.
fn read(pieces: &[&[u8]]) -> (Result<ModelReply, Broken>, String) {
    let heard = Heard::default();
    let mut reader = Reader::new(Pieces::new(Words::new(Mask::new(["sk-secret-1"]), &heard)));
    let mut fed = pieces.iter().map(|piece| reader.feed(piece));
    let told = fed.find(|told| !matches!(told, Ok(Told::Nothing | Told::Piece))).unwrap_or(Ok(Told::Piece));
    let read = told.and_then(|_| reader.end()).and_then(|()| reader.finish());
    (read, heard.0.into_inner().expect("unpoisoned"))
}

/// Reads a text whole, in two pieces parted at every byte, and byte by byte; all must come to the same.
fn read_in_every_way(text: &str) -> Result<ModelReply, Broken> {
    let bytes = text.as_bytes();
    let whole = read(&[bytes]);
    for at in 0..=bytes.len() {
        assert_eq!(read(&[&bytes[..at], &bytes[at..]]), whole, "parted at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(&single), whole, "byte by byte");
    whole.0
}

/// Events that are named by their types.
fn stream(events: &[Value]) -> String {
    let one =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(one).collect()
}

fn reply(events: &[Value]) -> Result<ModelReply, Broken> {
    read(&[stream(events).as_bytes()]).0
}

fn calls(reply: &ModelReply) -> Vec<(&str, &str)> {
    reply.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect()
}

fn is_cut(came: &Result<ModelReply, Broken>) -> bool {
    matches!(came, Err(Broken::Cut(_)))
}

fn text_item(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn call_item(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": format!("call_{id}"), "name": name, "arguments": arguments})
}

fn sealed(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAA"})
}

fn added(place: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": place, "item": item})
}

fn done(place: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": place, "item": item})
}

fn text_delta(place: u64, delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": place, "item_id": "msg_1", "content_index": 0, "delta": delta})
}

fn arguments_delta(place: u64, id: &str, delta: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": place, "item_id": id, "delta": delta})
}

fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "error": null,
        "output": output, "usage": {"input_tokens": 12, "output_tokens": 7}}})
}
