//! What bytes are: media types as they are named, and pictures by their first bytes.

/// The pictures that models take.
pub(super) const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Longest name of a media type.
const MAX_MEDIA_TYPE: usize = 127;

/// Bytes from the beginning that tell what a picture is.
pub(super) const HEAD: usize = 12;

/// The type of a picture that begins with these bytes.
pub(super) fn picture_of(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// A media type as it is stored: `type/subtype` in lower case, then its parameters as they came. `None`: it is none.
pub(super) fn media_type(text: &str) -> Option<String> {
    let (essence, parameters) = match text.find(';') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let essence = essence.trim_end_matches(' ');
    let (kind, subtype) = essence.split_once('/')?;
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_token);
    let is_printable = parameters.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_one = text.len() <= MAX_MEDIA_TYPE && is_name(kind) && is_name(subtype) && is_printable;
    is_one.then(|| format!("{}{parameters}", essence.to_ascii_lowercase()))
}

/// A character of an HTTP token.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
