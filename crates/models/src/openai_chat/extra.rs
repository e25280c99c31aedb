//! Fields that this wire doesn't name, of a message and of its calls: reasoning, signatures, and what else vendors add.

use std::collections::BTreeSet;

use answerable_core::json;
use answerable_core::model::estimate_tokens;
use answerable_tools::Mask;
use serde_json::{Map, Value};

use super::grow::grow;
use super::thoughts;

/// What is read elsewhere.
const KNOWN: [&str; 6] = ["role", "content", "tool_calls", "function_call", "refusal", "name"];

/// Unknown fields, put together over the pieces of what they belong to.
#[derive(Debug, Default)]
pub(super) struct Extra {
    fields: Map<String, Value>,
    /// Fields that came in pieces of which the whole can't be told: they are not kept, for they could not be sent back
    /// just so.
    unsure: BTreeSet<String>,
}

impl Extra {
    /// Takes the unknown fields of a piece of a message.
    pub(super) fn take(&mut self, piece: &Map<String, Value>) {
        for (name, value) in piece.iter().filter(|(name, _)| !KNOWN.contains(&name.as_str())) {
            if !says_nothing(value) && !thoughts::is_mark(name, value) {
                self.put(name, value);
            }
        }
    }

    /// Takes a piece of one field.
    pub(super) fn put(&mut self, name: &str, value: &Value) {
        let Some(known) = self.fields.get_mut(name) else {
            self.fields.insert(name.to_owned(), value.clone());
            return;
        };
        // What isn't kept anyway needs no more work.
        if !self.unsure.contains(name) && !grow(known, value) {
            self.give_up(name);
        }
    }

    /// Takes the fields of a piece but for those named: each comes whole, or again as it was.
    pub(super) fn put_whole(&mut self, piece: &Value, but_for: &[&str]) {
        let fields = piece.as_object().into_iter().flatten();
        for (name, value) in
            fields.filter(|(name, value)| !but_for.contains(&name.as_str()) && !says_nothing(value))
        {
            match self.fields.get(name) {
                None => drop(self.fields.insert(name.clone(), value.clone())),
                Some(known) if known == value => {}
                Some(_) => self.give_up(name),
            }
        }
    }

    /// A field whose whole can't be told.
    pub(super) fn give_up(&mut self, name: &str) {
        self.unsure.insert(name.to_owned());
    }

    /// Tokens of what came as text (reasoning does), estimated.
    pub(super) fn tokens(&self) -> u64 {
        self.fields.values().filter_map(Value::as_str).map(estimate_tokens).sum()
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

/// Some servers send empty lists where others send nothing.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
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
            json!({"reasoning_content": "— \"maybe\"", "x_vendor": null, "steps": [1], "same": [7], "annotations": []}),
            json!({"steps": [2], "same": [7], "odd": "half \u{fdd0}", "leak": ["sk-secret-1"]}),
        ] {
            extra.take(piece.as_object().expect("fields"));
        }
        let wanted = json!({"reasoning_content": "Tür? — \"maybe\"", "x_vendor": {"trace": [1, 2.5, null]}, "same": [7]});
        assert_eq!(Value::Object(extra.finish(&Mask::new(["sk-secret-1"]))), wanted);
    }

    #[test]
    fn what_comes_whole_does_not_grow() {
        let mut extra = Extra::default();
        for piece in [
            json!({"id": "a", "extra_content": {"google": {"thought_signature": "c2ln"}}, "state": "new", "kind": "k"}),
            json!({"extra_content": {"google": {"thought_signature": "c2ln"}}, "state": "old", "kind": "k", "x": {}}),
            json!(7),
        ] {
            extra.put_whole(&piece, &["id"]);
        }
        let wanted = json!({"extra_content": {"google": {"thought_signature": "c2ln"}}, "kind": "k"});
        assert_eq!(Value::Object(extra.finish(&Mask::default())), wanted);
    }
}
