//! Replies as servers really send them, in pieces of every size.

mod recorded;
mod told_twice;

use answerable_core::model::{Finish, ModelReply, ReplyCall};
use answerable_ports::DeltaSink;
use answerable_tools::Mask;
use serde_json::{Value, json};

use super::pieces::Pieces;
use crate::assembly::{Broken, Told};
use crate::reader::Reader;
use crate::words::Words;

struct Deaf;

impl DeltaSink for Deaf {
    fn text(&self, _: &str) {}
}

fn reader(mask: Mask) -> Reader<Pieces<'static>> {
    Reader::new(Pieces::new(Words::new(mask, &Deaf)))
}

fn read(pieces: &[&[u8]]) -> Result<ModelReply, Broken> {
    let mut reader = reader(Mask::new(["sk-secret-1"]));
    for piece in pieces {
        if reader.feed(piece)? == Told::End {
            break;
        }
    }
    reader.end()?;
    reader.finish()
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
    whole
}

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn delta(delta: Value) -> Value {
    json!({"id": "c-1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn calls(reply: &ModelReply) -> Vec<(&str, &str)> {
    reply.calls.iter().map(|ReplyCall { name, arguments, .. }| (name.as_str(), arguments.as_str())).collect()
}

const DONE: &str = "data: [DONE]\n\n";

#[test]
fn usage_comes_with_and_without_choices() {
    let usage = json!({"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19});
    let text = stream(&[
        delta(json!({"role": "assistant", "content": "All of "})),
        json!({"choices": [], "usage": usage}),
        delta(json!({"content": "it."})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": null}),
        json!({"choices": null, "usage": usage}),
        json!({"usage": usage}),
    ]) + DONE;
    let reply = read_in_every_way(&text).expect("a reply");
    assert_eq!((reply.text.as_str(), reply.finish), ("All of it.", Finish::Stop));
    let usage = reply.usage.expect("usage");
    assert_eq!((usage.input_tokens, usage.output_tokens), (12, 7));
}

#[test]
fn line_ends_comments_and_split_characters() {
    let text = "\u{feff}: keep-alive\r\n\r\nevent:chunk\r\ndata:{\"choices\": [{\"delta\":\r\ndata: {\"content\": \"Fuchs: 🦊 — 終わり\", \
                \"tool_calls\": [{\"index\": 0, \"id\": \"a\", \"function\": {\"name\": \"look\", \"arguments\": \"{\\\"at\\\": \\\"Höhle\\\"}\"}}]}}]}\r\n\r\n\
                :\n\ndata: [DONE]";
    let reply = read_in_every_way(text).expect("a reply");
    assert_eq!(reply.text, "Fuchs: 🦊 — 終わり");
    assert_eq!(calls(&reply), [("look", r#"{"at": "Höhle"}"#)]);
    assert_eq!((reply.finish, reply.finish_reason), (Finish::Other, None));
}

#[test]
fn calls_in_pieces() {
    let text = stream(&[
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "pay"}},
            {"index": 0, "function": {"arguments": "{\""}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "to\": "}},
            {"index": 0, "function": {"arguments": "\"ann\"}"}}]})),
        delta(json!({"function_call": null, "tool_calls": null, "content": null})),
        end("tool_calls"),
    ]) + DONE;
    let reply = read_in_every_way(&text).expect("a reply");
    assert_eq!(calls(&reply), [("pay", r#"{"to": "ann"}"#)]);
    let old = stream(&[
        delta(json!({"function_call": {"name": "pay", "arguments": ""}})),
        delta(json!({"function_call": {"arguments": "{}"}})),
        end("function_call"),
    ]);
    assert_eq!(calls(&read(&[old.as_bytes()]).expect("a reply")), [("pay", "{}")]);
}

#[test]
fn what_is_whole_and_what_is_cut() {
    let said = stream(&[delta(json!({"content": "Half an ans"}))]);
    let finished = stream(&[delta(json!({"content": "All."})), end("stop")]);
    let cut = |text: &str| matches!(read(&[text.as_bytes()]), Err(Broken::Cut(_)));
    assert!(read(&[(said.clone() + DONE).as_bytes()]).is_ok(), "[DONE] without a reason");
    assert!(read(&[finished.as_bytes()]).is_ok(), "a reason without [DONE]");
    assert!(cut(&said), "neither");
    assert!(cut(&(stream(&[end("stop")]) + "data: {\"choices\": [{\n\n" + DONE)), "a line that is no JSON");
    assert!(cut(&("data: 7\n\n".to_owned() + DONE)), "a line that is no object");
    assert!(cut(&stream(&[delta(json!({"content": "x"})), end("error")])), "given up");
    for text in [
        "",
        " \n",
        "<html>Bad Gateway</html>",
        "{\"id\": \"c-1\", \"choices\": [{\"mess",
        "{\"ok\": true}",
        "[]",
    ] {
        assert!(cut(text), "{text}");
    }
    let mut reader = reader(Mask::default());
    assert_eq!(reader.feed(said.as_bytes()), Ok(Told::Piece));
    assert!(reader.line_is_lost().is_err());
    assert_eq!(reader.feed(stream(&[end("stop")]).as_bytes()), Ok(Told::Piece));
    assert!(reader.line_is_lost().is_ok());
}

#[test]
fn errors_in_place_of_a_reply() {
    let error = json!({"message": "The server is overloaded", "code": 503});
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 1});
    let within = json!({"error": error, "usage": usage, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]});
    let text = stream(&[delta(json!({"content": "Half"})), within]) + DONE;
    let of = |broken: Result<ModelReply, Broken>| match broken {
        Err(Broken::Error(object)) if object["error"].is_null() => object,
        Err(Broken::Error(object)) => object["error"].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(of(read_in_every_way(&text)), error);
    let named = format!("event: error\ndata: {error}\n\n");
    assert_eq!(of(read_in_every_way(&named)), error);
    assert_eq!(of(read_in_every_way(&json!({"error": error}).to_string())), error);
    let mut reader = reader(Mask::default());
    assert!(reader.feed(text.as_bytes()).is_err());
    assert_eq!(reader.tokens().0.map(|usage| usage.input_tokens), Some(9));
}

#[test]
fn a_whole_answer() {
    let call = |n: u32| json!({"id": "dup", "type": "function", "function": {"name": "pay", "arguments": format!("{{\"n\": {n}}}")}});
    let message = json!({"role": "assistant", "content": [{"type": "text", "text": "Paying "}, {"type": "text", "text": "both."}],
        "tool_calls": [call(1), call(2)], "reasoning_content": "it is due", "refusal": null, "x": null});
    let answer = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"},
        {"index": 1, "message": {"content": "another"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    let reply = read_in_every_way(&format!(" \n{answer}")).expect("a reply");
    assert_eq!(reply.text, "Paying both.");
    assert_eq!(calls(&reply), [("pay", r#"{"n": 1}"#), ("pay", r#"{"n": 2}"#)]);
    assert_eq!(Value::Object(reply.extra), json!({"reasoning_content": "it is due"}));
    let empty = read(&[br#"{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 0}}"#])
        .expect("a reply");
    assert_eq!((empty.text.as_str(), empty.calls.len(), empty.finish), ("", 0, Finish::Other));
}

#[test]
fn how_it_finished() {
    for (reason, wanted) in [
        ("stop", Finish::Stop),
        ("tool_calls", Finish::Stop),
        ("function_call", Finish::Stop),
        ("length", Finish::Length),
        ("max_tokens", Finish::Length),
        ("content_filter", Finish::Refusal),
        ("eos", Finish::Other),
    ] {
        let reply = read(&[stream(&[end(reason)]).as_bytes()]).expect("a reply");
        assert_eq!((reply.finish, reply.finish_reason.as_deref()), (wanted, Some(reason)));
    }
    let refusal =
        stream(&[delta(json!({"refusal": "I can "})), delta(json!({"refusal": "not."})), end("stop")]);
    assert_eq!(read(&[refusal.as_bytes()]).expect("a reply").finish, Finish::Refusal);
}

#[test]
fn odd_text_is_mended_and_secrets_are_masked() {
    let text = "data: {\"choices\": [{\"delta\": {\"content\": \"half \\ud83d of\\u0000 sk-sec\", \"odd\": \"\\udc00\"}}]}\n\n\
                data: {\"choices\": [{\"delta\": {\"content\": \"ret-1\", \"leak\": \"sk-secret-1\"}, \"finish_reason\": \"stop\"}]}\n\n";
    let reply = read_in_every_way(text).expect("a reply");
    assert_eq!(reply.text, "half \u{fffd} of\u{fffd} ***");
    assert!(reply.extra.is_empty(), "what can't go back just so is not kept");
}

#[test]
fn a_reply_has_a_limit() {
    let mut reader = reader(Mask::default());
    let piece = b": keep-alive\n\n".repeat(100_000);
    let fed = (0..100).map(|_| reader.feed(&piece)).find(Result::is_err);
    assert!(matches!(fed, Some(Err(Broken::Cut(_)))));
}

#[test]
fn a_filter_has_the_last_word() {
    let late = json!({"choices": [{"index": 0, "finish_reason": "content_filter", "content_filter_offsets": {"check_offset": 4}}]});
    for events in [[end("stop"), late.clone()], [late.clone(), end("stop")]] {
        let text =
            stream(&[delta(json!({"content": "Take a kni"})), events[0].clone(), events[1].clone()]) + DONE;
        let reply = read_in_every_way(&text).expect("a reply");
        assert_eq!((reply.finish, reply.finish_reason.as_deref()), (Finish::Refusal, Some("content_filter")));
    }
    let given_up = stream(&[late, end("error")]);
    assert!(matches!(read(&[given_up.as_bytes()]), Err(Broken::Cut(_))));
}

#[test]
fn what_says_nothing_keeps_no_line_open() {
    for (event, told) in [
        (json!({"type": "ping"}), Told::Nothing),
        (json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}), Told::Nothing),
        (json!({"choices": null, "x_groq": {"id": "req_1"}}), Told::Nothing),
        (json!({"choices": [], "usage": {"prompt_tokens": 1}}), Told::Piece),
        (delta(json!({"role": "assistant", "content": ""})), Told::Piece),
    ] {
        let text = stream(std::slice::from_ref(&event));
        assert_eq!(reader(Mask::default()).feed(text.as_bytes()), Ok(told), "{event}");
    }
}

#[test]
fn errors_in_other_places() {
    let half = || delta(json!({"content": "Half"}));
    for event in [
        json!({"object": "error", "message": "no", "code": 503}),
        json!({"type": "error", "message": "no"}),
        json!({"choices": [], "x_groq": {"id": "req_1", "error": "no"}}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "no"}}]}),
    ] {
        let text = stream(&[half(), event.clone(), end("stop")]) + DONE;
        let Err(Broken::Error(error)) = read_in_every_way(&text) else { panic!("{event}") };
        assert!(!error["error"].is_null(), "{error}");
        assert!(matches!(read(&[event.to_string().as_bytes()]), Err(Broken::Error(_))), "{event}");
    }
}
