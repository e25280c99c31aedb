//! How a secret may be written when it comes back.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A way to write a secret. Whatever secrets begin with the same, their beginnings are written the same in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is.
    Plain,
    /// As JSON writes it: what it escapes besides what it must, and in digits of which case; `is_twice`: JSON that stands as
    /// a text within JSON.
    Json { escaped: &'static str, is_ascii: bool, slashes: bool, upper: bool, is_twice: bool },
    /// As HTML writes it.
    Html { quote: &'static str, apostrophe: &'static str },
    /// As a form or a path of an address: what isn't percent-encoded besides letters and digits, and what stands for a space.
    Address { plain: &'static str, space: &'static str, upper: bool },
    /// In hexadecimal digits.
    Hex { upper: bool },
    /// In base64 after so many other bytes (as after the user in `Basic dXNlcjo…`): the characters that depend on it alone.
    Base64 { before: usize, is_url: bool },
}

/// What writers of JSON escape besides what they must: nothing, what HTML knows, or more of that.
const ESCAPED: [&str; 4] = ["", "<>&", "<>&'", "<>&'\"+`"];
/// How writers of HTML write quotes and apostrophes.
const QUOTES: [(&str, &str); 5] =
    [("&quot;", "&#39;"), ("&quot;", "&#x27;"), ("&#34;", "&#39;"), ("&quot;", "'"), ("\"", "'")];
/// What forms and paths leave as it is, and how they write a space.
const ADDRESSES: [(&str, &str); 3] = [("*-._", "+"), ("-._~", "%20"), ("-._~!*'()", "%20")];

/// Forms of a secret that has characters that somebody escapes.
pub(super) fn escaping() -> impl Iterator<Item = Form> {
    let json = ESCAPED.into_iter().flat_map(|escaped| {
        (0..16).map(move |n| Form::Json {
            escaped,
            is_ascii: n & 1 > 0,
            slashes: n & 2 > 0,
            upper: n & 4 > 0,
            is_twice: n & 8 > 0,
        })
    });
    let html = QUOTES.into_iter().map(|(quote, apostrophe)| Form::Html { quote, apostrophe });
    let addresses = ADDRESSES
        .into_iter()
        .flat_map(|(plain, space)| [true, false].map(|upper| Form::Address { plain, space, upper }));
    json.chain(html).chain(addresses)
}

/// Forms that write any secret in other characters.
pub(super) fn encoding() -> impl Iterator<Item = Form> {
    let base64 = (0..3).flat_map(|before| [true, false].map(|is_url| Form::Base64 { before, is_url }));
    base64.chain([true, false].map(|upper| Form::Hex { upper }))
}

impl Form {
    /// The whole.
    pub(super) fn write(self, secret: &str) -> String {
        if let Self::Base64 { before, is_url } = self {
            return base64(secret.as_bytes(), before, is_url);
        }
        let mut text = String::with_capacity(secret.len());
        secret.chars().for_each(|c| self.letter(c, &mut text));
        text
    }

    /// Writes a character; in base64 they have none of their own.
    pub(super) fn letter(self, c: char, out: &mut String) {
        match self {
            Self::Hex { .. } => self.bytes(c, "", out),
            _ if c.is_ascii_alphanumeric() => out.push(c),
            Self::Json { is_twice: true, escaped, is_ascii, slashes, upper } => {
                let mut once = String::new();
                Self::Json { is_twice: false, escaped, is_ascii, slashes, upper }.letter(c, &mut once);
                once.chars().for_each(|c| quoted(c, out));
            }
            Self::Json { escaped, is_ascii, .. } if escaped.contains(c) || (is_ascii && !c.is_ascii()) => {
                code(c, self.is_upper(), out);
            }
            Self::Json { slashes: true, .. } if c == '/' => out.push_str("\\/"),
            Self::Json { .. } => quoted(c, out),
            Self::Html { quote, apostrophe } => match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str(quote),
                '\'' => out.push_str(apostrophe),
                c => out.push(c),
            },
            Self::Address { space, .. } if c == ' ' => out.push_str(space),
            Self::Address { plain, .. } if plain.contains(c) => out.push(c),
            Self::Address { .. } => self.bytes(c, "%", out),
            Self::Plain | Self::Base64 { .. } => out.push(c),
        }
    }

    /// Length in bytes of what is written of a secret of `bytes`, whose characters are `letters`, each so often.
    pub(super) fn length(self, bytes: usize, letters: &[(char, usize)]) -> usize {
        if let Self::Base64 { before, .. } = self {
            let (first, last) = of_its_own(bytes, before);
            return last - first;
        }
        let mut text = String::new();
        let lengths = letters.iter().map(|(c, count)| {
            text.clear();
            self.letter(*c, &mut text);
            text.len() * count
        });
        lengths.sum()
    }

    fn is_upper(self) -> bool {
        matches!(
            self,
            Self::Json { upper: true, .. } | Self::Address { upper: true, .. } | Self::Hex { upper: true }
        )
    }

    fn bytes(self, c: char, sign: &str, out: &mut String) {
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            out.push_str(sign);
            digits(u32::from(byte), 2, self.is_upper(), out);
        }
    }
}

/// A character as JSON must write it.
fn quoted(c: char, out: &mut String) {
    match c {
        '"' | '\\' => out.extend(['\\', c]),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        c if c < ' ' => code(c, false, out),
        c => out.push(c),
    }
}

/// A character by its number.
fn code(c: char, upper: bool, out: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        out.push_str("\\u");
        digits(u32::from(*unit), 4, upper, out);
    }
}

fn digits(number: u32, count: u32, upper: bool, out: &mut String) {
    for nth in (0..count).rev() {
        let digit = char::from_digit(number >> (4 * nth) & 15, 16).unwrap_or_default();
        out.push(if upper { digit.to_ascii_uppercase() } else { digit });
    }
}

fn base64(secret: &[u8], before: usize, is_url: bool) -> String {
    let shifted = [vec![0; before], secret.to_vec()].concat();
    let (first, last) = of_its_own(secret.len(), before);
    let text = if is_url { URL_SAFE_NO_PAD.encode(&shifted) } else { STANDARD_NO_PAD.encode(&shifted) };
    text.get(first..last).unwrap_or_default().to_owned()
}

/// The first characters hold bits of what stands before, the last one may hold bits of what comes after.
fn of_its_own(bytes: usize, before: usize) -> (usize, usize) {
    let first = (before * 8).div_ceil(6);
    (first, ((before + bytes) * 8 / 6).max(first))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_json_must_escape_is_escaped_as_it_is_written() {
        let form = Form::Json { escaped: "", is_ascii: false, slashes: false, upper: false, is_twice: false };
        for c in ('\0'..='\u{ff}').chain(['\u{2028}', '\u{fffd}', '\u{1f600}']) {
            assert_eq!(format!("\"{}\"", form.write(&c.to_string())), Value::from(c.to_string()).to_string());
        }
    }
}
