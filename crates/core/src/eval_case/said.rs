//! What people said, as a case has it. What they sent with it stays where it is: a case names it by its size and its hash.

use serde_json::{Value, json};

use super::{Scene, Source};
use crate::agent::redacted_url;
use crate::message::{Attachment, AttachmentSource, Message, Part};
use crate::run::Event;

/// A message that the run was given at its beginning.
pub(super) fn input(source: &Source<'_>, message: &Message) -> Value {
    let mut said = json!({"role": message.role, "content": message.content});
    add(source, &mut said, &message.parts, message.pinned);
    said
}

/// What was said to it later.
pub(super) fn steer(source: &Source<'_>, scene: &Scene<'_>, event: &Event) -> Option<Value> {
    let Event::Steered { content, parts, pinned, .. } = event else { return None };
    // It joins the context of the next step.
    let mut said = json!({"step": scene.state.step + 1, "content": content, "at_ms": scene.at_ms(event)});
    add(source, &mut said, parts, *pinned);
    Some(said)
}

fn add(source: &Source<'_>, said: &mut Value, parts: &[Part], pinned: bool) {
    if !parts.is_empty() {
        said["parts"] = parts.iter().map(|part| piece(source, part)).collect();
    }
    if pinned {
        said["pinned"] = true.into();
    }
}

fn piece(source: &Source<'_>, part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image(picture) => attachment(source, "image", picture),
        Part::File(file) => attachment(source, "file", file),
    }
}

fn attachment(source: &Source<'_>, kind: &str, attachment: &Attachment) -> Value {
    let mut told = json!({"type": kind});
    if let Some(name) = &attachment.name {
        told["name"] = name.as_str().into();
    }
    if !attachment.media_type.is_empty() {
        told["media_type"] = attachment.media_type.as_str().into();
    }
    match &attachment.source {
        AttachmentSource::Url(url) => told["url"] = redacted_url(url).into(),
        AttachmentSource::Artifact { id, bytes } => {
            told["bytes"] = (*bytes).into();
            if let Some(hash) = source.hashes.get(id) {
                told["sha256"] = hash.strip_prefix("sha256:").unwrap_or(hash).into();
            }
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::agent::AgentSpec;
    use crate::budget::Budgets;
    use crate::id::{ArtifactId, MessageId, RunId};
    use crate::message::Role;
    use crate::registry::Registry;
    use crate::run::RunState;
    use uuid::Uuid;

    #[test]
    fn what_was_sent_is_named_and_not_shown() {
        let spec: AgentSpec =
            serde_json::from_value(json!({"name": "a", "model": {"provider": "p", "model": "m"}}))
                .expect("an agent");
        let registry = Registry::compile(spec).expect("it compiles");
        let first = RunState::accepted(RunId(Uuid::nil()), Budgets::default(), 1, 0, None);
        let (kept, gone) = (ArtifactId(Uuid::from_u128(1)), ArtifactId(Uuid::from_u128(2)));
        let hashes = BTreeMap::from([(kept, "sha256:abc".to_owned())]);
        let attachment = |name: Option<&str>, media_type: &str, source| Attachment {
            media_type: media_type.into(),
            name: name.map(str::to_owned),
            source,
        };
        let at = AttachmentSource::Url("https://h/a?size=3&token=canary".into());
        let parts = vec![
            Part::Text("see".into()),
            Part::Image(attachment(None, "image/png", AttachmentSource::Artifact { id: kept, bytes: 7 })),
            Part::File(attachment(Some("b"), "a/b", AttachmentSource::Artifact { id: gone, bytes: 8 })),
            Part::Image(attachment(None, "", at)),
        ];
        let told = json!([
            {"type": "text", "text": "see"},
            {"type": "image", "media_type": "image/png", "bytes": 7, "sha256": "abc"},
            {"type": "file", "name": "b", "media_type": "a/b", "bytes": 8},
            {"type": "image", "url": "https://h/a?size=3&token=[redacted]"},
        ]);
        let text = Message::text(MessageId(Uuid::nil()), 1, Role::User, "see");
        let plain = text.clone();
        let inputs = [plain, Message { parts: parts.clone(), pinned: true, ..text }];
        let steered =
            Event::Steered { at: 5, message_id: inputs[0].id, content: "see".into(), parts, pinned: true };
        let journal = [Event::Started { at: 1 }, steered];
        let case = super::super::eval_case(&Source {
            registry: &registry,
            agent: &json!({}),
            context: &json!({}),
            policy: None,
            max_recoveries: 5,
            first: &first,
            inputs: &inputs,
            hashes: &hashes,
            journal: &journal,
        });
        assert_eq!(
            case["input"],
            json!([
                {"role": "user", "content": "see"},
                {"role": "user", "content": "see", "parts": told, "pinned": true},
            ])
        );
        assert_eq!(
            case["steers"],
            json!([{"step": 1, "content": "see", "at_ms": 4, "parts": told, "pinned": true}])
        );
    }
}
