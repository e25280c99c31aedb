//! How a secret may be written when it comes back.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

/// A secret as it is; as JSON, HTML and addresses write it; in base64, wherever in what was encoded it stood (as after the
/// user in `Basic dXNlcjo…`); and in hexadecimal digits.
pub(super) fn of(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    let bare = secret.strip_prefix("whsec_").unwrap_or(secret);
    let mut all = vec![secret.to_owned(), bare.to_owned()];
    // What nobody has to escape is written in one way.
    if !secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        all.extend(in_json(secret));
        all.extend(in_html(secret));
        all.extend(in_addresses(secret));
    }
    // A few bytes would be few characters of their own, and be found everywhere.
    if secret.len() >= super::SHORTEST {
        all.extend((0..3).flat_map(|before| in_base64(secret.as_bytes(), before)));
        all.extend([hex(secret.as_bytes(), false), hex(secret.as_bytes(), true)]);
    }
    all
}

/// What writers of JSON escape besides what they must: nothing, what HTML knows, or more of that.
const ESCAPED: [&str; 4] = ["", "<>&", "<>&'", "<>&'\"+`"];

/// With each of these escaped or not, and with non-ASCII characters and slashes, in digits of either case.
fn in_json(secret: &str) -> Vec<String> {
    let mut all = Vec::new();
    for escaped in ESCAPED {
        for (is_ascii, slashes, upper) in (0..8).map(|n| (n & 1 > 0, n & 2 > 0, n & 4 > 0)) {
            let is_escaped = |c: char| escaped.contains(c) || (is_ascii && !c.is_ascii());
            let text: String = secret
                .chars()
                .map(|c| match c {
                    c if is_escaped(c) => code(c, upper),
                    '/' if slashes => "\\/".to_owned(),
                    c => quoted(c),
                })
                .collect();
            all.push(text);
        }
    }
    // JSON that stands as a text within JSON is escaped once more.
    let twice: Vec<String> = all.iter().map(|text| text.chars().map(quoted).collect()).collect();
    all.into_iter().chain(twice).collect()
}

/// A character as JSON must write it.
fn quoted(c: char) -> String {
    let quoted = Value::from(c.to_string()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// A character by its number.
fn code(c: char, upper: bool) -> String {
    let units = c.encode_utf16(&mut [0; 2]).to_vec();
    let code = |unit: u16| if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
    units.into_iter().map(code).collect()
}

fn in_html(secret: &str) -> Vec<String> {
    let plain = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let quoted = plain.replace('"', "&quot;");
    vec![
        quoted.replace('\'', "&#39;"),
        quoted.replace('\'', "&#x27;"),
        plain.replace('"', "&#34;").replace('\'', "&#39;"),
        quoted,
        plain,
    ]
}

/// As forms and as paths are written, with digits of either case.
fn in_addresses(secret: &str) -> Vec<String> {
    let percent = |is_plain: &dyn Fn(u8) -> bool, space: &str, upper: bool| {
        secret.bytes().fold(String::new(), |mut text, byte| {
            match byte {
                b' ' => text.push_str(space),
                byte if is_plain(byte) => text.push(char::from(byte)),
                byte if upper => _ = write!(text, "%{byte:02X}"),
                byte => _ = write!(text, "%{byte:02x}"),
            }
            text
        })
    };
    let form = |byte: u8| byte.is_ascii_alphanumeric() || b"*-._".contains(&byte);
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let component = |byte: u8| unreserved(byte) || b"!*'()".contains(&byte);
    let mut all = Vec::new();
    for upper in [true, false] {
        all.push(percent(&form, "+", upper));
        all.push(percent(&unreserved, "%20", upper));
        all.push(percent(&component, "%20", upper));
    }
    all
}

/// The characters that depend on the secret alone, after `before` other bytes; what follows may be anything, too.
fn in_base64(secret: &[u8], before: usize) -> [String; 2] {
    let shifted = [vec![0; before], secret.to_vec()].concat();
    // The first characters hold bits of what stands before, the last one may hold bits of what comes after.
    let first = (before * 8).div_ceil(6);
    let last = shifted.len() * 8 / 6;
    [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)]
        .map(|text| text[first..last].to_owned())
}

fn hex(secret: &[u8], upper: bool) -> String {
    secret.iter().fold(String::new(), |mut text, byte| {
        let _ = if upper { write!(text, "{byte:02X}") } else { write!(text, "{byte:02x}") };
        text
    })
}
