//! Pictures and documents as they are sent: in the request, at an address, or kept from earlier.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::fields::{Fields, needed};
use super::media::{self, PICTURES};
use super::{InputAttachment, InputPart, InputSource};
use crate::field_error::FieldError;
use crate::id::ArtifactId;
use crate::message::{Attachment, AttachmentSource, Part};

/// Bytes that one picture or document may have.
pub const MAX_ATTACHMENT_BYTES: usize = 16 * 1024 * 1024;
/// Longest address.
const MAX_URL: usize = 8192;
/// Longest name of a file, in characters.
const MAX_NAME: usize = 255;

/// Base64 with its padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An artifact of the tenant, as far as whoever refers to it must know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What it is.
    pub media_type: String,
    /// Its size.
    pub bytes: u64,
    /// Its first bytes.
    pub head: Vec<u8>,
}

impl Kept {
    /// How many of its first bytes are asked for.
    pub const HEAD: usize = media::HEAD;
}

/// Reads a picture.
pub(super) fn image(fields: &Fields<'_>) -> Result<InputAttachment, FieldError> {
    let named = media_type(fields)?;
    if let Some(named) = &named {
        is_picture(named).map_err(|words| FieldError::new("/media_type", words))?;
    }
    let source = source(fields)?;
    let media_type = match (&source, named) {
        (InputSource::Data(data), named) => {
            let seen = media::picture_of(data).ok_or_else(|| FieldError::new("/data", no_picture()))?;
            match named {
                Some(named) if named != seen => {
                    return Err(FieldError::new("/media_type", format!("the data is {seen}")));
                }
                _ => seen.to_owned(),
            }
        }
        (_, named) => named.unwrap_or_default(),
    };
    Ok(InputAttachment { media_type, name: None, source })
}

/// Reads a document.
pub(super) fn file(fields: &Fields<'_>) -> Result<InputAttachment, FieldError> {
    let name = fields.text("name")?;
    if let Some(name) = name
        && (name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control))
    {
        let words = format!("has from 1 to {MAX_NAME} characters, none of them a control character");
        return Err(FieldError::new("/name", words));
    }
    let media_type = media_type(fields)?;
    let source = source(fields)?;
    // What is kept has a type already.
    if media_type.is_none() && !matches!(source, InputSource::Artifact(_)) {
        return Err(needed("media_type"));
    }
    Ok(InputAttachment { media_type: media_type.unwrap_or_default(), name: name.map(str::to_owned), source })
}

fn media_type(fields: &Fields<'_>) -> Result<Option<String>, FieldError> {
    let Some(text) = fields.text("media_type")? else { return Ok(None) };
    let fault = || FieldError::new("/media_type", "is no media type such as application/pdf");
    media::media_type(text).map(Some).ok_or_else(fault)
}

fn is_picture(media_type: &str) -> Result<(), String> {
    if PICTURES.contains(&media_type) { Ok(()) } else { Err(no_picture()) }
}

fn no_picture() -> String {
    format!("a picture is one of {}", PICTURES.join(", "))
}

/// The one place where it is.
fn source(fields: &Fields<'_>) -> Result<InputSource, FieldError> {
    let (data, url, id) = (fields.text("data")?, fields.text("url")?, fields.text("artifact_id")?);
    match (data, url, id) {
        (Some(data), None, None) => decoded(data).map(InputSource::Data),
        (None, Some(url), None) => {
            check_address(url).map_err(|words| FieldError::new("/url", words))?;
            Ok(InputSource::Url(url.to_owned()))
        }
        (None, None, Some(id)) => {
            let id = id.parse::<ArtifactId>().map_err(|_| FieldError::new("/artifact_id", UNKNOWN))?;
            Ok(InputSource::Artifact(id))
        }
        (None, None, None) => Err(FieldError::new("", "one of data, url and artifact_id is needed")),
        _ => Err(FieldError::new("", "has only one of data, url and artifact_id")),
    }
}

const UNKNOWN: &str = "there is no such artifact";

fn decoded(text: &str) -> Result<Vec<u8>, FieldError> {
    let fault = |words: String| Err(FieldError::new("/data", words));
    if text.is_empty() {
        return fault("is empty".into());
    }
    // Four characters stand for three bytes.
    if text.len() > MAX_ATTACHMENT_BYTES.div_ceil(3) * 4 {
        return fault(too_large());
    }
    match BASE64.decode(text) {
        Ok(data) if data.len() > MAX_ATTACHMENT_BYTES => fault(too_large()),
        Ok(data) => Ok(data),
        Err(_) => {
            fault("is not base64 (the standard alphabet, without line breaks or a data: prefix)".into())
        }
    }
}

fn too_large() -> String {
    format!("a picture or file has {MAX_ATTACHMENT_BYTES} bytes at most")
}

/// An address that a provider may be sent to: http or https, with a host and no user. Parsers strip what a sender may have
/// put in to be read otherwise by others, so that is refused here.
fn check_address(text: &str) -> Result<(), String> {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\\' | '\u{fffd}');
    if text.len() > MAX_URL {
        return Err(format!("has {MAX_URL} bytes at most"));
    }
    if text.chars().any(is_odd) {
        return Err("has characters that no address has".into());
    }
    match url::Url::parse(text) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("an address has no user here: the provider would be told it".into())
        }
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(()),
        Ok(_) => Err("must be an http or https address".into()),
        Err(error) => Err(format!("not an address: {error}")),
    }
}

impl InputPart {
    /// The piece as it is stored. `kept`: the artifact that it refers to, if the tenant has that; `put` keeps what came
    /// with it.
    ///
    /// # Errors
    /// It refers to what isn't there or doesn't fit; the pointer is one from the piece on.
    pub fn stored<'a>(
        &'a self,
        kept: Option<&Kept>,
        put: impl FnOnce(&'a InputAttachment, &'a [u8]) -> ArtifactId,
    ) -> Result<Part, FieldError> {
        let (attachment, is_image) = match self {
            Self::Text(text) => return Ok(Part::Text(text.clone())),
            Self::Image(attachment) => (attachment, true),
            Self::File(attachment) => (attachment, false),
        };
        let mut media_type = attachment.media_type.clone();
        let source = match &attachment.source {
            InputSource::Data(data) => {
                let bytes = data.len() as u64;
                AttachmentSource::Artifact { id: put(attachment, data), bytes }
            }
            InputSource::Url(url) => AttachmentSource::Url(url.clone()),
            InputSource::Artifact(id) => {
                let kept = kept.ok_or_else(|| FieldError::new("/artifact_id", UNKNOWN))?;
                media_type = referred(&media_type, is_image, kept)?;
                AttachmentSource::Artifact { id: *id, bytes: kept.bytes }
            }
        };
        let attachment = Attachment { media_type, name: attachment.name.clone(), source };
        Ok(if is_image { Part::Image(attachment) } else { Part::File(attachment) })
    }
}

/// The media type of what is referred to: a picture's by its bytes, a document's as the request has it.
fn referred(named: &str, is_image: bool, kept: &Kept) -> Result<String, FieldError> {
    if kept.bytes > MAX_ATTACHMENT_BYTES as u64 {
        return Err(FieldError::new("/artifact_id", too_large()));
    }
    if !is_image {
        return Ok(if named.is_empty() { kept.media_type.clone() } else { named.to_owned() });
    }
    let seen = media::picture_of(&kept.head).ok_or_else(|| FieldError::new("/artifact_id", no_picture()))?;
    if !named.is_empty() && named != seen {
        return Err(FieldError::new("/media_type", format!("the artifact is {seen}")));
    }
    Ok(seen.to_owned())
}
