//! Fields of a message that this wire doesn't name: reasoning, and what vendors add.

use std::collections::BTreeSet;

use answerable_core::json;
use answerable_tools::Mask;
use serde_json::{Map, Value};

/// What is read elsewhere.
const KNOWN: [&str; 6] = ["role", "content", "tool_calls", "function_call", "refusal", "name"];

/// Unknown fields, put together over the pieces of a message: strings grow, anything else comes once.
#[derive(Debug, Default)]
pub(super) struct Extra {
    fields: Map<String, Value>,
    /// Fields that came in pieces of which the whole can't be told: they are not kept, for they could not be sent back
    /// just so.
    unsure: BTreeSet<String>,
}

impl Extra {
    /// Takes the unknown fields of a piece; nulls say nothing.
    pub(super) fn take(&mut self, piece: &Map<String, Value>) {
        for (name, value) in
            piece.iter().filter(|(name, value)| !KNOWN.contains(&name.as_str()) && !value.is_null())
        {
            match (self.fields.get_mut(name), value) {
                (None, value) => {
                    self.fields.insert(name.clone(), value.clone());
                }
                (Some(Value::String(whole)), Value::String(more)) => whole.push_str(more),
                (Some(known), value) if known == value => {}
                (Some(_), _) => {
                    self.unsure.insert(name.clone());
                }
            }
        }
    }

    /// What can be stored and sent back byte for byte.
    pub(super) fn finish(mut self, mask: &Mask) -> Map<String, Value> {
        self.fields.retain(|name, value| {
            let is_whole = !self.unsure.contains(name);
            is_whole && !mask.finds(name) && !mask.finds_in(value) && json::find_unfit(value).is_none()
        });
        self.fields.retain(|name, _| json::find_unfit(&Value::String(name.clone())).is_none());
        self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pieces_become_whole_or_nothing() {
        let mut extra = Extra::default();
        for piece in [
            json!({"role": "assistant", "content": "x", "reasoning_content": "Tür? ", "x_vendor": {"trace": [1, 2.5, null]}}),
            json!({"reasoning_content": "— \"maybe\"", "x_vendor": null, "steps": [1], "same": [7]}),
            json!({"steps": [2], "same": [7], "odd": "half \u{fdd0}", "leak": ["sk-secret-1"]}),
        ] {
            extra.take(piece.as_object().expect("fields"));
        }
        let wanted = json!({"reasoning_content": "Tür? — \"maybe\"", "x_vendor": {"trace": [1, 2.5, null]}, "same": [7]});
        assert_eq!(Value::Object(extra.finish(&Mask::new(["sk-secret-1"]))), wanted);
    }
}
