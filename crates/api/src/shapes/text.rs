//! Content that may be text or any JSON: the model sees all of it as text.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::problem::Problem;

/// Bytes that one such content may have.
const MAX_BYTES: usize = 1 << 20;

/// Tells a field that is null from one that is absent.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The content as text: a string as it is, other JSON in its compact form.
pub(crate) fn of(content: Value) -> Result<String, Problem> {
    let text = match content {
        Value::String(text) => text,
        other => other.to_string(),
    };
    if text.len() > MAX_BYTES {
        return Err(Problem::invalid_at("/content", format!("has at most {MAX_BYTES} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_stays_and_json_becomes_text() {
        assert_eq!(of(json!("size M")).expect("text"), "size M");
        assert_eq!(of(json!({"size": "M", "n": [1]})).expect("text"), r#"{"n":[1],"size":"M"}"#);
        assert_eq!(of(Value::Null).expect("text"), "null");
        assert!(of(json!("x".repeat(MAX_BYTES + 1))).is_err());
    }
}
