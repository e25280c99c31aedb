//! Reading what is sent.

use serde_json::Value;

use super::fields::{Fields, needed};
use super::{
    Content, InputAttachment, InputMessage, InputPart, InputSource, MAX_ATTACHMENTS, MAX_BROUGHT_BYTES,
    MAX_MESSAGES, MAX_PARTS, MAX_TEXT, attachment,
};
use crate::field_error::FieldError;
use crate::message::Role;

/// Reads an input: a text of the user's, or a conversation so far.
///
/// # Errors
/// The first fault, with a pointer from the input on.
pub fn read_input(input: &Value) -> Result<Vec<InputMessage>, FieldError> {
    let list = match input {
        Value::String(text) => return Ok(vec![InputMessage::of_user(whole_text(text)?)]),
        Value::Array(list) => list,
        _ => return Err(FieldError::new("", "must be a text or a list of messages")),
    };
    if list.is_empty() || list.len() > MAX_MESSAGES {
        return Err(FieldError::new("", format!("has from 1 to {MAX_MESSAGES} messages")));
    }
    let mut tally = Tally::default();
    let read = |(place, message)| tally.message(message).map_err(|fault| fault.under(&format!("/{place}")));
    list.iter().enumerate().map(read).collect()
}

/// Reads what is said to a live run: a text, or pieces.
///
/// # Errors
/// The first fault, with a pointer from the content on.
pub fn read_content(content: &Value) -> Result<Content, FieldError> {
    Tally::default().content(content, Role::User)
}

/// What a request has brought so far.
#[derive(Debug, Default)]
struct Tally {
    attachments: usize,
    bytes: usize,
}

impl Tally {
    fn message(&mut self, message: &Value) -> Result<InputMessage, FieldError> {
        let fields = Fields::of(message, &["role", "content", "pinned"])?;
        let role = match fields.text("role")? {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some(_) => return Err(FieldError::new("/role", "is user or assistant")),
            None => return Err(needed("role")),
        };
        let pinned = match fields.get("pinned") {
            None => false,
            Some(Value::Bool(pinned)) => *pinned,
            Some(_) => return Err(FieldError::new("/pinned", "must be true or false")),
        };
        if pinned && role != Role::User {
            return Err(FieldError::new("/pinned", "only a message of the user's can be pinned"));
        }
        let content = fields.get("content").ok_or_else(|| needed("content"))?;
        let content = self.content(content, role).map_err(|fault| fault.under("/content"))?;
        Ok(InputMessage { role, content, pinned })
    }

    fn content(&mut self, content: &Value, role: Role) -> Result<Content, FieldError> {
        let list = match content {
            Value::String(text) => return whole_text(text),
            Value::Array(list) if role == Role::User => list,
            Value::Array(_) => return Err(FieldError::new("", "is text: an assistant sends nothing else")),
            _ => return Err(FieldError::new("", "must be a text or a list of parts")),
        };
        if list.is_empty() || list.len() > MAX_PARTS {
            return Err(FieldError::new("", format!("has from 1 to {MAX_PARTS} parts")));
        }
        let read =
            |(place, part)| self.part(part).map_err(|fault: FieldError| fault.under(&format!("/{place}")));
        let content = Content::of(list.iter().enumerate().map(read).collect::<Result<_, _>>()?);
        fits(&content.text)?;
        Ok(content)
    }

    fn part(&mut self, part: &Value) -> Result<InputPart, FieldError> {
        let kind = part.get("type").ok_or_else(|| needed("type"))?;
        match kind.as_str() {
            Some("text") => {
                let fields = Fields::of(part, &["type", "text"])?;
                let text = fields.text("text")?.ok_or_else(|| needed("text"))?;
                if text.is_empty() {
                    return Err(FieldError::new("/text", "is empty"));
                }
                Ok(InputPart::Text(text.to_owned()))
            }
            Some("image") => {
                let fields = Fields::of(part, &["type", "media_type", "data", "url", "artifact_id"])?;
                self.counted(attachment::image(&fields)?).map(InputPart::Image)
            }
            Some("file") => {
                let fields = Fields::of(part, &["type", "name", "media_type", "data", "url", "artifact_id"])?;
                self.counted(attachment::file(&fields)?).map(InputPart::File)
            }
            _ => Err(FieldError::new("/type", "is text, image or file")),
        }
    }

    fn counted(&mut self, attachment: InputAttachment) -> Result<InputAttachment, FieldError> {
        self.attachments += 1;
        if self.attachments > MAX_ATTACHMENTS {
            let words = format!("a request has {MAX_ATTACHMENTS} pictures and files at most");
            return Err(FieldError::new("", words));
        }
        if let InputSource::Data(data) = &attachment.source {
            self.bytes += data.len();
        }
        if self.bytes > MAX_BROUGHT_BYTES {
            let words = format!("a request's pictures and files have {MAX_BROUGHT_BYTES} bytes at most");
            return Err(FieldError::new("/data", words));
        }
        Ok(attachment)
    }
}

fn whole_text(text: &str) -> Result<Content, FieldError> {
    if text.is_empty() {
        return Err(FieldError::new("", "is empty"));
    }
    fits(text)?;
    Ok(text.into())
}

fn fits(text: &str) -> Result<(), FieldError> {
    // Bytes are never fewer than characters.
    if text.len() > MAX_TEXT && text.chars().count() > MAX_TEXT {
        return Err(FieldError::new("", format!("the text of a message has {MAX_TEXT} characters at most")));
    }
    Ok(())
}
