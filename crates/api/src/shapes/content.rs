//! Pieces of messages as they are shown: what they hold is an artifact's content, never here.

use answerable_core::message::{Attachment, AttachmentSource, Part};
use serde_json::{Map, Value, json};

/// A piece as it is shown.
pub(crate) fn part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image(picture) => attachment("image", picture),
        Part::File(file) => attachment("file", file),
    }
}

fn attachment(kind: &str, attachment: &Attachment) -> Value {
    let mut shown = Map::from_iter([("type".to_owned(), json!(kind))]);
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    if let Some(name) = &attachment.name {
        put("name", json!(name));
    }
    if !attachment.media_type.is_empty() {
        put("media_type", json!(attachment.media_type));
    }
    match &attachment.source {
        AttachmentSource::Artifact { id, bytes } => {
            put("artifact_id", json!(id));
            put("bytes", json!(bytes));
        }
        AttachmentSource::Url(url) => put("url", json!(url)),
    }
    Value::Object(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use answerable_core::id::ArtifactId;

    #[test]
    fn pieces_are_shown_by_what_they_refer_to() {
        let id: ArtifactId = "art_0197c0de-0000-7000-8000-000000000001".parse().expect("an id");
        let at = |media_type: &str, name: Option<&str>, source| Attachment {
            media_type: media_type.into(),
            name: name.map(str::to_owned),
            source,
        };
        let kept = at("application/pdf", Some("a.pdf"), AttachmentSource::Artifact { id, bytes: 7 });
        assert_eq!(
            part(&Part::File(kept)),
            json!({"type": "file", "name": "a.pdf", "media_type": "application/pdf", "artifact_id": id, "bytes": 7})
        );
        let afar = at("", None, AttachmentSource::Url("https://h/a".into()));
        assert_eq!(part(&Part::Image(afar)), json!({"type": "image", "url": "https://h/a"}));
        assert_eq!(part(&Part::Text("see".into())), json!({"type": "text", "text": "see"}));
    }
}
