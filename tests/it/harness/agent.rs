//! Agents and tools in a few words.

use answerable_testkit::ScriptedTools;
use serde_json::{Value, json};

/// JSON with changes.
pub(crate) trait With {
    /// The same with these fields; objects are merged, all else is replaced.
    fn with(self, changes: Value) -> Value;
}

impl With for Value {
    fn with(mut self, changes: Value) -> Value {
        merge(&mut self, changes);
        self
    }
}

fn merge(target: &mut Value, changes: Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (name, change) in changes {
                merge(target.entry(name).or_insert(Value::Null), change);
            }
        }
        (target, change) => *target = change,
    }
}

/// A tool at the scripted far side that changes nothing.
pub(crate) fn read_tool(tools: &ScriptedTools, name: &str) -> Value {
    json!({
        "name": name, "kind": "http", "http": {"url": tools.url(name)}, "side_effect": "none",
        "retry": {"max_attempts": 3, "backoff_ms": 20},
    })
}

/// A tool at the scripted far side that has an effect.
pub(crate) fn write_tool(tools: &ScriptedTools, name: &str) -> Value {
    read_tool(tools, name).with(json!({"side_effect": "write"}))
}

/// A tool that the client answers.
pub(crate) fn client_tool(name: &str) -> Value {
    json!({"name": name, "kind": "client", "side_effect": "none"})
}

/// A policy with these rules.
pub(crate) fn rules(rules: &[Value]) -> Value {
    json!({"policy": {"rules": rules}})
}

/// An agent with these tools.
pub(crate) fn agent(tools: &[Value]) -> Value {
    json!({
        "name": "tester", "instructions": "You test.", "tools": tools,
        "model": {"provider": "main", "model": "m", "retry": {"max_attempts": 3, "backoff_ms": 20}},
    })
}
