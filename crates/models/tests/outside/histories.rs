//! Whatever happens to a run, each wire shows its model a history that the vendor accepts: random lives of runs, with calls
//! of every kind, errors, denials, people, crashes, summaries and steering, rendered for every wire and judged by checkers
//! that share nothing with what renders.

use answerable_core::id::ArtifactId;
use answerable_core::message::{Attachment, AttachmentSource, Message, Part, ProviderExtra, Role};
use answerable_core::model::ModelRequest;
use answerable_core::run::laws::shown::{Shown, shown};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::loopback::{Loopback, answer};
use crate::support;
use crate::valid;

const WIRES: [&str; 3] = ["openai_chat", "openai_responses", "anthropic"];
/// Histories of one life that are rendered; the rest are beginnings of them.
const MOST_OF_A_LIFE: usize = 8;

/// Small choices, made again and again.
struct Choices<'c>(std::iter::Cycle<std::slice::Iter<'c, u8>>);

impl Choices<'_> {
    fn one_in(&mut self, n: u8) -> bool {
        self.0.next().is_some_and(|choice| choice % n == 0)
    }
}

/// What a model of `wire` would have left with a message of its own; now and then of one that isn't quite this.
fn extra(wire: &str, message: &Message, choices: &mut Choices<'_>) -> Option<ProviderExtra> {
    if choices.one_in(3) {
        return None;
    }
    let odd = usize::from(choices.one_in(7));
    let text = message.content.len() + odd;
    let calls = message.tool_calls.len() + odd;
    let fields = match wire {
        "openai_chat" => json!({"reasoning_content": "hm", "x_vendor": [1],
            "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}],
            "reasoning_details": [{"type": "reasoning.encrypted", "data": "c2VhbGVk", "id": {"call": odd}}],
            "tool_calls": vec![json!({"extra_content": {"google": {"thought_signature": "c2ln"}}}); calls]}),
        "anthropic" => {
            let mut blocks = vec![json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"})];
            blocks.extend((text > 0).then(|| json!({"type": "text", "bytes": text})));
            blocks.extend((0..calls).map(|_| json!({"type": "tool_use"})));
            json!({"blocks": blocks})
        }
        _ => {
            let sealed = json!({"type": "reasoning", "id": format!("rs_{}", message.seq), "summary": [], "encrypted_content": "c2VhbGVk"});
            let mut blocks = vec![json!({"item": sealed})];
            blocks.extend((text > 0).then(|| json!({"text": message.content.chars().count() + odd})));
            blocks.extend((0..calls).map(|_| json!({"call": true})));
            json!({"blocks": blocks})
        }
    };
    let provider = if choices.one_in(5) { "alt" } else { "main" };
    let Value::Object(fields) = fields else { return None };
    Some(ProviderExtra { provider: provider.into(), model: "m".into(), wire: wire.into(), fields })
}

/// A user who sends a picture and a document beside words.
fn parts(message: &Message) -> Vec<Part> {
    let at = |source, media_type: &str| Attachment { media_type: media_type.into(), name: None, source };
    let kept = AttachmentSource::Artifact { id: ArtifactId(Uuid::from_u128(1)), bytes: 3 };
    let gone = AttachmentSource::Artifact { id: ArtifactId(Uuid::from_u128(2)), bytes: 9 };
    let far = AttachmentSource::Url("https://pictures.example/a.png".into());
    vec![
        Part::Image(at(kept.clone(), "image/png")),
        Part::Text(message.content.clone()),
        Part::Image(at(far, "")),
        Part::File(at(kept, "application/pdf")),
        Part::File(at(gone, "application/x-odd")),
    ]
}

fn request(wire: &str, seen: &Shown, choices: &mut Choices<'_>) -> ModelRequest {
    let mut messages = seen.messages.clone();
    for message in &mut messages {
        match message.role {
            Role::Assistant => message.extra = extra(wire, message, choices),
            Role::User if choices.one_in(6) => message.parts = parts(message),
            _ => {}
        }
    }
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    ModelRequest {
        model: "m".into(),
        provider: "main".into(),
        system: if choices.one_in(4) { String::new() } else { "Be brief.".into() },
        messages,
        note: seen.reasked.map(|_| "Once more, please.".into()),
        tools: if choices.one_in(8) { Vec::new() } else { seen.tools.clone() },
        output_schema: choices.one_in(4).then_some(schema),
        attachments: [(ArtifactId(Uuid::from_u128(1)), b"abc".as_slice().into())].into(),
        temperature: Some(0.0),
        max_output_tokens: (!choices.one_in(4)).then_some(500),
        params: if wire == "anthropic" && choices.one_in(2) { thinks() } else { Map::new() },
        ..ModelRequest::default()
    }
}

fn thinks() -> Map<String, Value> {
    Map::from_iter([("thinking".into(), json!({"type": "enabled", "budget_tokens": 1024}))])
}

fn options(wire: &str, choices: &mut Choices<'_>) -> Map<String, Value> {
    let mut options = Map::from_iter([("stream".into(), choices.one_in(2).into())]);
    for name in ["send_reasoning", "images", "files"] {
        if choices.one_in(3) {
            options.insert(name.into(), choices.one_in(2).into());
        }
    }
    if wire == "openai_chat" {
        let odd = [
            ("system_role", json!("user")),
            ("call_ids", json!("short")),
            ("strict_turns", json!(true)),
            ("structured_output", json!("json_object")),
        ];
        options.extend(
            odd.map(|(name, value)| (name.to_owned(), value)).into_iter().filter(|_| choices.one_in(3)),
        );
    }
    options
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_is_one_that_its_vendor_accepts(
        life in prop::collection::vec(any::<u8>(), 0..1000),
        max_tokens in prop::sample::select(vec![32_000_u64, 2_500, 2_000]),
        choices in prop::collection::vec(any::<u8>(), 16..200),
    ) {
        let all = shown(life, max_tokens);
        let every = all.len().div_ceil(MOST_OF_A_LIFE).max(1);
        let mut choices = Choices(choices.iter().cycle());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let server = Loopback::start(answer("application/json", "{}")).await;
            for seen in all.iter().rev().step_by(every) {
                for wire in WIRES {
                    let mut target = support::target(wire, &server.base_url);
                    target.options = options(wire, &mut choices);
                    let request = request(wire, seen, &mut choices);
                    support::ask(&target, &request).await.expect_err("an answer that says nothing");
                    let body = server.bodies().pop().expect("a request");
                    valid::check(wire, &body, "a life");
                    if target.options.get("strict_turns").is_some() {
                        valid::openai_chat::check_strict(&body);
                    }
                }
            }
        });
    }
}
