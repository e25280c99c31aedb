//! Requests under every switch.

use answerable_core::id::{ArtifactId, CallId, MessageId};
use answerable_core::message::{
    Attachment, AttachmentSource, Message, MessageCall, Part, ProviderExtra, Role,
};
use answerable_core::model::{ModelRequest, ToolOffer};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::WIRE;
use super::body;

const CALL: CallId = CallId(Uuid::from_u128(5));

fn message(role: Role, content: &str) -> Message {
    Message::text(MessageId(Uuid::from_u128(1)), 1, role, content)
}

fn calling(content: &str) -> Message {
    let extra = ProviderExtra {
        provider: "main".into(),
        model: "m".into(),
        wire: WIRE.into(),
        fields: json!({"reasoning_content": "hm \u{fffd}", "content": "no"})
            .as_object()
            .expect("fields")
            .clone(),
    };
    let call =
        MessageCall { id: CALL, name: "look".into(), arguments: r#"{"n":12345678901234567890}"#.into() };
    Message { tool_calls: vec![call], extra: Some(extra), ..message(Role::Assistant, content) }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: "m".into(),
        provider: "main".into(),
        system: "Be brief.".into(),
        messages,
        ..ModelRequest::default()
    }
}

fn rendered(request: &ModelRequest, options: Value) -> Value {
    body(request, &serde_json::from_value(options).expect("options"))
}

#[test]
fn a_whole_history() {
    let result = Message { tool_call_id: Some(CALL), ..message(Role::Tool, "seen") };
    let mut request =
        request(vec![message(Role::User, "go"), calling(""), result, message(Role::Assistant, "")]);
    request.note = Some("Again, please.".into());
    let call = json!({"id": CALL.to_string(), "type": "function",
        "function": {"name": "look", "arguments": r#"{"n":12345678901234567890}"#}});
    let wanted = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": CALL.to_string(), "content": "seen"},
        {"role": "user", "content": "Again, please."}]});
    assert_eq!(rendered(&request, json!({})), wanted);
    request.system.clear();
    assert_eq!(rendered(&request, json!({}))["messages"][0]["role"], "user");
}

#[test]
fn switches_and_params() {
    let mut request = request(vec![message(Role::User, "go")]);
    let schema = json!({"properties": {"n": {"type": "integer"}}, "anyOf": [{"required": ["n"]}, {}]});
    request.tools = vec![ToolOffer { name: "look".into(), description: String::new(), input_schema: schema }];
    request.temperature = Some(0.5);
    request.max_output_tokens = Some(40);
    let params = json!({"model": "x", "messages": [], "tools": [], "stream": true, "stream_options": {},
        "temperature": 1, "max_tokens": 9, "max_completion_tokens": 9, "top_p": 0.25});
    request.params = params.as_object().expect("params").clone();
    let options = json!({"stream": false, "system_role": "developer", "parallel_tool_calls": false,
        "max_tokens_field": "max_completion_tokens"});
    let wanted = json!({"model": "m", "temperature": 0.5, "max_completion_tokens": 40,
        "top_p": params["top_p"], "parallel_tool_calls": false,
        "messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "go"}],
        "tools": [{"type": "function", "function": {"name": "look",
            "description": "The input must also match this JSON Schema: {\"anyOf\":[{\"required\":[\"n\"]},{}]}",
            "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}}]});
    assert_eq!(rendered(&request, options), wanted);
}

#[test]
fn the_answer_s_schema() {
    let closed = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false});
    let open = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let list = json!({"type": "array"});
    for (schema, how, format, is_said) in [
        (
            &closed,
            "json_schema",
            json!({"type": "json_schema",
            "json_schema": {"name": "answer", "schema": closed, "strict": true}}),
            false,
        ),
        (
            &open,
            "json_schema",
            json!({"type": "json_schema",
            "json_schema": {"name": "answer", "schema": open, "strict": false}}),
            false,
        ),
        (&list, "json_schema", Value::Null, true),
        (&open, "json_object", json!({"type": "json_object"}), true),
        (&list, "json_object", Value::Null, true),
        (&open, "off", Value::Null, true),
    ] {
        let mut request = request(vec![message(Role::User, "go")]);
        request.output_schema = Some(schema.clone());
        let body = rendered(&request, json!({"structured_output": how}));
        assert_eq!(body["response_format"], format, "{how} {schema}");
        let system = body["messages"][0]["content"].as_str().expect("system text");
        assert_eq!(system.contains(&schema.to_string()), is_said, "{how} {schema}");
    }
}

#[test]
fn more_switches() {
    let mut request = request(vec![message(Role::User, "go")]);
    request.temperature = Some(0.0);
    let params = json!({"tool_choice": "required", "parallel_tool_calls": true});
    request.params = params.as_object().expect("params").clone();
    let options =
        json!({"temperature": false, "stream_usage": false, "system_role": "user", "strict_tools": true});
    let body = rendered(&request, options.clone());
    let wanted =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Be brief.\n\ngo"}]});
    assert_eq!(body, wanted, "a choice of tools goes with tools only");
    let closed = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    let offer = |name: &str, input_schema: &Value| ToolOffer {
        name: name.into(),
        description: String::new(),
        input_schema: input_schema.clone(),
    };
    request.tools = vec![offer("a", &closed), offer("b", &json!({}))];
    let body = rendered(&request, options);
    assert_eq!(
        (&body["tools"][0]["function"]["strict"], &body["tools"][1]["function"]["strict"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!((&body["tool_choice"], &body["parallel_tool_calls"]), (&json!("required"), &json!(true)));
    assert_eq!(rendered(&request, json!({"tool_choice": false})).get("tool_choice"), None);
}

#[test]
fn pictures_and_documents() {
    let (kept, gone) = (ArtifactId(Uuid::from_u128(1)), ArtifactId(Uuid::from_u128(2)));
    let attachment =
        |media_type: &str, source| Attachment { media_type: media_type.into(), name: None, source };
    let here = |id| AttachmentSource::Artifact { id, bytes: 3 };
    let far = || AttachmentSource::Url("https://x.example/a.png".into());
    let parts = vec![
        Part::Text("Look:".into()),
        Part::Image(attachment("image/png", here(kept))),
        Part::Image(attachment("", far())),
        Part::Image(attachment("image/png", here(gone))),
        Part::File(attachment("application/pdf", here(kept))),
        Part::File(attachment("application/pdf", far())),
        Part::Image(attachment("image/tiff", here(kept))),
        Part::File(attachment("text/csv; charset=utf-8", here(kept))),
        Part::File(attachment("application/zip", here(kept))),
        Part::Text(" \n".into()),
    ];
    let mut request = request(vec![Message { parts, ..message(Role::User, "Look:") }]);
    request.attachments.insert(kept, b"abc".as_slice().into());
    let content = rendered(&request, json!({}))["messages"][1]["content"].clone();
    let wanted = json!([
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
        {"type": "text", "text": "[image/png, 3 bytes: not kept any more]"},
        {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,YWJj"}},
        {"type": "text", "text": "[application/pdf: this model can't be sent such a thing]"},
        {"type": "text", "text": "[image/tiff, 3 bytes: this model can't be sent such a thing]"},
        {"type": "text", "text": "[text/csv; charset=utf-8, 3 bytes: it says]\nabc"},
        {"type": "text", "text": "[application/zip, 3 bytes: this model can't be sent such a thing]"}]);
    assert_eq!(content, wanted);
    let none = json!({"images": false, "files": false, "system_role": "user"});
    let pieces = rendered(&request, none)["messages"][0]["content"].clone();
    let kinds: Vec<_> = pieces.as_array().expect("pieces").iter().map(|piece| &piece["type"]).collect();
    assert!(kinds.iter().all(|kind| **kind == "text") && kinds.len() == 10, "{pieces}");
}

#[test]
fn unknown_fields_go_back_just_so_or_not_at_all() {
    let mut request = request(vec![calling("Looking.")]);
    let sends = json!({"send_reasoning": true});
    let back =
        |request: &ModelRequest, options: &Value| rendered(request, options.clone())["messages"][1].clone();
    assert_eq!(back(&request, &json!({})).get("reasoning_content"), None);
    assert_eq!(back(&request, &sends)["reasoning_content"], "hm \u{fffd}");
    assert_eq!(back(&request, &sends)["content"], "Looking.");
    let kept = json!({"content": [{"type": "thinking", "thinking": []}], "role": "king",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "c2Vh", "id": {"call": 0}}],
        "tool_calls": [{"id": "no", "sealed": "c2ln", "function": {"name": "no", "more": 1}}, {"sealed": "no"}]});
    let fields = kept.as_object().expect("fields").clone();
    request.messages[0].extra.as_mut().expect("extra").fields = fields;
    let id = CALL.to_string();
    let wanted = json!({"role": "assistant",
        "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Looking."}],
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "c2Vh", "id": id}],
        "tool_calls": [{"id": id, "type": "function", "sealed": "c2ln",
            "function": {"name": "look", "arguments": r#"{"n":12345678901234567890}"#, "more": 1}}]});
    assert_eq!(back(&request, &sends), wanted);
    request.messages[0].tool_calls.clear();
    let plain = json!({"role": "assistant", "content": "Looking."});
    assert_eq!(back(&request, &sends), plain, "a block that names a call that isn't there");
    request.messages = vec![calling("Looking.")];
    request.model = "other".into();
    assert_eq!(back(&request, &sends).get("reasoning_content"), None);
}

#[test]
fn calls_by_short_names() {
    let result = Message { tool_call_id: Some(CALL), ..message(Role::Tool, "seen") };
    let request = request(vec![calling(" \n"), result, message(Role::User, "")]);
    let body = rendered(&request, json!({"call_ids": "short", "strict_turns": true}));
    let messages = body["messages"].as_array().expect("messages");
    let id = messages[2]["tool_calls"][0]["id"].as_str().expect("an id");
    assert!(id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()), "{id}");
    assert_eq!(messages[3]["tool_call_id"], id);
    assert_eq!((messages.len(), &messages[2]["content"]), (4, &Value::Null), "nothing blank is sent");
}

#[test]
fn no_history_ends_with_an_assistant_s_words() {
    let (user, hello) = (message(Role::User, "go"), message(Role::Assistant, "Hello."));
    let said = |role: &str, content: &str| json!({"role": role, "content": content});
    let mut request = request(vec![user, hello.clone()]);
    request.system.clear();
    let wanted = [said("user", "go"), said("assistant", "Hello."), said("user", "Go on.")];
    assert_eq!(rendered(&request, json!({}))["messages"], json!(wanted));
    request.note = Some("Again.".into());
    assert_eq!(rendered(&request, json!({}))["messages"][2], said("user", "Again."));
    request.note = Some(" ".into());
    request.messages = vec![hello.clone(), hello];
    let body = rendered(&request, json!({"strict_turns": true}));
    let wanted = [
        said("user", "(The conversation begins.)"),
        said("assistant", "Hello.\n\nHello."),
        said("user", "Go on."),
    ];
    assert_eq!(body["messages"], json!(wanted));
    crate::valid::openai_chat::check_strict(&body);
}
