//! Whatever the core gives as a history, what is sent is accepted.

use super::super::request::body;
use crate::valid::openai_responses as valid;
use answerable_core::id::{ArtifactId, CallId, MessageId};
use answerable_core::message::{
    Attachment, AttachmentSource, Message, MessageCall, Part, ProviderExtra, Role,
};
use answerable_core::model::{ModelRequest, ToolOffer};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

fn words() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".into()), Just("Tür 🚪".into()), "[a-z]{1,9}"]
}

fn attachment() -> impl Strategy<Value = Attachment> {
    let media_type =
        prop::sample::select(vec!["image/png", "image/tiff", "application/pdf", "text/x-c", "x", ""]);
    let source = prop_oneof![
        Just(AttachmentSource::Url("https://x.example/a".into())),
        (0..3_u128).prop_map(|n| AttachmentSource::Artifact { id: ArtifactId(Uuid::from_u128(n)), bytes: 3 }),
    ];
    (media_type, prop::option::of(words()), source).prop_map(|(media_type, name, source)| Attachment {
        media_type: media_type.into(),
        name,
        source,
    })
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        words().prop_map(Part::Text),
        attachment().prop_map(Part::Image),
        attachment().prop_map(Part::File)
    ]
}

/// What was kept of a reply, or what no longer fits it.
fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => Just(json!({"item": {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}})),
        1 => Just(json!({"item": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}})),
        2 => (0..12_u64, prop::option::of(Just("commentary"))).prop_map(|(length, phase)| match phase {
            Some(phase) => json!({"text": length, "phase": phase}),
            None => json!({"text": length}),
        }),
        2 => Just(json!({"call": true})),
        1 => Just(json!(7)),
    ]
}

/// A user's messages, then an assistant's, whose calls have results.
fn turn() -> impl Strategy<Value = Vec<Message>> {
    let user = (words(), prop::collection::vec(part(), 0..4));
    let users = prop::collection::vec(user, 0..3);
    let kept = prop::option::of(prop::collection::vec(block(), 0..7));
    (users, words(), 0..4_usize, kept, any::<bool>(), words()).prop_map(
        |(users, said, calls, kept, is_own, result)| {
            let blank = |role, text: &str| Message::text(MessageId(Uuid::nil()), 0, role, text);
            let of_user = |(text, parts): (String, Vec<Part>)| Message { parts, ..blank(Role::User, &text) };
            let mut messages: Vec<Message> = users.into_iter().map(of_user).collect();
            let extra = kept.map(|blocks| ProviderExtra {
                provider: if is_own { "main" } else { "alt" }.into(),
                model: "m".into(),
                wire: super::super::WIRE.into(),
                fields: [("blocks".to_owned(), blocks.into())].into_iter().collect(),
            });
            let call =
                |_| MessageCall { id: CallId(Uuid::new_v4()), name: "look".into(), arguments: "{}".into() };
            let tool_calls: Vec<MessageCall> = (0..calls).map(call).collect();
            let results = tool_calls
                .iter()
                .map(|call| Message { tool_call_id: Some(call.id), ..blank(Role::Tool, &result) });
            let results: Vec<Message> = results.collect();
            messages.push(Message { tool_calls, extra, ..blank(Role::Assistant, &said) });
            messages.extend(results);
            messages
        },
    )
}

fn schema() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({}),
        json!(true),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"$ref": "#/$defs/b"}],
            "$defs": {"b": {"properties": {"b": {}}}}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}),
        json!({"type": "object", "properties": [], "required": "a", "not": {}, "enum": [{}]}),
    ])
}

prop_compose! {
    fn request()(
        turns in prop::collection::vec(turn(), 0..5),
        last in words(),
        note in prop::option::of(words()),
        system in words(),
        schemas in prop::collection::vec(schema(), 0..3),
        output_schema in prop::option::of(schema()),
        cap in prop::option::of(1..99_u64),
    ) -> ModelRequest {
        let mut messages = turns.concat();
        messages.push(Message::text(MessageId(Uuid::nil()), 0, Role::User, last));
        let offer = |(n, input_schema)| ToolOffer { name: format!("t{n}"), description: String::new(), input_schema };
        let tools = schemas.into_iter().enumerate().map(offer).collect();
        let attachments = [(ArtifactId(Uuid::from_u128(1)), b"abc".as_slice().into())].into_iter().collect();
        ModelRequest {
            model: "m".into(), provider: "main".into(), system, messages, note, tools, output_schema, attachments,
            max_output_tokens: cap, ..ModelRequest::default()
        }
    }
}

proptest! {
    #[test]
    fn every_history_is_accepted(
        request in request(),
        sends in any::<bool>(),
        strict in any::<bool>(),
        structured in prop::sample::select(vec!["json_schema", "json_object", "off"]),
    ) {
        let options = json!({"send_reasoning": sends, "strict_tools": strict, "structured_output": structured});
        let body = body(&request, &serde_json::from_value(options).expect("options"));
        valid::check(&body);
        let said = |role: Role| request.messages.iter().filter(move |message| message.role == role);
        let items = body["input"].as_array().expect("items");
        let calls = items.iter().filter(|item| item["type"] == "function_call").count();
        prop_assert_eq!(calls, said(Role::Assistant).map(|message| message.tool_calls.len()).sum::<usize>());
        let told: String = items.iter().filter(|item| item["role"] == "assistant").filter_map(|item| item["content"].as_str()).collect();
        let visible = |text: &str| text.split_whitespace().collect::<String>();
        let wanted: String = said(Role::Assistant).map(|message| visible(&message.content)).collect();
        prop_assert_eq!(visible(&told), wanted, "no text is lost");
        let has_own = request.messages.iter().any(|m| m.extra.as_ref().is_some_and(|extra| extra.provider == "main"));
        let has_kept = items.iter().any(|item| item["type"] == "reasoning");
        prop_assert!(!has_kept || (sends && has_own), "reasoning goes to whom it came from alone");
    }
}
