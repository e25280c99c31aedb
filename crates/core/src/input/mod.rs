//! What a run is given to work on: its `input`, and what is said to it later. A text, or pieces: text, pictures, documents.
//! It comes from outside, so all of it is judged here, before anything is stored.

mod attachment;
mod fields;
mod media;
mod read;
#[cfg(test)]
mod tests;

use crate::id::ArtifactId;
use crate::message::Role;

pub use attachment::{Kept, MAX_ATTACHMENT_BYTES};
pub use read::{read_content, read_input};

/// Messages that an input may have.
pub const MAX_MESSAGES: usize = 1000;
/// Pieces that a message may have.
pub const MAX_PARTS: usize = 32;
/// Pictures and documents that one request may bring or refer to.
pub const MAX_ATTACHMENTS: usize = 100;
/// Bytes of pictures and documents that one request may bring.
pub const MAX_BROUGHT_BYTES: usize = 20 * 1024 * 1024;
/// Characters that the text of a message may have.
pub const MAX_TEXT: usize = 1024 * 1024;

/// A message of a run's `input` (contract, "Runs").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputMessage {
    /// `user` or `assistant`.
    pub role: Role,
    /// What it says.
    pub content: Content,
    /// No context leaves it out.
    pub pinned: bool,
}

/// What a message says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// Its text; of several pieces of text, each stands on a line of its own.
    pub text: String,
    /// Its pieces in order, where it is more than text.
    pub parts: Vec<InputPart>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputPart {
    /// Text.
    Text(String),
    /// A picture.
    Image(InputAttachment),
    /// A document.
    File(InputAttachment),
}

/// A picture or a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputAttachment {
    /// What it is; empty where it wasn't said and can't be seen.
    pub media_type: String,
    /// A file's name.
    pub name: Option<String>,
    /// Where it is.
    pub source: InputSource,
}

/// Where a picture or a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputSource {
    /// Here.
    Data(Vec<u8>),
    /// At an address that the provider fetches it from.
    Url(String),
    /// Kept from earlier. Whether the tenant has it is not known yet.
    Artifact(ArtifactId),
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self { text, parts: Vec::new() }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl InputMessage {
    /// It is more than text that may be left out.
    pub fn is_more(&self) -> bool {
        self.pinned || !self.content.parts.is_empty()
    }

    /// Text of the user's.
    pub fn of_user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into(), pinned: false }
    }
}

impl Content {
    /// Of these pieces; text alone has no pieces.
    fn of(parts: Vec<InputPart>) -> Self {
        let is_text = |part: &InputPart| matches!(part, InputPart::Text(_));
        let texts: Vec<&str> = parts.iter().filter_map(InputPart::text).collect();
        let text = texts.join("\n");
        if parts.iter().all(is_text) { text.into() } else { Self { text, parts } }
    }

    /// Artifacts that it refers to, with the places of the pieces that do.
    pub fn referred(&self) -> impl Iterator<Item = (usize, ArtifactId)> {
        self.parts.iter().enumerate().filter_map(|(place, part)| match part.attachment()?.source {
            InputSource::Artifact(id) => Some((place, id)),
            _ => None,
        })
    }

    /// Whether something comes with it that is to be kept.
    pub fn brings(&self) -> bool {
        let is_here = |part: &InputPart| {
            part.attachment().is_some_and(|attachment| matches!(attachment.source, InputSource::Data(_)))
        };
        self.parts.iter().any(is_here)
    }

    /// Addresses in it, with the places of the pieces that have them.
    pub fn addresses(&self) -> impl Iterator<Item = (usize, &str)> {
        self.parts.iter().enumerate().filter_map(|(place, part)| match &part.attachment()?.source {
            InputSource::Url(url) => Some((place, url.as_str())),
            _ => None,
        })
    }
}

impl InputPart {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The picture or document that it is.
    pub fn attachment(&self) -> Option<&InputAttachment> {
        match self {
            Self::Text(_) => None,
            Self::Image(attachment) | Self::File(attachment) => Some(attachment),
        }
    }
}
