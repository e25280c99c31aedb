//! Names that stand twice in one object: readers of such text disagree on which counts.

use std::collections::HashSet;

/// The first name that an object of this text repeats, in the order of the text. The text must be JSON.
pub fn repeated_name(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut objects: Vec<Option<HashSet<String>>> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => objects.push(Some(HashSet::new())),
            b'[' => objects.push(None),
            b'}' | b']' => drop(objects.pop()),
            b'"' => {
                let end = end_of_string(bytes, at);
                if let Some(Some(names)) = objects.last_mut().filter(|_| is_name(bytes, end)) {
                    let written = text.get(at..end).unwrap_or_default();
                    let name = serde_json::from_str::<String>(written).unwrap_or_else(|_| written.to_owned());
                    if let Some(name) = names.replace(name) {
                        return Some(name);
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The place after a string that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Whether what ends there is a name, and no value.
fn is_name(bytes: &[u8], end: usize) -> bool {
    let rest = bytes.get(end..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stand_twice() {
        for (text, wanted) in [
            (r#"{"a": 1, "b": 2, "a": 3}"#, Some("a")),
            (r#"{"a": 1, "\u0061" : 2}"#, Some("a")),
            (r#"[{"x": {"n": [1, {"y": 0, "y": 0}]}}]"#, Some("y")),
            (r#"{"q\"": "}", "q\"": 1}"#, Some("q\"")),
            (r#"{"\ud800": 1, "\ud800": 2}"#, Some(r#""\ud800""#)),
            (r#"{"": 1, "": 2}"#, Some("")),
            (r#"{"a": {"a": {"a": "a"}}, "b": ["a", "a"], "c": "a"}"#, None),
            (r#"{"a": "\"a\": 1, \"a\": 2"}"#, None),
            (r#"{"a": "\\", "b": "a"}"#, None),
            ("[]", None),
            ("\"a", None),
        ] {
            assert_eq!(repeated_name(text).as_deref(), wanted, "{text}");
        }
    }
}
