//! What a user said, in pieces where it is more than text.

use answerable_core::message::{Attachment, Message, Part};
use answerable_core::model::ModelRequest;
use answerable_core::provider::OpenAiResponsesOptions;
use serde_json::{Value, json};

use crate::attachments::{GONE, NO_FORM, SWITCHED_OFF, Shown, data_url, find, line};

/// Pictures that the vendor takes.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];
/// Documents that the vendor takes beside text of any kind, and how a name of such a one ends: the vendor tells them by it.
const DOCUMENTS: [(&str, &str); 16] = [
    ("application/pdf", "pdf"),
    ("application/json", "json"),
    ("application/xml", "xml"),
    ("application/rtf", "rtf"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.oasis.opendocument.text", "odt"),
    ("application/vnd.ms-powerpoint", "ppt"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("text/csv", "csv"),
    ("text/tab-separated-values", "tsv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/xml", "xml"),
];

/// A user's content: text alone as a string, which every server takes; nothing where nothing is said.
pub(super) fn of_user(
    message: &Message,
    request: &ModelRequest,
    options: &OpenAiResponsesOptions,
) -> Option<Value> {
    if message.parts.is_empty() {
        return (!message.content.trim().is_empty()).then(|| message.content.as_str().into());
    }
    let pieces: Vec<Value> = message.parts.iter().filter_map(|part| piece(part, request, options)).collect();
    (!pieces.is_empty()).then(|| pieces.into())
}

fn piece(part: &Part, request: &ModelRequest, options: &OpenAiResponsesOptions) -> Option<Value> {
    match part {
        Part::Text(text) => (!text.trim().is_empty()).then(|| as_text(text)),
        Part::Image(image) if !options.images => Some(as_text(&line(image, SWITCHED_OFF))),
        Part::File(file) if !options.files => Some(as_text(&line(file, SWITCHED_OFF))),
        Part::Image(image) => Some(picture(image, request)),
        Part::File(file) => Some(document(file, request)),
    }
}

fn as_text(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

fn picture(image: &Attachment, request: &ModelRequest) -> Value {
    let media_type = bare(&image.media_type);
    if !media_type.is_empty() && !PICTURES.contains(&media_type.as_str()) {
        return as_text(&line(image, NO_FORM));
    }
    let url = match find(request, image) {
        Shown::Bytes(_) if media_type.is_empty() => return as_text(&line(image, NO_FORM)),
        Shown::Bytes(bytes) => data_url(&media_type, bytes),
        Shown::Url(url) => url.to_owned(),
        Shown::Gone => return as_text(&line(image, GONE)),
    };
    json!({"type": "input_image", "image_url": url, "detail": "auto"})
}

fn document(file: &Attachment, request: &ModelRequest) -> Value {
    let media_type = bare(&file.media_type);
    let Some(ending) = ending(&media_type) else { return as_text(&line(file, NO_FORM)) };
    match find(request, file) {
        Shown::Bytes(_) if media_type.is_empty() => as_text(&line(file, NO_FORM)),
        Shown::Bytes(bytes) => {
            let name = file.name.clone().filter(|name| !name.trim().is_empty());
            let name = name.unwrap_or_else(|| format!("file.{ending}"));
            json!({"type": "input_file", "filename": name, "file_data": data_url(&media_type, bytes)})
        }
        Shown::Url(url) => json!({"type": "input_file", "file_url": url}),
        Shown::Gone => as_text(&line(file, GONE)),
    }
}

/// How names of documents of a type end, if the vendor takes them. What only the far side knows may be one.
fn ending(media_type: &str) -> Option<&'static str> {
    let known = DOCUMENTS.iter().find(|(known, _)| *known == media_type).map(|(_, ending)| *ending);
    let is_text = media_type.is_empty() || media_type.starts_with("text/");
    known.or(is_text.then_some("txt"))
}

/// A media type without its parameters.
fn bare(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use answerable_core::id::{ArtifactId, MessageId};
    use answerable_core::message::{AttachmentSource, Role};
    use uuid::Uuid;

    fn attached(media_type: &str, name: Option<&str>, kept: bool) -> Attachment {
        let id = ArtifactId(Uuid::from_u128(if kept { 7 } else { 8 }));
        let source = AttachmentSource::Artifact { id, bytes: 3 };
        Attachment { media_type: media_type.into(), name: name.map(str::to_owned), source }
    }

    fn content(parts: Vec<Part>, options: &Value) -> Value {
        let message = Message { parts, ..Message::text(MessageId(Uuid::nil()), 1, Role::User, "text") };
        let mut request = ModelRequest::default();
        request.attachments.insert(ArtifactId(Uuid::from_u128(7)), b"abc".as_slice().into());
        let options = serde_json::from_value(options.clone()).expect("options");
        of_user(&message, &request, &options).unwrap_or_default()
    }

    #[test]
    fn pieces_stand_in_their_order() {
        let far = AttachmentSource::Url("https://x.example/a.pdf".into());
        let parts = vec![
            Part::Text("Compare".into()),
            Part::Image(attached("image/png", None, true)),
            Part::Text(" \n".into()),
            Part::File(attached("application/pdf; version=1.7", None, true)),
            Part::File(attached("text/x-rust", Some("a.rs"), true)),
            Part::File(Attachment { media_type: String::new(), name: None, source: far }),
        ];
        let wanted = json!([
            {"type": "input_text", "text": "Compare"},
            {"type": "input_image", "image_url": "data:image/png;base64,YWJj", "detail": "auto"},
            {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,YWJj"},
            {"type": "input_file", "filename": "a.rs", "file_data": "data:text/x-rust;base64,YWJj"},
            {"type": "input_file", "file_url": "https://x.example/a.pdf"}]);
        assert_eq!(content(parts, &json!({})), wanted);
    }

    #[test]
    fn what_can_not_be_shown_is_named() {
        let picture = || Part::Image(attached("image/png", None, true));
        let file = || Part::File(attached("application/pdf", None, true));
        for (part, options, why) in [
            (picture(), json!({"images": false}), SWITCHED_OFF),
            (file(), json!({"files": false}), SWITCHED_OFF),
            (Part::Image(attached("image/tiff", None, true)), json!({}), NO_FORM),
            (Part::File(attached("application/zip", None, true)), json!({}), NO_FORM),
            (Part::Image(attached("", None, true)), json!({}), NO_FORM),
            (Part::File(attached("", None, true)), json!({}), NO_FORM),
            (Part::Image(attached("image/png", None, false)), json!({}), GONE),
            (Part::File(attached("application/pdf", None, false)), json!({}), GONE),
        ] {
            let shown = content(vec![part], &options);
            assert_eq!(shown[0]["type"], "input_text");
            assert!(shown[0]["text"].as_str().is_some_and(|text| text.contains(why)), "{shown}");
        }
    }

    #[test]
    fn text_alone_is_a_string_and_blank_text_is_nothing() {
        assert_eq!(content(vec![], &json!({})), json!("text"));
        assert_eq!(content(vec![Part::Text(" ".into())], &json!({})), Value::Null);
    }
}
