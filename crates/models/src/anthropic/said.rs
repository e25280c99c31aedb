//! What a user says: text, pictures and documents.

use answerable_core::json;
use answerable_core::message::{Attachment, Message, Part};
use answerable_core::model::ModelRequest;
use answerable_core::provider::AnthropicOptions;
use serde_json::{Value, json};

use super::kept::text_block;
use crate::attachments::{GONE, NO_FORM, SWITCHED_OFF, Shown, base64, find, is_text, line};

/// Pictures that the vendor takes.
const PICTURES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// Most bytes of a picture: 10 MiB of base64.
const LARGEST_PICTURE: usize = (10 << 20) / 4 * 3;
/// The blocks of a user's message, in its order.
pub(super) fn blocks(message: &Message, request: &ModelRequest, options: &AnthropicOptions) -> Vec<Value> {
    if message.parts.is_empty() {
        return text_block(&message.content).into_iter().collect();
    }
    message.parts.iter().filter_map(|part| block(part, request, options)).collect()
}

fn block(part: &Part, request: &ModelRequest, options: &AnthropicOptions) -> Option<Value> {
    let (attachment, shown) = match part {
        Part::Text(text) => return text_block(text),
        Part::Image(image) if !options.images => (image, Err(SWITCHED_OFF)),
        Part::File(file) if !options.files => (file, Err(SWITCHED_OFF)),
        Part::Image(image) => (image, picture(image, request)),
        Part::File(file) if PICTURES.contains(&kind(file)) => (file, picture(file, request)),
        Part::File(file) => (file, document(file, request)),
    };
    shown.map_or_else(|why| text_block(&line(attachment, why)), Some)
}

/// Its media type without parameters.
fn kind(attachment: &Attachment) -> &str {
    attachment.media_type.split(';').next().unwrap_or_default().trim()
}

fn picture(image: &Attachment, request: &ModelRequest) -> Result<Value, &'static str> {
    let kind = kind(image);
    let source = match find(request, image) {
        Shown::Gone => return Err(GONE),
        Shown::Bytes(bytes) if bytes.len() > LARGEST_PICTURE => return Err("too large for this model"),
        Shown::Bytes(bytes) if PICTURES.contains(&kind) => of_bytes(kind, bytes),
        Shown::Url(url) if kind.is_empty() || PICTURES.contains(&kind) => of_url(url)?,
        _ => return Err(NO_FORM),
    };
    Ok(json!({"type": "image", "source": source}))
}

fn document(file: &Attachment, request: &ModelRequest) -> Result<Value, &'static str> {
    let kind = kind(file);
    let is_text = is_text(kind);
    let source = match find(request, file) {
        Shown::Gone => return Err(GONE),
        Shown::Bytes(bytes) if kind == "application/pdf" => of_bytes(kind, bytes),
        Shown::Bytes(bytes) if is_text => of_text(bytes)?,
        // At an address the vendor knows PDF alone.
        Shown::Url(url) if kind.is_empty() || kind == "application/pdf" => of_url(url)?,
        _ => return Err(NO_FORM),
    };
    let mut block = json!({"type": "document", "source": source});
    if let Some(name) = file.name.as_deref().filter(|name| !name.trim().is_empty()) {
        block["title"] = name.into();
    }
    Ok(block)
}

fn of_bytes(media_type: &str, bytes: &[u8]) -> Value {
    json!({"type": "base64", "media_type": media_type, "data": base64(bytes)})
}

/// The vendor fetches over TLS alone.
fn of_url(url: &str) -> Result<Value, &'static str> {
    if url.starts_with("https://") {
        Ok(json!({"type": "url", "url": url}))
    } else {
        Err("this model fetches from https addresses alone")
    }
}

fn of_text(bytes: &[u8]) -> Result<Value, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| NO_FORM)?;
    if text.trim().is_empty() {
        return Err("it is empty");
    }
    Ok(json!({"type": "text", "media_type": "text/plain", "data": json::clean_text(text)}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use answerable_core::id::{ArtifactId, MessageId};
    use answerable_core::message::{AttachmentSource, Role};
    use uuid::Uuid;

    const ID: ArtifactId = ArtifactId(Uuid::from_u128(7));

    fn attachment(media_type: &str, source: AttachmentSource) -> Attachment {
        Attachment { media_type: media_type.into(), name: Some("n".into()), source }
    }

    fn kept(media_type: &str) -> Attachment {
        attachment(media_type, AttachmentSource::Artifact { id: ID, bytes: 3 })
    }

    fn at(media_type: &str, url: &str) -> Attachment {
        attachment(media_type, AttachmentSource::Url(url.into()))
    }

    fn rendered(part: Part, bytes: Option<&[u8]>, options: &AnthropicOptions) -> Value {
        let mut request = ModelRequest::default();
        if let Some(bytes) = bytes {
            request.attachments.insert(ID, bytes.into());
        }
        let said = Message::text(MessageId(Uuid::nil()), 1, Role::User, "");
        blocks(&Message { parts: vec![part], ..said }, &request, options).into()
    }

    #[test]
    fn what_is_shown_and_how() {
        let bytes = |kind: &str| json!({"type": "base64", "media_type": kind, "data": "YWJj"});
        let text = json!({"type": "text", "media_type": "text/plain", "data": "abc"});
        let url = json!({"type": "url", "url": "https://x.example/a"});
        let document = |source: Value| json!([{"type": "document", "source": source, "title": "n"}]);
        let image = |source: Value| json!([{"type": "image", "source": source}]);
        for (part, wanted) in [
            (Part::Image(kept("image/png")), image(bytes("image/png"))),
            (Part::File(kept("image/webp")), image(bytes("image/webp"))),
            (Part::Image(at("", "https://x.example/a")), image(url.clone())),
            (Part::File(kept("application/pdf")), document(bytes("application/pdf"))),
            (Part::File(kept("text/csv; charset=utf-8")), document(text.clone())),
            (Part::File(kept("application/json")), document(text)),
            (Part::File(at("application/pdf", "https://x.example/a")), document(url)),
            (Part::Text("hi".into()), json!([{"type": "text", "text": "hi"}])),
            (Part::Text(" \n".into()), json!([])),
        ] {
            assert_eq!(
                rendered(part.clone(), Some(b"abc"), &AnthropicOptions::default()),
                wanted,
                "{part:?}"
            );
        }
    }

    #[test]
    fn a_line_stands_for_what_is_not() {
        let large = vec![0; LARGEST_PICTURE + 1];
        let none = AnthropicOptions { images: false, files: false, ..AnthropicOptions::default() };
        let all = AnthropicOptions::default();
        for (part, bytes, options, why) in [
            (Part::Image(kept("image/png")), None, &all, GONE),
            (Part::Image(kept("image/png")), Some(large.as_slice()), &all, "too large for this model"),
            (Part::Image(kept("image/tiff")), Some(b"abc".as_slice()), &all, NO_FORM),
            (Part::Image(kept("image/png")), Some(b"abc"), &none, SWITCHED_OFF),
            (Part::File(kept("image/png")), Some(b"abc"), &none, SWITCHED_OFF),
            (Part::File(kept("application/zip")), Some(b"abc"), &all, NO_FORM),
            (Part::File(kept("text/plain")), Some(b"\xff"), &all, NO_FORM),
            (Part::File(kept("text/plain")), Some(b" \n"), &all, "it is empty"),
            (Part::File(at("text/plain", "https://x.example/a")), None, &all, NO_FORM),
            (
                Part::Image(at("", "http://x.example/a")),
                None,
                &all,
                "this model fetches from https addresses alone",
            ),
        ] {
            let rendered = rendered(part.clone(), bytes, options);
            let text = rendered[0]["text"].as_str().expect("a line").to_owned();
            assert!(text.starts_with('[') && text.contains(why), "{part:?}: {text}");
        }
    }
}
