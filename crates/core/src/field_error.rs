//! One thing that is wrong with a document, and where.

use serde::{Deserialize, Serialize};

/// What is wrong with one field of a request; the API answers 422 with a list of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// JSON pointer (RFC 6901) into the document.
    pub pointer: String,
    /// For people: what was expected.
    pub message: String,
}

impl FieldError {
    /// An error at `pointer`.
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }

    /// The same error seen from a document in which this one stands at `prefix`.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        self.pointer.insert_str(0, prefix);
        self
    }
}

/// Escapes one token of a JSON pointer.
pub fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Reads a document as `T`, strictly.
///
/// # Errors
/// The first fault, with a pointer to it: an unknown field, a missing one, or one of a wrong type.
pub fn read<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(crate::strict::Strict(value)).map_err(|error| {
        let mut pointer = pointer_of(error.path());
        let message = error.inner().to_string();
        // serde says these of the object that holds the field; the fault is the field's.
        for words in ["unknown field `", "missing field `"] {
            if let Some(name) = message.strip_prefix(words).and_then(|rest| rest.split('`').next()) {
                let token = format!("/{}", pointer_token(name));
                if !(words.starts_with("unknown") && pointer.ends_with(&token)) {
                    pointer.push_str(&token);
                }
            }
        }
        FieldError::new(pointer, message)
    })
}

fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", pointer_token(key)),
            Segment::Enum { variant } => format!("/{}", pointer_token(variant)),
            Segment::Unknown => String::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults_are_at_their_field() {
        let agent = json!({"name": "a", "model": {"provider": "p", "model": "m"}});
        let with = |pointer: &str, value: serde_json::Value| {
            let mut agent = agent.clone();
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
            agent.pointer_mut(parent).expect("parent")[name] = value;
            read::<crate::agent::AgentSpec>(agent).expect_err("a fault").pointer
        };
        for (pointer, value) in [
            ("/colour", json!("red")),
            ("/model/colour", json!("red")),
            ("/model/provider", json!(5)),
            ("/budgets", json!(5)),
        ] {
            assert_eq!(with(pointer, value), pointer);
        }
        assert_eq!(with("/budgets", json!({"max_steps": -1})), "/budgets/max_steps");
        assert_eq!(
            with("/policy", json!({"rules": [{"effect": "deny", "colour": 1}]})),
            "/policy/rules/0/colour"
        );
        assert_eq!(with("/model", json!({"provider": "p"})), "/model/model");
        assert_eq!(with("/tools", json!([{"name": "a", "kind": "telepathy"}])), "/tools/0/kind");
    }

    #[test]
    fn a_list_is_no_object_and_an_object_no_choice() {
        for (pointer, value) in [
            ("/policy", json!([])),
            ("/budgets", json!([])),
            ("/budgets", json!([3])),
            ("/loop_guard", json!([3, 3])),
            ("/context", json!([])),
            ("/model", json!(["p", "m"])),
            ("/tools/0", json!([])),
            ("/tools/0/retry", json!([3])),
            ("/tools/0/output", json!([])),
            ("/tools/0/http", json!(["http://h/"])),
            ("/tools/0/reconcile", json!(["t"])),
            ("/tools/0/risk", json!({"low": null})),
            ("/model/fallbacks/0", json!(["p", "m"])),
            ("/policy/default", json!([])),
            ("/policy/rules/0", json!([])),
        ] {
            let fallback = json!({"provider": "p", "model": "m"});
            let mut agent = json!({"name": "a", "model": {"provider": "p", "model": "m", "fallbacks": [fallback]},
                "tools": [{"name": "t", "kind": "client"}], "policy": {"rules": [{"effect": "deny"}]}});
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
            let parent = agent.pointer_mut(parent).expect("parent");
            match name.parse::<usize>() {
                Ok(index) => parent[index] = value.clone(),
                Err(_) => parent[name] = value.clone(),
            }
            let fault = read::<crate::agent::AgentSpec>(agent).expect_err(&value.to_string());
            assert_eq!(fault.pointer, pointer, "{value}: {}", fault.message);
        }
        assert_eq!(read::<crate::agent::AgentSpec>(json!(["a", "b"])).expect_err("a list").pointer, "");
    }

    #[test]
    fn free_parts_keep_their_lists_and_digits() {
        let text = r#"{"name": "a", "model": {"provider": "p", "model": "m", "temperature": 1, "params": {"n": [1.50, 12345678901234567890]}},
            "tools": [{"name": "t", "kind": "client", "timeout_ms": 5, "input_schema": {"enum": [[1e2]]}}]}"#;
        let agent: crate::agent::AgentSpec = read(crate::json::parse(text).expect("JSON")).expect("agent");
        assert_eq!(agent.model.params["n"].to_string(), "[1.50,12345678901234567890]");
        assert_eq!(
            agent.tools[0].input_schema["enum"][0][0].to_string(),
            crate::json::parse("1e2").expect("JSON").to_string()
        );
        assert_eq!((agent.model.temperature, agent.tools[0].timeout_ms), (Some(1.0), Some(5)));
    }
}
