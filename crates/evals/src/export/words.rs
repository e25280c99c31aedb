//! What people sent beside text, in words: a case has no pictures and files, and the models that play it look at none.

use serde_json::Value;

use crate::case::Case;

impl Case {
    /// Puts a line of text in the place of each picture and file of the input.
    pub(crate) fn put_words(&mut self) {
        for message in self.input.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            let Some(Value::Array(parts)) = message.remove("parts") else { continue };
            self.lacks_attachments |= !parts.is_empty();
            let content = message.get("content").and_then(Value::as_str).unwrap_or_default();
            let content = of(content, &parts);
            message.insert("content".to_owned(), content.into());
        }
    }
}

/// A message's text, or that of its pieces where it has some.
pub(super) fn of(content: &str, parts: &[Value]) -> String {
    if parts.is_empty() {
        return content.to_owned();
    }
    parts.iter().map(piece).collect::<Vec<_>>().join("\n")
}

fn piece(part: &Value) -> String {
    let field = |name: &str| part.get(name).and_then(Value::as_str);
    if let Some(text) = field("text") {
        return text.to_owned();
    }
    let kind = field("type").unwrap_or("part");
    let told = ["name", "media_type", "sha256", "url"].into_iter().filter_map(field);
    let told: Vec<&str> = std::iter::once(kind).chain(told).collect();
    format!("[{}]", told.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_stands_for_each_piece() {
        let parts = [
            json!({"type": "text", "text": "see"}),
            json!({"type": "image", "media_type": "image/png", "bytes": 7, "sha256": "ab"}),
            json!({"type": "file", "name": "a.pdf", "media_type": "application/pdf", "bytes": 9}),
            json!({"type": "image", "url": "https://h/a"}),
        ];
        let lines = "see\n[image image/png ab]\n[file a.pdf application/pdf]\n[image https://h/a]";
        assert_eq!(of("see", &parts), lines);
        assert_eq!(of("see", &[]), "see");
    }
}
