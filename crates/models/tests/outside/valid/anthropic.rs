//! What the messages wire accepts.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Panics with what is wrong with a request.
pub(crate) fn check(body: &Value) {
    let body = body.as_object().expect("a body is an object");
    assert!(is_said(&body["model"]), "a model is named");
    let cap = body["max_tokens"].as_u64().expect("a cap is always told");
    assert!(cap > 0, "a cap leaves something to say");
    assert!(body.get("stream").is_none_or(|stream| *stream == true), "a stream is asked for or not");
    for foreign in [
        "input",
        "instructions",
        "max_completion_tokens",
        "response_format",
        "functions",
        "parallel_tool_calls",
    ] {
        assert!(!body.contains_key(foreign), "{foreign} belongs to another wire");
    }
    if let Some(system) = body.get("system") {
        check_system(system);
    }
    let messages = body["messages"].as_array().expect("messages are a list");
    check_history(messages);
    check_tools(body, messages);
    check_thinking(body, messages, cap);
    check_format(body);
    check_marks(body);
}

fn is_said(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn blocks(message: &Value) -> &[Value] {
    message["content"].as_array().expect("content is a list of blocks")
}

fn kind(block: &Value) -> &str {
    block["type"].as_str().expect("a block has a type")
}

fn check_system(system: &Value) {
    let texts = system.as_array().expect("system text is a list");
    assert!(
        !texts.is_empty() && texts.iter().all(|text| kind(text) == "text" && is_said(&text["text"])),
        "{system}"
    );
}

/// The user begins and ends, both speak in turns, and calls are answered at once.
fn check_history(messages: &[Value]) {
    assert!(messages.len() % 2 == 1, "the user has the first word and the last");
    let (mut open, mut used) = (Vec::new(), BTreeSet::new());
    for (at, message) in messages.iter().enumerate() {
        let wanted = if at % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(message["role"], wanted, "message {at}");
        assert_eq!(message.as_object().map(Map::len), Some(2), "message {at} has a role and content alone");
        let blocks = blocks(message);
        assert!(!blocks.is_empty(), "message {at} says nothing");
        if wanted == "user" {
            check_users(at, blocks, &std::mem::take(&mut open));
        } else {
            open = check_assistants(at, blocks, &mut used);
        }
    }
    assert!(open.is_empty(), "calls are open at the end");
}

fn check_users(at: usize, blocks: &[Value], open: &[String]) {
    let results = blocks.iter().take_while(|block| kind(block) == "tool_result");
    let answered: Vec<&str> = results.map(|block| block["tool_use_id"].as_str().expect("an id")).collect();
    assert_eq!(
        answered, open,
        "message {at} answers the calls before it, each once and in order, first of all"
    );
    for block in blocks {
        match kind(block) {
            "tool_result" => assert!(is_said(&block["content"]), "message {at}: {block}"),
            "text" => assert!(is_said(&block["text"]), "message {at}: {block}"),
            "image" => {
                check_source(&block["source"], &["image/jpeg", "image/png", "image/gif", "image/webp"])
            }
            "document" => check_source(&block["source"], &["application/pdf", "text/plain"]),
            other => panic!("message {at}: a user says no {other}"),
        }
    }
    let late = blocks.iter().skip(answered.len()).any(|block| kind(block) == "tool_result");
    assert!(!late, "message {at} says something before its results");
}

fn check_source(source: &Value, media_types: &[&str]) {
    match kind(source) {
        "base64" => {
            assert!(media_types.iter().any(|media_type| source["media_type"] == **media_type), "{source}");
            assert!(
                source["data"].as_str().is_some_and(|data| data.len() <= 10 << 20 || media_types.len() == 2)
            );
        }
        "text" => assert!(source["media_type"] == "text/plain" && is_said(&source["data"]), "{source}"),
        "url" => assert!(source["url"].as_str().is_some_and(|url| url.starts_with("https://")), "{source}"),
        other => panic!("{other} is no source"),
    }
}

/// Gives the calls that the next message answers.
fn check_assistants(at: usize, blocks: &[Value], used: &mut BTreeSet<String>) -> Vec<String> {
    let mut open = Vec::new();
    for block in blocks {
        match kind(block) {
            "text" => assert!(is_said(&block["text"]), "message {at}: {block}"),
            "tool_use" => {
                let id = block["id"].as_str().expect("an id").to_owned();
                assert!(!id.is_empty() && is_name(&id, 128), "message {at}: {id}");
                assert!(used.insert(id.clone()), "message {at}: {id} is there twice");
                assert!(
                    block["name"].as_str().is_some_and(|name| is_name(name, 64)),
                    "message {at}: {block}"
                );
                assert!(block["input"].is_object(), "message {at}: {block}");
                open.push(id);
            }
            "tool_result" | "image" | "document" => {
                panic!("message {at}: an assistant says no {}", kind(block))
            }
            // Thinking, and what only the vendor understands.
            _ => assert!(block.get("cache_control").is_none(), "message {at}: changed: {block}"),
        }
    }
    let last = blocks.last().map(kind);
    assert!(!matches!(last, Some("thinking" | "redacted_thinking")), "message {at} ends with thinking");
    open
}

fn is_name(name: &str, most: usize) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= most && name.chars().all(is_legal)
}

fn check_tools(body: &Map<String, Value>, messages: &[Value]) {
    let tools: &[Value] = body.get("tools").map_or(&[], |tools| tools.as_array().expect("tools are a list"));
    assert!(!body.contains_key("tools") || !tools.is_empty(), "a list of no tools");
    let mut names = BTreeSet::new();
    for tool in tools {
        let name = tool["name"].as_str().expect("a tool has a name");
        assert!(is_name(name, 64) && names.insert(name), "{name}");
        assert!(tool.get("description").is_none_or(is_said), "{name}: an empty description");
        let schema = tool["input_schema"].as_object().expect("an object schema");
        assert_eq!(schema.get("type"), Some(&"object".into()), "{name}");
        for choice in ["anyOf", "oneOf", "allOf", "$ref"] {
            assert!(!schema.contains_key(choice), "{name}: {choice} at the top");
        }
    }
    let has_calls = messages.iter().flat_map(blocks).any(|block| kind(block) == "tool_use");
    assert!(!has_calls || !tools.is_empty(), "calls in the history, and no tools");
    if let Some(choice) = body.get("tool_choice") {
        assert!(!tools.is_empty(), "a choice among no tools");
        match kind(choice) {
            "none" => assert_eq!(choice.as_object().map(Map::len), Some(1), "{choice}"),
            "tool" => assert!(choice["name"].as_str().is_some_and(|name| names.contains(name)), "{choice}"),
            other => assert!(matches!(other, "auto" | "any"), "{choice}"),
        }
    }
}

/// With a budget of thinking, an open row of calls begins with thinking; without thinking, nothing of it is in that row.
fn check_thinking(body: &Map<String, Value>, messages: &[Value], cap: u64) {
    let thinks = |block: &Value| matches!(kind(block), "thinking" | "redacted_thinking");
    let row = open_row(messages);
    match body.get("thinking").map(kind) {
        Some("enabled") => {
            let budget = body["thinking"]["budget_tokens"].as_u64().expect("a budget");
            assert!((1024..cap).contains(&budget), "a budget of {budget} under a cap of {cap}");
            let first = row.iter().find(|message| message["role"] == "assistant");
            assert!(
                first.is_none_or(|first| thinks(&blocks(first)[0])),
                "the open row of calls begins without thinking"
            );
        }
        Some("disabled") => {
            assert!(!row.iter().flat_map(blocks).any(thinks), "thinking in the open row, and none allowed");
            return;
        }
        Some("adaptive") => {}
        None => return,
        Some(other) => panic!("{other} is no way to think"),
    }
    assert!(!body.contains_key("temperature"), "a temperature for a model that thinks");
}

/// The messages of the calls that the last message answers, and of those before them that no words of the user's part.
fn open_row(messages: &[Value]) -> &[Value] {
    let has_results = |message: &Value| blocks(message).iter().any(|block| kind(block) == "tool_result");
    let has_words = |message: &Value| blocks(message).iter().any(|block| kind(block) != "tool_result");
    if !messages.last().is_some_and(has_results) {
        return &[];
    }
    let before = &messages[..messages.len() - 1];
    let begins = before.iter().rposition(|message| message["role"] == "user" && has_words(message));
    &before[begins.map_or(0, |at| at + 1)..]
}

fn check_format(body: &Map<String, Value>) {
    if let Some(temperature) = body.get("temperature") {
        assert!(temperature.as_f64().is_some_and(|t| (0.0..=1.0).contains(&t)), "temperature {temperature}");
    }
    if let Some(format) = body.get("output_config").and_then(|config| config.get("format")) {
        assert_eq!(kind(format), "json_schema");
        check_closed(&format["schema"]);
    }
}

/// Objects of an answer's schema allow what they name and nothing else.
fn check_closed(schema: &Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("type") == Some(&"object".into()) {
                assert_eq!(
                    fields.get("additionalProperties"),
                    Some(&false.into()),
                    "an open object: {schema}"
                );
            }
            let refused = ["minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "oneOf"];
            let is_schema = fields.contains_key("type") || fields.contains_key("enum");
            assert!(!is_schema || !refused.iter().any(|name| fields.contains_key(*name)), "{schema}");
            fields.values().for_each(check_closed);
        }
        Value::Array(list) => list.iter().for_each(check_closed),
        _ => {}
    }
}

/// At most four marks, each of a known kind, long ones before short ones.
fn check_marks(body: &Map<String, Value>) {
    let listed = |name: &str| body.get(name).and_then(Value::as_array).into_iter().flatten();
    let said = listed("messages").flat_map(blocks);
    let marks =
        listed("tools").chain(listed("system")).chain(said).filter_map(|block| block.get("cache_control"));
    let marks: Vec<&Value> = marks.chain(body.get("cache_control")).collect();
    assert!(marks.len() <= 4, "{} marks", marks.len());
    let lasts: Vec<&str> = marks.iter().map(|mark| mark["ttl"].as_str().unwrap_or("5m")).collect();
    assert!(marks.iter().all(|mark| kind(mark) == "ephemeral"));
    assert!(lasts.windows(2).all(|two| *two != ["5m", "1h"]), "{lasts:?}");
}
