//! Histories: in turns, with what goes back in its place, and none that the vendor refuses.

use answerable_core::message::{Message, Role};
use answerable_core::model::{ModelRequest, ToolOffer};
use answerable_core::provider::AnthropicOptions;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::request::body;
use super::{call, call_id, extra, message, request, valid};

fn result(seq: u64, n: u64, text: &str) -> Message {
    Message { tool_call_id: Some(call_id(n)), ..message(seq, Role::Tool, text) }
}

/// The messages of a history, without marks.
fn messages(history: Vec<Message>, options: &Value) -> Value {
    of_request(&request(history), options)
}

fn of_request(request: &ModelRequest, options: &Value) -> Value {
    let mut options = options.clone();
    options["cache_control"] = "off".into();
    let options: AnthropicOptions = serde_json::from_value(options).expect("options");
    let body = body(request, &options);
    valid::check(&body);
    body["messages"].clone()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn used(n: u64, input: Value) -> Value {
    json!({"type": "tool_use", "id": call_id(n).to_string(), "name": "look", "input": input})
}

fn answered(n: u64, content: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": call_id(n).to_string(), "content": content})
}

#[test]
fn a_whole_history() {
    let calling = Message {
        tool_calls: vec![call(1, r#"{"n":12345678901234567890}"#), call(2, "[1]")],
        ..message(3, Role::Assistant, "Looking.")
    };
    let mut request = request(vec![
        message(1, Role::User, "go"),
        message(2, Role::User, " \n"),
        message(2, Role::User, "on"),
        calling,
        result(4, 1, "seen"),
        result(5, 2, " "),
        message(6, Role::User, "mind the dog"),
        message(7, Role::System, "Later."),
        message(8, Role::Assistant, ""),
    ]);
    request.note = Some("Again, please.".into());
    let long: Value = serde_json::from_str(r#"{"n":12345678901234567890}"#).expect("JSON");
    let wanted = json!([
        {"role": "user", "content": [text("go"), text("on")]},
        {"role": "assistant", "content": [text("Looking."), used(1, long), used(2, json!({}))]},
        {"role": "user", "content": [answered(1, "seen"), answered(2, "(no output)"), text("mind the dog"), text("Again, please.")]},
    ]);
    assert_eq!(of_request(&request, &json!({})), wanted);
}

#[test]
fn the_user_has_the_first_word_and_the_last() {
    let said = |role: &str, words: &str| json!({"role": role, "content": [text(words)]});
    let (begins, goes_on) = (said("user", "(The conversation begins.)"), said("user", "Go on."));
    for (history, wanted) in [
        (vec![], json!([goes_on])),
        (vec![message(1, Role::User, "")], json!([goes_on])),
        (vec![message(1, Role::Assistant, "Hello.")], json!([begins, said("assistant", "Hello."), goes_on])),
        (
            vec![
                message(1, Role::User, "a"),
                message(2, Role::Assistant, "b"),
                message(3, Role::Assistant, " "),
            ],
            json!([said("user", "a"), said("assistant", "b"), goes_on]),
        ),
    ] {
        assert_eq!(messages(history.clone(), &json!({})), wanted, "{history:?}");
    }
}

fn thought() -> Value {
    json!({"type": "thinking", "thinking": "Tür?", "signature": "c2ln"})
}

/// A message that thought, spoke, thought again and called.
fn thoughtful() -> Message {
    let blocks = json!([thought(), {"type": "text", "bytes": 3}, {"type": "redacted_thinking", "data": "eA=="},
        {"type": "tool_use"}, {"type": "text", "bytes": 2}, {"type": "tool_use"}, {"type": "tool_use"}, thought()]);
    Message {
        tool_calls: vec![call(1, "{}"), call(2, "{}")],
        extra: extra(blocks),
        ..message(2, Role::Assistant, "Hö \n")
    }
}

fn after(said: Message) -> Vec<Message> {
    let calls: Vec<_> = said.tool_calls.iter().map(|call| call.id).collect();
    let results =
        calls.into_iter().map(|id| Message { tool_call_id: Some(id), ..message(3, Role::Tool, "ok") });
    [vec![message(1, Role::User, "go"), said], results.collect()].concat()
}

#[test]
fn what_was_kept_goes_back_in_its_place() {
    let back = |said: Message, options: Value| messages(after(said), &options)[1]["content"].clone();
    // The third call was over the limit, and blank text and thinking at the end are refused.
    let wanted = json!([thought(), text("Hö"), {"type": "redacted_thinking", "data": "eA=="}, used(1, json!({})), used(2, json!({}))]);
    assert_eq!(back(thoughtful(), json!({})), wanted);
    let plain = json!([text("Hö \n"), used(1, json!({})), used(2, json!({}))]);
    assert_eq!(back(thoughtful(), json!({"send_reasoning": false})), plain);
    let foreign = |change: fn(&mut answerable_core::message::ProviderExtra)| {
        let mut said = thoughtful();
        said.extra.iter_mut().for_each(change);
        back(said, json!({}))
    };
    assert_eq!(foreign(|extra| extra.model = "other".into()), plain);
    assert_eq!(foreign(|extra| extra.provider = "alt".into()), plain);
    assert_eq!(foreign(|extra| extra.wire = "openai_chat".into()), plain);
    for other_text in ["Hö", "Hö \nmore", "aaé\n"] {
        let said = Message { content: other_text.into(), ..thoughtful() };
        let back = back(said, json!({}));
        assert!(!back.to_string().contains("Tür"), "{other_text}: {back}");
    }
    let calls_more = Message { tool_calls: (1..5).map(|n| call(n, "{}")).collect(), ..thoughtful() };
    assert_eq!(back(calls_more, json!({}))[0], text("Hö \n"), "more calls than were told of");
    let blank = Message { content: String::new(), ..thoughtful() };
    assert_eq!(back(blank, json!({}))[1]["type"], "redacted_thinking", "blank text is not stored");
}

/// One thing that happens in a history.
#[derive(Debug, Clone)]
enum Deed {
    User(String),
    Said(String, bool),
    Calls { calls: usize, text: String, kept: Kept },
}

/// What was kept of a reply.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kept {
    Nothing,
    /// Thinking first.
    Own,
    /// The same of another model.
    Foreign,
    /// A list that isn't this message's.
    Wrong,
}

fn deed() -> impl Strategy<Value = Deed> {
    let text = || "[ \n]{0,2}|[a-zé ]{1,9}";
    let kept = prop_oneof![
        Just(Kept::Nothing),
        Just(Kept::Own),
        Just(Kept::Own),
        Just(Kept::Foreign),
        Just(Kept::Wrong)
    ];
    prop_oneof![
        2 => text().prop_map(Deed::User),
        1 => (text(), any::<bool>()).prop_map(|(text, thinks)| Deed::Said(text, thinks)),
        3 => (1..4_usize, text(), kept).prop_map(|(calls, text, kept)| Deed::Calls { calls, text, kept }),
    ]
}

/// The history of some deeds, as the core stores them.
fn history(deeds: &[Deed]) -> Vec<Message> {
    let mut out: Vec<Message> = vec![message(1, Role::User, "go")];
    let stored = |text: &str| if text.trim().is_empty() { String::new() } else { text.to_owned() };
    for deed in deeds {
        let seq = out.len() as u64 + 1;
        match deed {
            Deed::User(text) => out.push(message(seq, Role::User, text)),
            Deed::Said(text, thinks) => {
                let blocks = json!([thought(), {"type": "text", "bytes": text.len()}]);
                out.push(Message {
                    extra: if *thinks { extra(blocks) } else { None },
                    ..message(seq, Role::Assistant, &stored(text))
                });
            }
            Deed::Calls { calls, text, kept } => {
                let ids: Vec<u64> = (0..*calls as u64).map(|n| seq * 100 + n).collect();
                let mut blocks = vec![thought(), json!({"type": "text", "bytes": text.len()})];
                blocks.extend(ids.iter().map(|_| json!({"type": "tool_use"})));
                if *kept == Kept::Wrong {
                    blocks.push(json!({"type": "text", "bytes": 3}));
                }
                let mut extra = extra(blocks.into()).filter(|_| *kept != Kept::Nothing);
                if let Some(extra) = extra.as_mut().filter(|_| *kept == Kept::Foreign) {
                    extra.provider = "alt".into();
                }
                let tool_calls = ids.iter().map(|n| call(*n, r#"{"n":1}"#)).collect();
                out.push(Message { tool_calls, extra, ..message(seq, Role::Assistant, &stored(text)) });
                out.extend(ids.iter().map(|n| result(seq, *n, text)));
            }
        }
    }
    out
}

fn thinking() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!({"type": "disabled"})),
        Just(json!({"type": "adaptive"})),
        (1024..9000_u64).prop_map(|budget| json!({"type": "enabled", "budget_tokens": budget})),
    ]
}

proptest! {
    #[test]
    fn every_history_is_one_that_the_vendor_takes(
        deeds in prop::collection::vec(deed(), 0..9),
        thinking in thinking(),
        cap in prop::option::of(1..9000_u64),
        note in prop::option::of("[ a-z]{0,9}"),
        has_tools: bool,
        sends: bool,
        control in prop::sample::select(vec!["off", "5m", "1h"]),
        parallel in prop::option::of(any::<bool>()),
    ) {
        let mut request = ModelRequest { note, max_output_tokens: cap, temperature: Some(0.5), ..request(history(&deeds)) };
        request.params.insert("thinking".into(), thinking.clone());
        request.params.retain(|_, value| !value.is_null());
        if has_tools {
            let look = ToolOffer { name: "look".into(), description: String::new(), input_schema: json!({}) };
            request.tools = vec![look];
        }
        let options = json!({"send_reasoning": sends, "cache_control": control, "parallel_tool_calls": parallel});
        let options: AnthropicOptions = serde_json::from_value(options).expect("options");
        let body = body(&request, &options);
        valid::check(&body);
        let sent = body["messages"].to_string();
        prop_assert!(sends || !sent.contains("Tür"));
        // All that was said is there, in order.
        let said = request.messages.iter().filter(|message| !message.content.trim().is_empty());
        let mut rest = sent.as_str();
        for message in said.filter(|message| message.role != Role::Assistant) {
            let at = rest.find(message.content.trim());
            prop_assert!(at.is_some(), "{:?} is missing in {sent}", message.content);
            rest = &rest[at.unwrap_or(0)..];
        }
        let calls = request.messages.iter().map(|message| message.tool_calls.len()).sum::<usize>();
        prop_assert_eq!(sent.matches(r#""type":"tool_use""#).count(), calls);
        prop_assert_eq!(sent.matches(r#""type":"tool_result""#).count(), calls);
    }
}
