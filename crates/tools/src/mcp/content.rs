//! What a tool said: text for the model, and what is none as artifacts with a line each about them.

use answerable_core::id::ArtifactId;
use answerable_core::json;
use answerable_core::tool::{Attempt, ErrorCode, Output};
use answerable_ports::{Came, PreparedCall, StoredArtifact};
use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{alphabet, engine::DecodePaddingMode};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::failure::shown;
use super::few::Few;
use crate::http::content::{binary_line, is_media_type};
use crate::mask::Mask;

/// Most blocks of one answer that are read.
const MOST_BLOCKS: usize = 1000;
/// Most artifacts of one answer beside its text.
const MOST_KEPT: usize = 20;
/// Longest block of an unknown kind that is shown as it is, in bytes.
const LONGEST_UNKNOWN: usize = 2000;
const PLAIN: &str = "text/plain; charset=utf-8";
/// Padding or none: senders differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A result as it came.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said<'s> {
    #[serde(borrow, default)]
    content: Option<&'s RawValue>,
    #[serde(borrow, default)]
    structured_content: Option<&'s RawValue>,
    #[serde(borrow, default)]
    is_error: Option<&'s RawValue>,
}

/// A block of content, or the resource in one. Read by hand: the protocol's own types would make a tree of whatever it
/// holds, which costs many times its length.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block<'b> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<&'b RawValue>,
    #[serde(borrow, default)]
    text: Option<&'b RawValue>,
    #[serde(borrow, default)]
    mime_type: Option<&'b RawValue>,
    #[serde(borrow, default)]
    data: Option<&'b RawValue>,
    #[serde(borrow, default)]
    blob: Option<&'b RawValue>,
    #[serde(borrow, default)]
    name: Option<&'b RawValue>,
    #[serde(borrow, default)]
    uri: Option<&'b RawValue>,
    #[serde(borrow, default)]
    size: Option<&'b RawValue>,
    #[serde(borrow, default)]
    description: Option<&'b RawValue>,
    #[serde(borrow, default)]
    resource: Option<&'b RawValue>,
}

impl<'b> Block<'b> {
    fn read(text: &'b str) -> Option<Self> {
        // A list would be read field by field.
        Some(text).filter(|text| text.starts_with('{')).and_then(|text| serde_json::from_str(text).ok())
    }
}

/// A field that is text.
fn text(field: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(field?.get()).ok()
}

/// What came of a call that the server answered with `result`.
pub(super) fn read(result: &RawValue, call: &PreparedCall, mask: &Mask) -> Came {
    // A list would be read field by field.
    let object = Some(result.get()).filter(|text| text.starts_with('{'));
    let Some(Ok(said)) = object.map(serde_json::from_str::<Said<'_>>) else {
        let why = "the server's result has no such form as the protocol wants";
        return Attempt::Unclear(ErrorCode::Unavailable, why.into()).into();
    };
    let mut answer = Answer { call, mask, lines: Vec::new(), artifacts: Vec::new() };
    match said.content.map(|content| serde_json::from_str::<Few<'_, MOST_BLOCKS>>(content.get())) {
        Some(Ok(blocks)) => answer.add_all(&blocks),
        // Some put plain text there.
        Some(Err(_)) => answer.lines.push(as_text(said.content.map_or("", RawValue::get))),
        None => {}
    }
    if answer.lines.is_empty()
        && let Some(structured) = said.structured_content
    {
        answer.lines.push(structured.get().to_owned());
    }
    if said.is_error.is_some_and(|flag| flag.get() == "true") { answer.failed() } else { answer.succeeded() }
}

/// An answer while it is read.
struct Answer<'c> {
    call: &'c PreparedCall,
    mask: &'c Mask,
    lines: Vec<String>,
    artifacts: Vec<StoredArtifact>,
}

impl Answer<'_> {
    fn add_all(&mut self, blocks: &Few<'_, MOST_BLOCKS>) {
        for block in &blocks.items {
            let line = self.line(block.get()).unwrap_or_else(|| unknown(block.get()));
            self.lines.push(line);
        }
        if blocks.more > 0 {
            self.lines.push(format!("[{} more blocks of content, which are not read]", blocks.more));
        }
    }

    /// What a block says; nothing where it is of no known kind.
    fn line(&mut self, block: &str) -> Option<String> {
        let block = Block::read(block)?;
        match text(block.kind)?.as_str() {
            "text" => text(block.text),
            "image" | "audio" => Some(self.keep(&text(block.mime_type)?, &text(block.data)?)),
            "resource" => {
                let inner = Block::read(block.resource?.get())?;
                text(inner.text).or_else(|| {
                    Some(self.keep(&text(inner.mime_type).unwrap_or_default(), &text(inner.blob)?))
                })
            }
            "resource_link" => link_line(&block),
            _ => None,
        }
    }

    /// Keeps what is no text, and gives the line about it.
    fn keep(&mut self, media_type: &str, data: &str) -> String {
        let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let known = if is_media_type(&essence) { essence } else { "application/octet-stream".into() };
        let compact: String = data.split_ascii_whitespace().collect();
        let Ok(bytes) = BASE64.decode(compact) else {
            return format!("[{known}: what the server sent of it can't be read]");
        };
        if self.artifacts.len() >= MOST_KEPT {
            return format!("[{known}, {} bytes: not kept, there are too many]", bytes.len());
        }
        let id = ArtifactId(Uuid::now_v7());
        let line = binary_line(&known, bytes.len(), id);
        let content = Bytes::from(self.mask.bytes(&bytes));
        self.artifacts.push(StoredArtifact { id, call_id: self.call.call_id, media_type: known, content });
        line
    }

    fn text(&self) -> String {
        self.mask.text(&json::clean_text(&self.lines.join("\n")))
    }

    /// The tool says itself that it failed, so nothing happened that it would not tell. What its words name is kept.
    fn failed(mut self) -> Came {
        let text = shown(&self.text());
        self.artifacts.retain(|kept| text.contains(&kept.id.to_string()));
        let message = if text.is_empty() { "the tool failed and said nothing".into() } else { text };
        Came { attempt: Attempt::Refused(ErrorCode::Internal, message), artifacts: self.artifacts }
    }

    fn succeeded(mut self) -> Came {
        let text = self.text();
        let mut output = Output::limited(&text, &self.call.tool.output, self.call.artifact_id);
        if output.needs_artifact() {
            self.artifacts.push(StoredArtifact {
                id: self.call.artifact_id,
                call_id: self.call.call_id,
                media_type: PLAIN.into(),
                content: Bytes::from(text),
            });
        } else {
            output.artifact_id = self.artifacts.first().map(|kept| kept.id);
        }
        Came { attempt: Attempt::Succeeded(output), artifacts: self.artifacts }
    }
}

/// A link to something that the server has.
fn link_line(link: &Block<'_>) -> Option<String> {
    let mut line = format!("[resource: {} ({})", text(link.name)?, text(link.uri)?);
    if let Some(media_type) = text(link.mime_type) {
        line.push_str(&format!(", {media_type}"));
    }
    if let Some(size) = link.size.and_then(|size| size.get().parse::<u64>().ok()) {
        line.push_str(&format!(", {size} bytes"));
    }
    line.push(']');
    if let Some(description) = text(link.description) {
        line.push_str(&format!(" {description}"));
    }
    Some(line)
}

fn unknown(block: &str) -> String {
    if block.len() > LONGEST_UNKNOWN { "[content of an unknown kind]".into() } else { as_text(block) }
}

/// A JSON string as its text, anything else as it is written.
fn as_text(raw: &str) -> String {
    serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned())
}
