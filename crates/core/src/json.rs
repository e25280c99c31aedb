//! JSON as it comes from outside: parsed without loss of digits, mended once at the door, hashed in one canonical form.

mod repeated;

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

pub use repeated::repeated_name;

/// Stands for a NUL or a lone surrogate between [`mend`] and the place that decides what becomes of it. A noncharacter.
pub const UNFIT: char = '\u{fdd0}';

/// Nesting that any document from outside may have.
pub const MAX_DEPTH: usize = 64;

/// Makes the escapes `\u0000` and lone surrogates of JSON text harmless: each becomes [`UNFIT`], so that strict parsers
/// take the text and its reader can tell where they stood. Text without such escapes is borrowed.
pub fn mend(text: &str) -> Cow<'_, str> {
    let mut out: Option<String> = None;
    let (mut kept, mut at, bytes) = (0, 0, text.as_bytes());
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        let length = escape_length(bytes, at);
        if length == 6 && is_unfit(bytes, at) {
            let out = out.get_or_insert_with(|| String::with_capacity(text.len()));
            out.push_str(&text[kept..at]);
            out.push(UNFIT);
            kept = at + 6;
        }
        at += length;
    }
    match out {
        Some(mut out) => {
            out.push_str(&text[kept..]);
            Cow::Owned(out)
        }
        None => Cow::Borrowed(text),
    }
}

/// Length of the escape at `at`; a surrogate pair counts as one of 12 bytes.
fn escape_length(bytes: &[u8], at: usize) -> usize {
    match unit(bytes, at) {
        Some(0xd800..=0xdbff) if matches!(unit(bytes, at + 6), Some(0xdc00..=0xdfff)) => 12,
        Some(_) => 6,
        None => 2,
    }
}

fn is_unfit(bytes: &[u8], at: usize) -> bool {
    matches!(unit(bytes, at), Some(0 | 0xd800..=0xdfff))
}

/// The UTF-16 unit of a `\uXXXX` escape at `at`.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let hex = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// Parses JSON text from outside, mended; digits are kept as they came.
///
/// # Errors
/// Text that is no JSON, or that is nested deeper than [`MAX_DEPTH`].
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let value: Value = serde_json::from_str(&mend(text))?;
    if deeper_than(&value, MAX_DEPTH) {
        return Err(serde::de::Error::custom(format!("nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(value)
}

/// Whether `value` is nested deeper than `depth` levels.
pub fn deeper_than(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth == 0 || items.iter().any(|item| deeper_than(item, depth - 1)),
        Value::Object(map) => depth == 0 || map.values().any(|item| deeper_than(item, depth - 1)),
        _ => false,
    }
}

/// `text` with what is unfit for storage replaced by U+FFFD.
pub fn clean_text(text: &str) -> String {
    text.replace(['\0', UNFIT], "\u{fffd}")
}

/// `value` with what is unfit for storage replaced by U+FFFD, in strings and names.
#[must_use]
pub fn clean(value: Value) -> Value {
    match value {
        Value::String(text) if text.contains(['\0', UNFIT]) => Value::String(clean_text(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(clean).collect()),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(name, item)| (clean_text(&name), clean(item))).collect())
        }
        other => other,
    }
}

/// Pointer of the first string or name in `value` that is unfit for storage.
pub fn find_unfit(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.contains(['\0', UNFIT]).then(String::new),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(i, item)| find_unfit(item).map(|rest| format!("/{i}{rest}")))
        }
        Value::Object(map) => map.iter().find_map(|(name, item)| {
            let token = crate::field_error::pointer_token(&clean_text(name));
            if name.contains(['\0', UNFIT]) {
                return Some(format!("/{token}"));
            }
            find_unfit(item).map(|rest| format!("/{token}{rest}"))
        }),
        _ => None,
    }
}

/// `sha256:` and the hex SHA-256 of the canonical form: RFC 8785, but integer literals keep all their digits
/// (contract, "Ledger entry"). Two spellings of one input have one hash.
pub fn input_hash(value: &Value) -> String {
    sha256_hex(canonical(value).as_bytes())
}

/// `sha256:` and the hex SHA-256 of `bytes`.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut out = String::from("sha256:");
    for byte in Sha256::digest(bytes) {
        // Writing to a String can't fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The canonical text of `value`; see [`input_hash`].
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => out.push_str(&canonical_number(number)),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => write_object(map, out),
        // null, booleans and strings: serde_json writes them as RFC 8785 wants.
        plain => out.push_str(&plain.to_string()),
    }
}

fn write_object(map: &Map<String, Value>, out: &mut String) {
    let mut names: Vec<&String> = map.keys().collect();
    names.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
    out.push('{');
    for (i, name) in names.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&Value::String(name.clone()).to_string());
        out.push(':');
        write_canonical(&map[name], out);
    }
    out.push('}');
}

fn canonical_number(number: &Number) -> String {
    let literal = number.to_string();
    if literal == "-0" {
        return "0".into();
    }
    if !literal.contains(['.', 'e', 'E']) {
        return literal;
    }
    match literal.parse::<f64>() {
        Ok(float) if float.is_finite() => ryu_js::Buffer::new().format_finite(float).to_owned(),
        // Over the range of doubles RFC 8785 has no form; the literal is one.
        _ => literal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> String {
        input_hash(&parse(text).expect("JSON"))
    }

    #[test]
    fn spellings_of_one_input_share_a_hash() {
        let known = "sha256:d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772";
        for text in [r#"{"b": 1, "a": 2}"#, r#"{"a":2,"b":1}"#, r#"{ "a" : 2.0, "b" : 1e0 }"#] {
            assert_eq!(hash(text), known, "{text}");
        }
    }

    #[test]
    fn long_integers_keep_their_digits() {
        assert_ne!(hash("1234567890123456781"), hash("1234567890123456782"));
        assert_eq!(
            canonical(&parse("[-0, 1e21, 0.10, 1e400, 10e-7]").expect("JSON")),
            "[0,1e+21,0.1,1e+400,0.000001]"
        );
        assert_eq!(parse("0.10000000000000000555").expect("JSON").to_string(), "0.10000000000000000555");
    }

    #[test]
    fn names_are_sorted_by_utf16() {
        let text = canonical(&parse(r#"{"\ufb33":1,"\ud83d\ude00":2,"a":3}"#).expect("JSON"));
        assert_eq!(text, "{\"a\":3,\"😀\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn unfit_escapes_are_mended_and_pairs_are_left() {
        for (text, wanted) in [
            (r#""half \ud83d of""#, "half \u{fffd} of"),
            (r#""\udc00\ud83d\ude00\u0000""#, "\u{fffd}😀\u{fffd}"),
            (r#""\\ud83d \\\u0000""#, "\\ud83d \\\u{fffd}"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
        ] {
            assert_eq!(clean(parse(text).expect("JSON")), Value::String(wanted.into()), "{text}");
        }
        assert!(matches!(mend(r#""plain \u00e9""#), Cow::Borrowed(_)));
    }

    #[test]
    fn the_unfit_is_found() {
        let value = parse(r#"{"a": {"b/c": ["x", "\u0000"]}}"#).expect("JSON");
        assert_eq!(find_unfit(&value).as_deref(), Some("/a/b~1c/1"));
        assert_eq!(find_unfit(&parse(r#"{"a\u0000": 1}"#).expect("JSON")).as_deref(), Some("/a\u{fffd}"));
        assert_eq!(find_unfit(&Value::from("fine")), None);
    }

    #[test]
    fn depth_is_limited() {
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        assert!(parse(&deep).is_err());
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&format!("{}{}", "[".repeat(64), "]".repeat(64))).is_ok());
    }
}
