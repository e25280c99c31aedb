//! What a user said, in pieces where it is more than text.

use answerable_core::json::clean_text;
use answerable_core::message::{Attachment, Message, Part};
use answerable_core::model::ModelRequest;
use answerable_core::provider::OpenAiChatOptions;
use serde_json::{Value, json};

use crate::attachments::{GONE, NO_FORM, SWITCHED_OFF, Shown, data_url, find, is_text, line};

/// Pictures that the vendor takes.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];
/// The only documents that it takes.
const PDF: &str = "application/pdf";
/// A user's content: text alone as a string, which every server takes; nothing where nothing is said.
pub(super) fn of_user(
    message: &Message,
    request: &ModelRequest,
    options: &OpenAiChatOptions,
) -> Option<Value> {
    if message.parts.is_empty() {
        return (!message.content.trim().is_empty()).then(|| message.content.as_str().into());
    }
    let pieces: Vec<Value> = message.parts.iter().filter_map(|part| piece(part, request, options)).collect();
    (!pieces.is_empty()).then(|| pieces.into())
}

/// Puts text before all that is said, for models that know no system text.
pub(super) fn put_before(messages: &mut Vec<Value>, text: &str) {
    match messages.first_mut().filter(|first| first["role"] == "user").map(|first| &mut first["content"]) {
        Some(Value::String(content)) => *content = format!("{text}\n\n{content}"),
        Some(Value::Array(pieces)) => pieces.insert(0, as_text(text)),
        _ => messages.insert(0, json!({"role": "user", "content": text})),
    }
}

fn piece(part: &Part, request: &ModelRequest, options: &OpenAiChatOptions) -> Option<Value> {
    match part {
        Part::Text(text) => (!text.trim().is_empty()).then(|| as_text(text)),
        Part::Image(image) if !options.images => Some(as_text(&line(image, SWITCHED_OFF))),
        Part::File(file) if !options.files => Some(as_text(&line(file, SWITCHED_OFF))),
        Part::Image(image) => Some(picture(image, request)),
        Part::File(file) => Some(document(file, request)),
    }
}

fn as_text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn picture(image: &Attachment, request: &ModelRequest) -> Value {
    let media_type = bare(&image.media_type);
    let is_taken = PICTURES.contains(&media_type.as_str());
    let url = match find(request, image) {
        Shown::Gone => return as_text(&line(image, GONE)),
        Shown::Bytes(bytes) if is_taken => data_url(&media_type, bytes),
        Shown::Url(url) if is_taken || media_type.is_empty() => url.to_owned(),
        Shown::Bytes(_) | Shown::Url(_) => return as_text(&line(image, NO_FORM)),
    };
    json!({"type": "image_url", "image_url": {"url": url}})
}

/// Documents travel whole: the wire has no form for one that lies elsewhere.
fn document(file: &Attachment, request: &ModelRequest) -> Value {
    let media_type = bare(&file.media_type);
    let is_text = is_text(&media_type);
    match find(request, file) {
        Shown::Gone => as_text(&line(file, GONE)),
        Shown::Bytes(bytes) if media_type == PDF => {
            let name = file.name.as_deref().filter(|name| !name.trim().is_empty()).unwrap_or("file.pdf");
            json!({"type": "file", "file": {"filename": name, "file_data": data_url(PDF, bytes)}})
        }
        Shown::Bytes(bytes) if is_text => {
            let text = clean_text(&String::from_utf8_lossy(bytes));
            as_text(&format!("{}\n{text}", line(file, "it says")))
        }
        Shown::Bytes(_) | Shown::Url(_) => as_text(&line(file, NO_FORM)),
    }
}

/// A media type without its parameters.
fn bare(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
