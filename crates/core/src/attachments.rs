//! Pictures and documents of a request's messages: which are loaded for it, and what stands where one can't be shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::ArtifactId;
use crate::message::{Attachment, AttachmentSource, Message, Part, text_of};

/// Bytes of pictures and documents that go with one request. In base64 that is as much as the strictest of the large
/// providers takes.
pub const MAX_SHOWN_BYTES: u64 = 20 * 1024 * 1024;

/// Why an attachment isn't shown: the run that it belonged to was deleted.
pub const GONE: &str = "not kept any more";
/// Why an attachment isn't shown: newer ones take all the room.
const LEFT_OUT: &str = "left out, because newer ones take all the room";

/// Whether a document of that type is text that any model can read.
pub fn is_text(media_type: &str) -> bool {
    const TEXTS: [&str; 5] = [
        "application/json",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
    ];
    media_type.starts_with("text/") || TEXTS.contains(&media_type)
}

/// The artifacts that a request's messages are sent with: of all that they name the newest, as far as `max_bytes` go. What
/// stands in two places is sent twice.
pub fn to_load(messages: &[Message], max_bytes: u64) -> BTreeSet<ArtifactId> {
    newest(messages, max_bytes).0
}

/// Those artifacts, and how many places the newest that doesn't fit and all before it take.
fn newest(messages: &[Message], max_bytes: u64) -> (BTreeSet<ArtifactId>, usize) {
    let mut places: Vec<(ArtifactId, u64)> =
        messages.iter().flat_map(|message| &message.parts).filter_map(kept).collect();
    let (mut left, mut ids) = (max_bytes, BTreeSet::new());
    while let Some((id, bytes)) = places.pop() {
        let Some(rest) = left.checked_sub(bytes) else { return (ids, places.len() + 1) };
        left = rest;
        ids.insert(id);
    }
    (ids, 0)
}

/// The artifact that a piece is, with its size.
fn kept(part: &Part) -> Option<(ArtifactId, u64)> {
    match part.attachment()?.source {
        AttachmentSource::Artifact { id, bytes } => Some((id, bytes)),
        AttachmentSource::Url(_) => None,
    }
}

/// Puts a line of text where an attachment can't be shown: it is none of the newest that fit, or none of those found, since
/// the run that it belonged to was deleted. A message that is text alone then has no pieces.
pub fn explain_missing(messages: &mut [Message], max_bytes: u64, found: &BTreeMap<ArtifactId, Arc<[u8]>>) {
    let mut left_out = newest(messages, max_bytes).1;
    for message in messages.iter_mut().filter(|message| !message.parts.is_empty()) {
        for part in &mut message.parts {
            let (Some((id, _)), Some(attachment)) = (kept(part), part.attachment()) else { continue };
            let why = if left_out > 0 {
                left_out -= 1;
                LEFT_OUT
            } else if found.contains_key(&id) {
                continue;
            } else {
                GONE
            };
            *part = Part::Text(line(attachment, why));
        }
        message.content = text_of(&message.parts);
        if message.parts.iter().all(|part| part.attachment().is_none()) {
            message.parts.clear();
        }
    }
}

/// What stands in the place of an attachment that can't be shown, so that the model doesn't think that nothing was sent.
pub fn line(attachment: &Attachment, why: &str) -> String {
    let kind = if attachment.media_type.is_empty() { "an attachment" } else { &attachment.media_type };
    let name = attachment.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    let size = match &attachment.source {
        AttachmentSource::Artifact { bytes, .. } => format!(", {bytes} bytes"),
        AttachmentSource::Url(_) => String::new(),
    };
    format!("[{kind}{name}{size}: {why}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;
    use crate::message::Role;
    use uuid::Uuid;

    fn id(number: u128) -> ArtifactId {
        ArtifactId(Uuid::from_u128(number))
    }

    fn picture(number: u128, bytes: u64) -> Part {
        let source = AttachmentSource::Artifact { id: id(number), bytes };
        Part::Image(Attachment { media_type: "image/png".into(), name: None, source })
    }

    fn file_at(url: &str) -> Part {
        let (media_type, name) = ("text/csv".to_owned(), Some("a \"b\".csv".to_owned()));
        Part::File(Attachment { media_type, name, source: AttachmentSource::Url(url.into()) })
    }

    fn message(parts: Vec<Part>) -> Message {
        let text = text_of(&parts);
        Message { parts, ..Message::text(MessageId(Uuid::from_u128(1)), 1, Role::User, text) }
    }

    fn found(ids: &[u128]) -> BTreeMap<ArtifactId, Arc<[u8]>> {
        ids.iter().map(|number| (id(*number), Arc::from(*b"x"))).collect()
    }

    fn loaded(messages: &[Message], max_bytes: u64) -> Vec<ArtifactId> {
        to_load(messages, max_bytes).into_iter().collect()
    }

    #[test]
    fn the_newest_that_fit_are_loaded() {
        let history = [
            message(vec![picture(1, 10), picture(2, 30)]),
            message(vec![Part::Text("and".into()), file_at("https://h/"), picture(3, 20), picture(4, 40)]),
            message(vec![]),
        ];
        for (max_bytes, wanted) in [
            (39, vec![]),
            (40, vec![4]),
            (59, vec![4]),
            (60, vec![3, 4]),
            (89, vec![3, 4]),
            (90, vec![2, 3, 4]),
            (100, vec![1, 2, 3, 4]),
        ] {
            let wanted: Vec<_> = wanted.into_iter().map(id).collect();
            assert_eq!(loaded(&history, max_bytes), wanted, "{max_bytes}");
        }
        // An older one that would fit doesn't stand alone behind one that doesn't.
        assert_eq!(loaded(&[message(vec![picture(1, 1), picture(2, 9)])], 8), []);
        // Sent twice, counted twice.
        let twice = [message(vec![picture(1, 5)]), message(vec![picture(1, 5)])];
        assert_eq!(loaded(&twice, 10), [id(1)]);
        assert_eq!(loaded(&twice, 9), [id(1)]);
    }

    #[test]
    fn a_line_stands_where_something_is_missing() {
        let words = || Part::Text("see".into());
        let mut history = [
            message(vec![picture(1, 9), words()]),
            message(vec![words(), picture(2, 1), picture(3, 1), file_at("https://h/")]),
            message(vec![picture(4, 1)]),
        ];
        explain_missing(&mut history, 5, &found(&[3, 4]));
        let old = "[image/png, 9 bytes: left out, because newer ones take all the room]";
        assert_eq!((history[0].content.as_str(), history[0].parts.len()), (&*format!("{old}\nsee"), 0));
        let gone = Part::Text("[image/png, 1 bytes: not kept any more]".into());
        assert_eq!(history[1].parts, [words(), gone, picture(3, 1), file_at("https://h/")]);
        assert_eq!(history[1].content, "see\n[image/png, 1 bytes: not kept any more]");
        assert_eq!(history[2].parts, [picture(4, 1)]);
        assert_eq!(history[2].content, "");
    }

    #[test]
    fn the_older_of_two_places_is_left_out() {
        let mut twice = [message(vec![picture(1, 5)]), message(vec![picture(1, 5)])];
        explain_missing(&mut twice, 9, &found(&[1]));
        assert!(twice[0].parts.is_empty() && twice[0].content.contains("left out"));
        assert_eq!(twice[1].parts, [picture(1, 5)]);
    }

    #[test]
    fn names_are_told_apart_from_the_line() {
        let file = file_at("https://h/");
        let named = line(file.attachment().expect("an attachment"), GONE);
        assert_eq!(named, r#"[text/csv "a \"b\".csv": not kept any more]"#);
        let source = AttachmentSource::Url(String::new());
        let bare = Attachment { media_type: String::new(), name: None, source };
        assert_eq!(line(&bare, GONE), "[an attachment: not kept any more]");
    }

    #[test]
    fn texts_are_left_alone() {
        let mut history = [message(vec![]), Message::text(MessageId(Uuid::nil()), 2, Role::User, "go")];
        let before = history.clone();
        explain_missing(&mut history, 0, &BTreeMap::new());
        assert_eq!(history, before);
    }
}
