//! Thinking that stands in a message's content: in parts of its own (Mistral), or as text that is marked (Gemini). It is no
//! part of the answer.

use serde_json::{Map, Value};

use super::extra::Extra;

/// The field that parts of thinking are kept under, to be sent back before the text.
pub(super) const FIELD: &str = "content";
/// What ends marked text where thinking and answer stand in one.
const END: &str = "</thought>";

/// Tells text from thinking.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    /// What came last was marked and has not ended.
    in_thought: bool,
    has_text: bool,
}

impl Thoughts {
    /// The text that a message, or a piece of one, says.
    pub(super) fn text_of(&mut self, message: &Map<String, Value>, extra: &mut Extra) -> String {
        let content = message.get("content").unwrap_or(&Value::Null);
        let thinking = thinking_of(content);
        if !thinking.is_empty() {
            // It goes back before the text; of what was thought later the place would be lost.
            if self.has_text { extra.give_up(FIELD) } else { extra.put(FIELD, &thinking.into()) }
        }
        let is_thought = message.iter().any(|(name, value)| is_mark(name, value));
        let text = self.unmarked(text_of(content), is_thought);
        self.has_text |= !text.is_empty();
        text
    }

    /// Text without what is marked as thought.
    fn unmarked(&mut self, text: String, is_thought: bool) -> String {
        if is_thought {
            let after = text.split_once(END).map(|(_, after)| after.to_owned());
            self.in_thought = after.is_none();
            return after.unwrap_or_default();
        }
        if text.is_empty() || !std::mem::take(&mut self.in_thought) {
            return text;
        }
        text.strip_prefix(END).map(str::to_owned).unwrap_or(text)
    }
}

/// Whether a field marks its message's text as thought: `extra_content: {"google": {"thought": true}}`.
pub(super) fn is_mark(name: &str, value: &Value) -> bool {
    let vendors = value.as_object().into_iter().flatten();
    name == "extra_content" && vendors.into_iter().any(|(_, vendor)| vendor["thought"] == true)
}

/// Text as it is, or in parts.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().map(|part| part["text"].as_str().or(part.as_str()).unwrap_or_default()).collect()
        }
        _ => String::new(),
    }
}

fn thinking_of(content: &Value) -> Vec<Value> {
    let parts = content.as_array().into_iter().flatten();
    parts.filter(|part| part["type"] == "thinking").cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use answerable_tools::Mask;
    use serde_json::json;

    fn heard(pieces: &[Value]) -> (String, Value) {
        let (mut thoughts, mut extra) = (Thoughts::default(), Extra::default());
        let fields = |piece: &Value| piece.as_object().expect("fields").clone();
        let text = pieces.iter().map(|piece| thoughts.text_of(&fields(piece), &mut extra)).collect();
        (text, Value::Object(extra.finish(&Mask::default())))
    }

    #[test]
    fn thinking_is_told_from_text() {
        let thinking = |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
        let text = |text: &str| json!({"type": "text", "text": text});
        let marked = |text: &str| json!({"content": text, "extra_content": {"google": {"thought": true}}});
        for (pieces, said, kept) in [
            (
                vec![
                    json!({"content": "a"}),
                    json!({"content": null}),
                    json!({"content": ["b", {"type": "reference"}]}),
                ],
                "ab",
                json!({}),
            ),
            (
                vec![
                    json!({"role": "assistant", "content": ""}),
                    json!({"content": [thinking("Let ")]}),
                    json!({"content": [thinking("me."), text("An")]}),
                    json!({"content": "swer"}),
                ],
                "Answer",
                json!({"content": [thinking("Let me.")]}),
            ),
            (
                vec![
                    json!({"content": [thinking("a"), text("b")]}),
                    json!({"content": [thinking("c"), text("d")]}),
                ],
                "bd",
                json!({}),
            ),
            (
                vec![
                    marked("<thought>Hm,"),
                    marked(" so."),
                    json!({"content": ""}),
                    json!({"content": "</thought>It is 4."}),
                ],
                "It is 4.",
                json!({}),
            ),
            (
                vec![
                    marked("**Weighing**"),
                    json!({"content": "It is 4."}),
                    json!({"content": "</thought>"}),
                ],
                "It is 4.</thought>",
                json!({}),
            ),
            (
                vec![marked("<thought>Hm</thought>{\"ok\": true}"), json!({"content": "!"})],
                "{\"ok\": true}!",
                json!({}),
            ),
        ] {
            assert_eq!(heard(&pieces), (said.to_owned(), kept), "{pieces:?}");
        }
    }
}
