//! What is sent, under the switches and with an agent's params.

use super::*;
use answerable_core::id::MessageId;
use answerable_core::message::{Message, Role};
use uuid::Uuid;

fn rendered(change: impl FnOnce(&mut ModelRequest), options: Value) -> Value {
    let said = Message::text(MessageId(Uuid::nil()), 1, Role::User, "go");
    let mut request = ModelRequest {
        model: "m".into(),
        system: "Be brief.".into(),
        messages: vec![said],
        ..ModelRequest::default()
    };
    change(&mut request);
    body(&request, &serde_json::from_value(options).expect("options"))
}

fn offer(input_schema: Value) -> ToolOffer {
    ToolOffer { name: "look".into(), description: " ".into(), input_schema }
}

fn params(params: &Value) -> Map<String, Value> {
    params.as_object().expect("params").clone()
}

#[test]
fn params_fill_in_what_the_runtime_does_not_set() {
    let told = json!({"model": "x", "input": [], "tools": [{}], "store": true, "stream": false, "instructions": "x",
        "previous_response_id": "resp_1", "conversation": "conv_1", "background": true, "temperature": 1,
        "reasoning": {"effort": "low"}, "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "text": {"verbosity": "low", "format": {"type": "text"}}, "max_output_tokens": 9, "tool_choice": "required",
        "parallel_tool_calls": true, "stream_options": {"include_obfuscation": false}, "truncation": "auto"});
    let schema = json!({"type": "object", "properties": {}});
    let mut body = rendered(
        |request| {
            request.params = params(&told);
            request.temperature = Some(0.5);
            request.output_schema = Some(schema.clone());
        },
        json!({}),
    );
    assert_eq!(body["input"].as_array_mut().map(std::mem::take).map(|items| items.len()), Some(1));
    let wanted = json!({"model": "m", "input": [], "store": false, "stream": true, "instructions": "Be brief.",
        "temperature": 0.5, "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": false}},
        "max_output_tokens": 9, "stream_options": {"include_obfuscation": false}, "truncation": "auto"});
    assert_eq!(body, wanted);
    let off = json!({"stream": false, "send_reasoning": false, "temperature": false, "tool_choice": false});
    let body = rendered(
        |request| {
            request.params = params(&json!({"tool_choice": "auto", "stream_options": {}}));
            request.tools = vec![offer(json!({}))];
            request.temperature = Some(0.5);
        },
        off,
    );
    for absent in ["stream", "stream_options", "include", "temperature", "tool_choice", "text"] {
        assert_eq!(body.get(absent), None, "{absent}");
    }
}

#[test]
fn a_cap_is_never_below_the_least() {
    for (cap, wanted) in [(1, 16), (15, 16), (16, 16), (900, 900)] {
        let body = rendered(|request| request.max_output_tokens = Some(cap), json!({}));
        assert_eq!(body["max_output_tokens"], wanted, "{cap}");
    }
    assert_eq!(rendered(|_| {}, json!({})).get("max_output_tokens"), None);
}

#[test]
fn a_schema_of_the_answer_is_told_as_the_server_takes_it() {
    let closed = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false});
    let list = json!({"type": "array", "items": {"type": "string"}});
    for (schema, option, kind, strict, where_told) in [
        (&closed, "json_schema", json!("json_schema"), json!(true), "nowhere"),
        (&closed, "json_object", json!("json_object"), json!(null), "input"),
        (&closed, "off", json!(null), json!(null), "instructions"),
        (&list, "json_schema", json!(null), json!(null), "instructions"),
        (&list, "json_object", json!(null), json!(null), "instructions"),
    ] {
        let change = |request: &mut ModelRequest| request.output_schema = Some(schema.clone());
        let body = rendered(change, json!({"structured_output": option}));
        let format = &body["text"]["format"];
        assert_eq!((&format["type"], &format["strict"]), (&kind, &strict), "{option} {schema}");
        for name in ["input", "instructions"] {
            let is_told = body[name].to_string().contains("JSON Schema");
            assert_eq!(is_told, name == where_told, "{option} {schema} {name}");
        }
    }
}

#[test]
fn tools_are_flat_and_say_whether_they_are_strict() {
    let closed = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    let tools = vec![offer(closed.clone()), offer(json!({"oneOf": [{"properties": {"a": true}}]}))];
    let change = |request: &mut ModelRequest| request.tools = tools;
    let body = rendered(change, json!({"strict_tools": true, "parallel_tool_calls": false}));
    let mut described = body["tools"][1].clone();
    let words = described.as_object_mut().and_then(|tool| tool.remove("description")).unwrap_or_default();
    assert!(words.as_str().is_some_and(|words| words.contains("oneOf")));
    assert_eq!(
        body["tools"][0],
        json!({"type": "function", "name": "look", "parameters": closed, "strict": true})
    );
    let open = json!({"type": "object", "properties": {"a": true}});
    assert_eq!(described, json!({"type": "function", "name": "look", "parameters": open, "strict": false}));
    assert_eq!(body["parallel_tool_calls"], false);
}

#[test]
fn nothing_blank_is_sent() {
    let body = rendered(
        |request| {
            request.system = " ".into();
            request.note = Some(" \n".into());
            request.messages[0].content = "\t".into();
        },
        json!({}),
    );
    assert_eq!(body.get("instructions"), None);
    assert_eq!(body["input"].as_array().map(Vec::len), Some(1));
    assert_eq!(body["input"][0]["content"], "(nothing was said)");
}

#[test]
fn no_history_ends_with_an_assistant_s_words() {
    let said = |role: Role, text: &str| Message::text(MessageId(Uuid::nil()), 1, role, text);
    let item = |role: &str, text: &str| json!({"type": "message", "role": role, "content": text});
    let messages = vec![said(Role::User, "go"), said(Role::Assistant, "Hello.")];
    let mut request = ModelRequest { messages, ..ModelRequest::default() };
    let input = |request: &ModelRequest| {
        body(request, &serde_json::from_value(json!({})).expect("options"))["input"].clone()
    };
    let wanted = [item("user", "go"), item("assistant", "Hello."), item("user", "Go on.")];
    assert_eq!(input(&request), json!(wanted));
    request.note = Some("Again.".into());
    assert_eq!(input(&request)[2], item("user", "Again."));
}
