//! Pictures and documents of a user's message, as far as they can be shown.

pub(crate) use answerable_core::attachments::{GONE, is_text, line};
use answerable_core::message::{Attachment, AttachmentSource};
use answerable_core::model::ModelRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What there is of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown<'r> {
    /// Its bytes.
    Bytes(&'r [u8]),
    /// An address that the provider fetches it from.
    Url(&'r str),
    /// Nothing any more.
    Gone,
}

/// What a request has of an attachment.
pub(crate) fn find<'r>(request: &'r ModelRequest, attachment: &'r Attachment) -> Shown<'r> {
    match &attachment.source {
        AttachmentSource::Url(url) => Shown::Url(url),
        AttachmentSource::Artifact { id, .. } => {
            request.attachments.get(id).map_or(Shown::Gone, |bytes| Shown::Bytes(bytes))
        }
    }
}

/// Bytes as base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Bytes as an address of their own.
pub(crate) fn data_url(media_type: &str, bytes: &[u8]) -> String {
    format!("data:{media_type};base64,{}", base64(bytes))
}

/// The provider's switch is off.
pub(crate) const SWITCHED_OFF: &str = "this model is not sent such things";
/// The wire has no form for it.
pub(crate) const NO_FORM: &str = "this model can't be sent such a thing";

#[cfg(test)]
mod tests {
    use super::*;
    use answerable_core::id::ArtifactId;
    use uuid::Uuid;

    #[test]
    fn what_can_not_be_shown_is_named() {
        let id = ArtifactId(Uuid::from_u128(7));
        let kept = AttachmentSource::Artifact { id, bytes: 3 };
        let pdf = Attachment {
            media_type: "application/pdf".into(),
            name: Some("a \"b\".pdf".into()),
            source: kept,
        };
        assert_eq!(line(&pdf, GONE), "[application/pdf \"a \\\"b\\\".pdf\", 3 bytes: not kept any more]");
        let far = AttachmentSource::Url("https://x.example/a".into());
        let odd = Attachment { media_type: String::new(), name: None, source: far };
        assert_eq!(line(&odd, NO_FORM), "[an attachment: this model can't be sent such a thing]");
        let mut request = ModelRequest::default();
        assert_eq!(find(&request, &odd), Shown::Url("https://x.example/a"));
        assert_eq!(find(&request, &pdf), Shown::Gone);
        request.attachments.insert(id, b"abc".as_slice().into());
        assert_eq!(find(&request, &pdf), Shown::Bytes(b"abc"));
        assert_eq!(data_url("image/png", b"abc"), "data:image/png;base64,YWJj");
    }
}
