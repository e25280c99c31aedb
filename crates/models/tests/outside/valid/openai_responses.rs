//! What the responses wire accepts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Panics with what is wrong with a request.
pub(crate) fn check(body: &Value) {
    let body = body.as_object().expect("a body is an object");
    assert!(is_said(&body["model"]), "a model is named");
    assert_eq!(body["store"], false, "nothing is kept on the far side");
    for foreign in
        ["messages", "max_tokens", "max_completion_tokens", "response_format", "functions", "system"]
    {
        assert!(!body.contains_key(foreign), "{foreign} belongs to another wire");
    }
    for own in ["previous_response_id", "conversation", "background"] {
        assert!(!body.contains_key(own), "{own} needs what is kept on the far side");
    }
    if let Some(instructions) = body.get("instructions") {
        assert!(is_said(instructions), "instructions say something");
    }
    if let Some(cap) = body.get("max_output_tokens") {
        assert!(cap.as_u64().is_some_and(|cap| cap >= 16), "a cap is 16 at least: {cap}");
    }
    assert!(body.get("stream").is_none_or(|stream| *stream == true));
    assert!(body.contains_key("stream") || !body.contains_key("stream_options"), "options of no stream");
    let items = body["input"].as_array().expect("input is a list");
    assert!(!items.is_empty(), "input says something");
    Walk::default().through(items);
    check_tools(body);
    check_format(body, items);
}

fn is_said(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// What is known on the way through the items.
#[derive(Default)]
struct Walk {
    /// Calls so far; those that are open are false.
    answered: BTreeMap<String, bool>,
    /// Results came, and others are missing.
    in_results: bool,
    ids: BTreeSet<String>,
}

impl Walk {
    fn through(mut self, items: &[Value]) {
        for (at, item) in items.iter().enumerate() {
            if let Some(id) = item["id"].as_str() {
                assert!(self.ids.insert(id.to_owned()), "item {at}: {id} is there twice");
            }
            match item["type"].as_str().unwrap_or_else(|| panic!("item {at} has no type")) {
                "message" => self.message(at, item),
                "function_call" => self.call(at, item),
                "function_call_output" => self.result(at, item),
                kind => {
                    self.no_results_are_missing(at);
                    check_kept(at, kind, item, items.get(at + 1));
                }
            }
        }
        assert!(self.is_all_answered(), "calls are left without results: {:?}", self.answered);
    }

    fn is_all_answered(&self) -> bool {
        self.answered.values().all(|answered| *answered)
    }

    fn no_results_are_missing(&self, at: usize) {
        assert!(!self.in_results || self.is_all_answered(), "item {at} stands between results");
    }

    fn message(&mut self, at: usize, item: &Value) {
        only(at, item, &["type", "role", "content", "phase"]);
        let role = item["role"].as_str().unwrap_or_default();
        assert!(["user", "assistant", "system", "developer"].contains(&role), "item {at}: role {role}");
        assert!(
            role == "assistant" || item.get("phase").is_none(),
            "item {at}: only an assistant's has a phase"
        );
        if role == "assistant" {
            self.no_results_are_missing(at);
        } else {
            assert!(self.is_all_answered(), "item {at} ({role}) comes before results");
        }
        match &item["content"] {
            Value::Array(parts) if role == "user" => {
                assert!(!parts.is_empty(), "item {at} is empty");
                parts.iter().for_each(|part| check_part(at, part));
            }
            content => assert!(is_said(content), "item {at} says nothing: {content}"),
        }
        self.in_results = false;
    }

    fn call(&mut self, at: usize, item: &Value) {
        only(at, item, &["type", "call_id", "name", "arguments"]);
        self.no_results_are_missing(at);
        self.in_results = false;
        let id = item["call_id"].as_str().unwrap_or_default();
        assert!(!id.is_empty() && id.len() <= 64, "item {at}: call_id {id:?}");
        assert!(self.answered.insert(id.to_owned(), false).is_none(), "item {at}: {id} is used twice");
        assert!(is_name(&item["name"]), "item {at}: name {}", item["name"]);
        let arguments = item["arguments"].as_str().expect("arguments are text");
        let parsed: Result<Map<String, Value>, _> = serde_json::from_str(arguments);
        assert!(parsed.is_ok(), "item {at}: arguments are no object: {arguments}");
    }

    fn result(&mut self, at: usize, item: &Value) {
        only(at, item, &["type", "call_id", "output"]);
        let id = item["call_id"].as_str().unwrap_or_default();
        let answered = self.answered.get_mut(id).unwrap_or_else(|| panic!("item {at}: no call {id:?}"));
        assert!(!std::mem::replace(answered, true), "item {at}: {id} is answered twice");
        assert!(is_said(&item["output"]), "item {at} has no output");
        self.in_results = true;
    }
}

fn only(at: usize, item: &Value, names: &[&str]) {
    for name in item.as_object().into_iter().flat_map(Map::keys) {
        assert!(names.contains(&name.as_str()), "item {at} has {name}");
    }
}

/// What the model gave and gets back: whole in itself, and right before what it led to.
fn check_kept(at: usize, kind: &str, item: &Value, next: Option<&Value>) {
    let is_ours = kind.is_empty() || kind.ends_with("_output") || kind == "item_reference";
    assert!(!is_ours, "item {at} is of type {kind:?}");
    let is_open = item["content"].as_array().is_some_and(|content| !content.is_empty());
    assert!(is_said(&item["encrypted_content"]) || is_open, "item {at} is only a name for what isn't kept");
    let next = next.unwrap_or_else(|| panic!("nothing follows item {at}"));
    let is_models = match next["type"].as_str() {
        Some("message") => next["role"] == "assistant",
        Some(kind) => kind != "function_call_output",
        None => false,
    };
    assert!(is_models, "item {at} is followed by what the model didn't say: {next}");
}

fn check_part(at: usize, part: &Value) {
    let text = |name: &str| part[name].as_str().unwrap_or_default();
    match text("type") {
        "input_text" => assert!(is_said(&part["text"]), "item {at} has a blank part"),
        "input_image" => {
            let url = text("image_url");
            let is_taken = ["png", "jpeg", "webp", "gif"]
                .iter()
                .any(|kind| url.starts_with(&format!("data:image/{kind};base64,")));
            assert!(is_taken || url.starts_with("http"), "item {at}: image {url}");
            assert!(["auto", "low", "high", "original"].contains(&text("detail")), "item {at}: detail");
        }
        "input_file" => {
            let data = text("file_data");
            let is_held = data.starts_with("data:") && data.contains("/") && data.contains(";base64,");
            assert!(is_held == is_said(&part["filename"]), "item {at}: a file that is held has a name");
            assert!(is_held != text("file_url").starts_with("http"), "item {at}: file {part}");
        }
        kind => panic!("item {at}: a part of type {kind:?}"),
    }
}

fn is_name(name: &Value) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.as_str().is_some_and(|name| (1..=64).contains(&name.len()) && name.chars().all(legal))
}

fn check_tools(body: &Map<String, Value>) {
    let Some(tools) = body.get("tools") else {
        for name in ["tool_choice", "parallel_tool_calls"] {
            assert!(!body.contains_key(name), "{name} without tools");
        }
        return;
    };
    let tools = tools.as_array().expect("tools are a list");
    assert!(!tools.is_empty(), "an empty list of tools");
    let mut names = BTreeSet::new();
    for tool in tools {
        assert_eq!(tool["type"], "function");
        assert!(is_name(&tool["name"]) && names.insert(tool["name"].to_string()), "tool {}", tool["name"]);
        assert!(tool.get("description").is_none_or(is_said), "a blank description");
        let parameters = tool["parameters"].as_object().expect("parameters are an object");
        assert_eq!(parameters["type"], "object");
        assert!(parameters["properties"].is_object(), "properties are told");
        for refused in ["oneOf", "anyOf", "allOf", "enum", "const", "not"] {
            assert!(!parameters.contains_key(refused), "{refused} at the top");
        }
        if tool["strict"].as_bool().expect("strict is told") {
            check_closed(&tool["parameters"]);
        }
    }
}

fn check_format(body: &Map<String, Value>, items: &[Value]) {
    let Some(format) = body.get("text").and_then(|text| text.get("format")) else { return };
    match format["type"].as_str() {
        Some("json_schema") => {
            assert!(is_name(&format["name"]));
            assert_eq!(format["schema"]["type"], "object");
            if format["strict"] == true {
                check_closed(&format["schema"]);
            }
        }
        Some("json_object") => {
            let said: String = items.iter().map(|item| item["content"].to_string().to_lowercase()).collect();
            assert!(said.contains("json"), "the input doesn't speak of JSON");
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
    for name in ["items", "additionalItems"] {
        schema.get(name).filter(|below| below.is_object()).into_iter().for_each(check_closed);
    }
    for below in schema["anyOf"].as_array().into_iter().flatten() {
        check_closed(below);
    }
}
