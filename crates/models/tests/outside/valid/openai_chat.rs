//! What the chat-completions wire accepts: the strictest of what OpenAI and the servers that follow it say.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Fields of a request that OpenAI documents, and those that agents' `params` may add for other servers.
const KNOWN: [&str; 26] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "stream",
    "stream_options",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "top_p",
    "seed",
    "stop",
    "user",
    "metadata",
    "service_tier",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "prompt_cache_key",
    "reasoning_effort",
    "verbosity",
    "thinking",
    "reasoning",
    "extra_body",
];

/// Panics with what is wrong with a request.
pub(crate) fn check(body: &Value) {
    let body = body.as_object().expect("a body is an object");
    for name in body.keys() {
        assert!(KNOWN.contains(&name.as_str()), "{name} is no field of this wire");
    }
    assert!(is_said(&body["model"]), "a model is named");
    assert!(body.get("stream").is_none_or(|stream| *stream == true), "a stream is asked for or not");
    assert!(body.contains_key("stream") || !body.contains_key("stream_options"), "options of no stream");
    let caps = ["max_tokens", "max_completion_tokens"].map(|name| body.get(name));
    assert!(caps.iter().flatten().count() < 2, "two caps");
    assert!(caps.into_iter().flatten().all(|cap| cap.as_u64() > Some(0)), "a cap leaves something to say");
    if let Some(temperature) = body.get("temperature") {
        assert!(temperature.as_f64().is_some_and(|t| (0.0..=2.0).contains(&t)), "temperature {temperature}");
    }
    let messages = body["messages"].as_array().expect("messages are a list");
    check_history(messages);
    check_tools(body);
    check_format(body, messages);
}

/// Panics where a template refuses a request that wants turns: the user begins, users and assistants speak one after the
/// other, an assistant speaks after results, and the last word isn't an assistant's.
pub(crate) fn check_strict(body: &Value) {
    let messages = body["messages"].as_array().expect("messages are a list");
    let mut before = "nobody";
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().expect("a role");
        let may_follow: &[&str] = match role {
            "system" | "developer" => continue,
            "user" => &["nobody", "assistant"],
            "assistant" => &["user", "tool"],
            _ => &["assistant with calls", "tool"],
        };
        assert!(may_follow.contains(&before), "message {at} ({role}) follows {before}");
        before = if message.get("tool_calls").is_some() { "assistant with calls" } else { role };
    }
    assert!(matches!(before, "user" | "tool"), "{before} has the last word");
}

fn is_said(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn is_name(value: &Value) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    value.as_str().is_some_and(|name| (1..=64).contains(&name.len()) && name.chars().all(is_legal))
}

/// System text stands first alone; calls are answered at once, each once and in order.
fn check_history(messages: &[Value]) {
    let (mut open, mut used) = (Vec::new(), BTreeSet::new());
    let mut has_turns = false;
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_else(|| panic!("message {at} has no role"));
        if role != "tool" {
            assert!(open.is_empty(), "message {at} ({role}) comes before the results of {open:?}");
        }
        match role {
            "system" | "developer" => {
                assert_eq!(at, 0, "system text in the middle");
                only(at, message, &["role", "content"]);
                assert!(is_said(&message["content"]), "message {at} says nothing");
            }
            "user" => check_users(at, message),
            "assistant" => open = check_assistants(at, message, &mut used),
            "tool" => {
                only(at, message, &["role", "tool_call_id", "content"]);
                assert!(is_said(&message["content"]), "message {at} says nothing");
                assert!(!open.is_empty(), "message {at} answers nothing");
                assert_eq!(message["tool_call_id"], open.remove(0), "message {at} is out of order");
            }
            other => panic!("message {at} has the role {other}"),
        }
        has_turns |= matches!(role, "user" | "assistant");
    }
    assert!(has_turns, "nobody says anything");
    assert!(open.is_empty(), "calls are left without results: {open:?}");
}

fn only(at: usize, message: &Value, names: &[&str]) {
    for name in message.as_object().into_iter().flat_map(Map::keys) {
        assert!(names.contains(&name.as_str()), "message {at} has {name}");
    }
}

fn check_users(at: usize, message: &Value) {
    only(at, message, &["role", "content"]);
    let Some(parts) = message["content"].as_array() else {
        assert!(is_said(&message["content"]), "message {at} says nothing");
        return;
    };
    assert!(!parts.is_empty(), "message {at} is empty");
    for part in parts {
        match part["type"].as_str() {
            Some("text") => assert!(is_said(&part["text"]), "message {at} has a blank part"),
            Some("image_url") => {
                let url = part["image_url"]["url"].as_str().unwrap_or_default();
                let is_held = ["png", "jpeg", "webp", "gif"]
                    .iter()
                    .any(|kind| url.starts_with(&format!("data:image/{kind};base64,")));
                assert!(is_held || url.starts_with("https://"), "message {at}: picture {url}");
            }
            Some("file") => {
                let file = &part["file"];
                assert!(is_said(&file["filename"]), "message {at}: a file without a name");
                let data = file["file_data"].as_str().unwrap_or_default();
                assert!(data.starts_with("data:application/pdf;base64,"), "message {at}: file {data}");
            }
            kind => panic!("message {at} has a part of type {kind:?}"),
        }
    }
}

/// Gives the calls that the next messages answer. What vendors add may stand beside what is known.
fn check_assistants(at: usize, message: &Value, used: &mut BTreeSet<String>) -> Vec<String> {
    let has_calls = message.get("tool_calls").is_some();
    match &message["content"] {
        Value::Null => assert!(has_calls, "message {at} says nothing"),
        Value::Array(parts) => {
            assert!(has_calls || parts.iter().any(|part| part["type"] == "text"), "message {at} only thinks");
            assert!(
                parts.iter().all(|part| part["type"] == "thinking" || is_said(&part["text"])),
                "message {at}"
            );
        }
        content => assert!(is_said(content), "message {at} says nothing: {content}"),
    }
    for foreign in ["function_call", "refusal", "name", "tool_call_id"] {
        assert!(message.get(foreign).is_none(), "message {at} has {foreign}");
    }
    let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(has_calls, !calls.is_empty(), "message {at} has an empty list of calls");
    assert!(calls.len() <= 128, "message {at} has {} calls", calls.len());
    let checked = calls.iter().map(|call| {
        let id = call["id"].as_str().unwrap_or_default().to_owned();
        assert!((1..=40).contains(&id.len()), "message {at}: id {id:?}");
        assert!(used.insert(id.clone()), "message {at}: {id} is there twice");
        assert_eq!(call["type"], "function", "message {at}");
        let function = &call["function"];
        assert!(is_name(&function["name"]), "message {at}: name {}", function["name"]);
        let arguments = function["arguments"].as_str().expect("arguments are text");
        let parsed: Result<Map<String, Value>, _> = serde_json::from_str(arguments);
        assert!(parsed.is_ok(), "message {at}: arguments are no object: {arguments}");
        id
    });
    checked.collect()
}

fn check_tools(body: &Map<String, Value>) {
    let Some(tools) = body.get("tools") else {
        for name in ["tool_choice", "parallel_tool_calls"] {
            assert!(!body.contains_key(name), "{name} without tools");
        }
        return;
    };
    let tools = tools.as_array().expect("tools are a list");
    assert!((1..=128).contains(&tools.len()), "{} tools", tools.len());
    let mut names = BTreeSet::new();
    for tool in tools {
        assert_eq!(tool["type"], "function");
        let function = &tool["function"];
        only(0, function, &["name", "description", "parameters", "strict"]);
        let name = &function["name"];
        assert!(is_name(name) && names.insert(name.to_string()), "tool {name}");
        assert!(function.get("description").is_none_or(is_said), "{name}: a blank description");
        let parameters = function["parameters"].as_object().expect("parameters are an object");
        assert_eq!(parameters["type"], "object", "{name}");
        assert!(parameters.get("properties").is_some_and(Value::is_object), "{name}: properties are told");
        for refused in ["oneOf", "anyOf", "allOf", "enum", "not"] {
            assert!(!parameters.contains_key(refused), "{name}: {refused} at the top");
        }
        match function.get("strict") {
            Some(Value::Bool(true)) => check_closed(&function["parameters"]),
            strict => assert!(strict.is_none_or(|strict| *strict == false), "{name}"),
        }
    }
    match body.get("tool_choice") {
        Some(Value::String(choice)) => {
            assert!(["none", "auto", "required", "any"].contains(&choice.as_str()))
        }
        Some(choice) => assert!(names.contains(&choice["function"]["name"].to_string()), "{choice}"),
        None => {}
    }
}

fn check_format(body: &Map<String, Value>, messages: &[Value]) {
    let Some(format) = body.get("response_format") else { return };
    match format["type"].as_str() {
        Some("json_schema") => {
            let told = &format["json_schema"];
            assert!(is_name(&told["name"]), "{told}");
            assert_eq!(told["schema"]["type"], "object");
            if told["strict"] == true {
                check_closed(&told["schema"]);
            }
        }
        Some("json_object") => {
            let said: String =
                messages.iter().map(|message| message["content"].to_string().to_lowercase()).collect();
            assert!(said.contains("json"), "nobody speaks of JSON");
        }
        kind => assert_eq!(kind, Some("text")),
    }
}

/// Strict mode: each object lists all of its properties as required and allows no others.
fn check_closed(schema: &Value) {
    if let Some(properties) = schema["properties"].as_object() {
        assert_eq!(schema["additionalProperties"], false, "{schema}");
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, property) in properties {
            assert!(required.contains(&name.as_str()), "{name} isn't required");
            check_closed(property);
        }
    }
    schema.get("items").into_iter().for_each(check_closed);
    schema["anyOf"].as_array().into_iter().flatten().for_each(check_closed);
}
