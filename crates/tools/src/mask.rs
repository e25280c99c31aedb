//! Secrets that the far side echoes are taken out before anything is kept or shown.

use serde_json::Value;

/// What stands in a secret's place.
const STARS: &str = "***";
/// Shorter values are left alone: they would be found everywhere.
const SHORTEST: usize = 6;

/// The secrets of one call, in the spellings that echoes come in.
#[derive(Clone, Default)]
pub struct Mask {
    /// Longest first, so that no part of a secret is left beside a shorter one's stars.
    spellings: Vec<String>,
}

// Written by hand: a derived one would show the secrets.
impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").field("spellings", &self.spellings.len()).finish()
    }
}

impl Mask {
    /// A mask of these secrets. One of fewer than six bytes is not masked.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut spellings: Vec<String> = secrets.into_iter().flat_map(spellings_of).collect();
        spellings.retain(|spelling| spelling.len() >= SHORTEST);
        spellings.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        spellings.dedup();
        Self { spellings }
    }

    /// The text without secrets.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        self.spellings.iter().fold(text.to_owned(), |text, spelling| {
            if text.contains(spelling.as_str()) { text.replace(spelling.as_str(), STARS) } else { text }
        })
    }

    /// The bytes without secrets.
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.spellings.iter().fold(bytes.to_vec(), |bytes, spelling| replace(&bytes, spelling.as_bytes()))
    }

    /// Whether there is a secret in the text.
    #[must_use]
    pub fn finds(&self, text: &str) -> bool {
        self.spellings.iter().any(|spelling| text.contains(spelling.as_str()))
    }

    /// Whether there is a secret in a string or a name of the value.
    #[must_use]
    pub fn finds_in(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.finds(text),
            Value::Array(items) => items.iter().any(|item| self.finds_in(item)),
            Value::Object(map) => map.iter().any(|(name, item)| self.finds(name) || self.finds_in(item)),
            _ => false,
        }
    }

    /// Length in bytes of the longest spelling of a secret.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.spellings.first().map_or(0, String::len)
    }

    /// How many bytes at the end of `text` may be the beginning of a secret.
    #[must_use]
    pub fn open_end(&self, text: &str) -> usize {
        let is_beginning = |end: &str| self.spellings.iter().any(|spelling| spelling.starts_with(end));
        let most = self.longest().saturating_sub(1);
        let starts = text.char_indices().map(|(at, _)| at).skip_while(|at| text.len() - at > most);
        starts.map(|at| &text[at..]).find(|end| is_beginning(end)).map_or(0, str::len)
    }
}

/// A secret as it is, as JSON writes it (some write `/` as `\/`), and as an address writes it.
fn spellings_of(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    let quoted = Value::from(secret).to_string();
    let quoted = &quoted[1..quoted.len() - 1];
    let in_address: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let bare = secret.strip_prefix("whsec_").unwrap_or(secret);
    vec![secret.into(), bare.into(), quoted.into(), quoted.replace('/', "\\/"), in_address]
}

fn replace(bytes: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(secret.len()).position(|window| window == secret) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(STARS.as_bytes());
        rest = &rest[at + secret.len()..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_spelling_is_masked() {
        let mask = Mask::new(["canary \"1\"/2", "canary \"1\"/2 longer", "tiny", "whsec_MfKQ9r8G"]);
        for (text, wanted) in [
            ("a canary \"1\"/2 b", "a *** b"),
            (r#"{"h": "canary \"1\"/2 longer"}"#, r#"{"h": "***"}"#),
            (r#"{"h": "canary \"1\"\/2 longer"}"#, r#"{"h": "***"}"#),
            ("?h=canary+%221%22%2F2&x", "?h=***&x"),
            ("tiny things stay", "tiny things stay"),
            ("whsec_MfKQ9r8G MfKQ9r8G", "*** ***"),
        ] {
            assert_eq!(mask.text(text), wanted);
            assert_eq!(mask.bytes(text.as_bytes()), wanted.as_bytes());
        }
        assert_eq!(mask.bytes(b"\xffcanary \"1\"/2\xff"), b"\xff***\xff");
        assert!(mask.finds_in(&json!([{"a MfKQ9r8G": 1}])) && !mask.finds_in(&json!(["tiny", 1])));
        assert!(!format!("{mask:?}").contains("canary"));
    }

    #[test]
    fn an_open_end_is_found() {
        let mask = Mask::new(["abcdefgh", "öbcdef"]);
        for (text, wanted) in
            [("x abc", 3), ("x abcdefg", 7), ("x abcx", 0), ("", 0), ("ö", 2), ("a", 1), ("xö", 2)]
        {
            assert_eq!(mask.open_end(text), wanted, "{text}");
        }
        assert_eq!(Mask::default().open_end("abc"), 0);
    }
}
