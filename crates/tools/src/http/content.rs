//! What an answer's body is: text that a model can read, or bytes that are kept for others.

use std::borrow::Cow;

use answerable_core::id::ArtifactId;
use answerable_core::json;
use answerable_core::tool::Output;
use answerable_ports::{PreparedCall, StoredArtifact};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::body::Body;
use crate::mask::Mask;

/// Longest name of a media type that is kept.
const LONGEST_TYPE: usize = 100;

/// A body that was looked at; secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Text { text: String, media_type: String },
    Binary { bytes: Vec<u8>, media_type: String },
}

impl Content {
    /// Looks at a body. Text is mended to what can be stored: no NUL, no lone surrogates, no broken UTF-8.
    pub(crate) fn of(headers: &HeaderMap, body: &Body, mask: &Mask) -> Self {
        let declared = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (essence, parameters) = declared.split_once(';').unwrap_or((declared, ""));
        let essence = essence.trim().to_ascii_lowercase();
        let is_text = match nature(&essence) {
            Nature::Text => true,
            Nature::Binary => body.bytes.is_empty(),
            Nature::Unknown => looks_like_text(body),
        };
        if !is_text {
            let known = if is_media_type(&essence) { essence } else { "application/octet-stream".into() };
            let mut bytes = mask.bytes(&body.bytes);
            if body.is_cut {
                bytes.truncate(bytes.len().saturating_sub(mask.longest()));
            }
            return Self::Binary { bytes, media_type: known };
        }
        let decoded = decode(whole_characters(body), parameters);
        let mended =
            if is_json(&essence, &decoded) { json::mend(&decoded) } else { Cow::Borrowed(&*decoded) };
        let mut text = mask.text(&json::clean_text(&mended));
        if body.is_cut {
            // What was not read may be the rest of a secret.
            text.truncate(text.len() - mask.open_end(&text));
        }
        Self::Text { text, media_type: text_type(&essence) }
    }

    /// The output that the model is shown, under the tool's limits, and the whole where that isn't it.
    pub(super) fn into_output(self, call: &PreparedCall, is_cut: bool) -> (Output, Option<StoredArtifact>) {
        let id = call.artifact_id;
        let (mut output, artifact) = match self {
            Self::Text { text, media_type } => {
                let output = Output::limited(&text, &call.tool.output, id);
                let artifact = output.needs_artifact().then(|| kept(call, media_type, Bytes::from(text)));
                (output, artifact)
            }
            Self::Binary { bytes, media_type } => {
                let line = binary_line(&media_type, bytes.len(), id);
                (
                    Output { artifact_id: Some(id), ..Output::plain(line) },
                    Some(kept(call, media_type, bytes.into())),
                )
            }
        };
        if is_cut && !output.too_large {
            output.content.push_str("\n[the answer was longer than the server reads; its end is lost]");
            output.truncated = true;
        }
        (output, artifact)
    }

    /// The text, for a message about a failure.
    pub(crate) fn into_text(self) -> Option<String> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Binary { .. } => None,
        }
    }
}

enum Nature {
    Text,
    Binary,
    Unknown,
}

fn nature(essence: &str) -> Nature {
    const TEXT: [&str; 9] = [
        "application/json",
        "application/xml",
        "application/javascript",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/yaml",
        "application/x-yaml",
        "application/x-www-form-urlencoded",
    ];
    let (kind, _) = essence.split_once('/').unwrap_or((essence, ""));
    if kind == "text" || TEXT.contains(&essence) || essence.ends_with("+json") || essence.ends_with("+xml") {
        return Nature::Text;
    }
    let is_media = matches!(kind, "image" | "audio" | "video" | "font" | "model");
    let is_packed = matches!(
        essence,
        "application/octet-stream" | "application/pdf" | "application/zip" | "application/gzip"
    );
    if is_media || is_packed { Nature::Binary } else { Nature::Unknown }
}

fn looks_like_text(body: &Body) -> bool {
    let is_utf8 = match std::str::from_utf8(&body.bytes) {
        Ok(_) => true,
        // The limit may lie within a character.
        Err(error) => body.is_cut && error.error_len().is_none(),
    };
    is_utf8 && !body.bytes.contains(&0)
}

/// The bytes without a character that the limit cut in two.
fn whole_characters(body: &Body) -> &[u8] {
    match std::str::from_utf8(&body.bytes) {
        Err(error) if body.is_cut && error.error_len().is_none() => &body.bytes[..error.valid_up_to()],
        _ => &body.bytes,
    }
}

fn decode<'b>(bytes: &'b [u8], parameters: &str) -> Cow<'b, str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let parameters = parameters.to_ascii_lowercase();
    let is_latin = ["iso-8859-1", "latin1", "windows-1252"].iter().any(|name| parameters.contains(name));
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) if is_latin => Cow::Owned(bytes.iter().copied().map(char::from).collect()),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// Escapes mean something in JSON only; some services send it as plain text.
fn is_json(essence: &str, text: &str) -> bool {
    let is_declared = essence.ends_with("json") || essence.ends_with("jsonl");
    is_declared
        || (text.contains("\\u") && text.trim_start().starts_with(['{', '[']) && json::parse(text).is_ok())
}

pub(crate) fn is_media_type(essence: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-".contains(c);
    let is_pair = essence.split_once('/').is_some_and(|(kind, rest)| {
        !kind.is_empty() && !rest.is_empty() && kind.chars().all(legal) && rest.chars().all(legal)
    });
    is_pair && essence.len() <= LONGEST_TYPE
}

/// The type that text is kept under: by now it is UTF-8, whatever it was.
pub(crate) fn text_type(essence: &str) -> String {
    let known = if is_media_type(essence) { essence } else { "text/plain" };
    if known.starts_with("text/") { format!("{known}; charset=utf-8") } else { known.to_owned() }
}

pub(crate) fn binary_line(media_type: &str, bytes: usize, id: ArtifactId) -> String {
    format!("[binary output: {media_type}, {bytes} bytes, kept as artifact {id}]")
}

fn kept(call: &PreparedCall, media_type: String, content: Bytes) -> StoredArtifact {
    StoredArtifact { id: call.artifact_id, call_id: call.call_id, media_type, content }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(content_type: &str, bytes: &[u8], is_cut: bool) -> Content {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(CONTENT_TYPE, content_type.parse().expect("a value"));
        }
        let body = Body { bytes: Bytes::copy_from_slice(bytes), is_cut };
        Content::of(&headers, &body, &Mask::new(["canary-1"]))
    }

    #[test]
    fn text_and_bytes_are_told_apart() {
        for (content_type, bytes, wanted) in [
            (
                "application/json",
                br#"{"n": 9007199254740993, "x": NaN}"# as &[u8],
                r#"{"n": 9007199254740993, "x": NaN}"#,
            ),
            (
                "application/json",
                br#"{"mood": "\ud83d\u0000 \ud83d\ude00"}"#,
                "{\"mood\": \"\u{fffd}\u{fffd} \\ud83d\\ude00\"}",
            ),
            ("text/plain", br#"{"mood": "\udc00"}"#, "{\"mood\": \"\u{fffd}\"}"),
            ("text/plain", br"[log] C:\u0000\ud83d", r"[log] C:\u0000\ud83d"),
            ("text/plain; charset=utf-8", b"caf\xe9 \xff\0", "caf\u{fffd} \u{fffd}\u{fffd}"),
            ("text/plain; charset=ISO-8859-1", b"caf\xe9", "café"),
            ("text/html", b"\xef\xbb\xbf<p>", "<p>"),
            ("", "größer canary-1".as_bytes(), "größer ***"),
            ("application/x-odd", b"plain", "plain"),
            ("image/svg+xml", b"<svg/>", "<svg/>"),
            ("image/png", b"", ""),
        ] {
            assert_eq!(
                look(content_type, bytes, false).into_text().as_deref(),
                Some(wanted),
                "{content_type}"
            );
        }
        for (content_type, bytes, wanted) in [
            ("image/png", b"\x89PNG" as &[u8], "image/png"),
            ("IMAGE/PNG; q=1", b"x", "image/png"),
            ("application/octet-stream", b"plain", "application/octet-stream"),
            ("", b"\xff\xfe", "application/octet-stream"),
            ("application/x-odd", b"\x00\x01", "application/x-odd"),
            ("odd", b"\xff", "application/octet-stream"),
        ] {
            let Content::Binary { media_type, .. } = look(content_type, bytes, false) else {
                panic!("{content_type}")
            };
            assert_eq!(media_type, wanted);
        }
    }

    #[test]
    fn a_cut_parts_neither_characters_nor_secrets() {
        for (bytes, wanted) in [
            ("0123456789 canary-".as_bytes(), "0123456789 "),
            ("canary-1 canary-1canary-".as_bytes(), "*** ***"),
            ("0123456789é".as_bytes(), "0123456789é"),
            (&"0123456789é".as_bytes()[..11], "0123456789"),
        ] {
            assert_eq!(look("text/plain", bytes, true).into_text().as_deref(), Some(wanted));
        }
    }
}
