//! An agent without what goes without saying.

use serde_json::{Map, Value, json};

use crate::case::Case;

/// What the API takes for granted where an agent says nothing.
fn usual() -> Value {
    json!({
        "model": {
            "temperature": 0, "max_output_tokens": 1024, "timeout_ms": 60000, "fallbacks": [], "params": {},
            "retry": {"max_attempts": 4, "backoff_ms": 500},
        },
        "tools": [], "mcp": [], "output_schema": null,
        "policy": {
            "rules": [], "default": {"low": "allow", "medium": "allow", "high": "ask", "critical": "deny"},
            "on_deny": "observe", "max_denials": 3,
        },
        "budgets": {
            "max_steps": 20, "max_tokens": 200000, "max_tool_calls": 50, "timeout_ms": 600000, "max_cost_microusd": null,
            "on_exhausted": "stop",
        },
        "loop_guard": {"max_repeated_calls": 3, "max_repeated_errors": 3},
        "context": {"max_tokens": 32000, "overflow": "drop_oldest"},
    })
}

/// The same of one of its tools. `side_effect` is said always: much depends on it.
fn usual_tool() -> Value {
    json!({
        "description": "", "input_schema": {"type": "object"}, "kind": "http", "http": {"method": "POST", "headers": {}},
        "risk": "low", "idempotent": false, "retry": {"max_attempts": 3, "backoff_ms": 200}, "parallel_safe": false,
        "output": {"max_chars": 16000, "on_overflow": "truncate"}, "repeat": "guard", "on_uncertain": "stop",
    })
}

/// The same of a rule of its policy.
fn usual_rule() -> Value {
    json!({"approvals": 1, "expires_ms": 86_400_000, "on_expiry": "deny"})
}

/// An agent in few words.
pub(super) fn brief(agent: &Map<String, Value>) -> Value {
    let mut brief = agent.clone();
    for (list, usual) in [("tools", usual_tool()), ("rules", usual_rule())] {
        let holder = if list == "rules" {
            brief.get_mut("policy").and_then(Value::as_object_mut)
        } else {
            Some(&mut brief)
        };
        let items = holder.and_then(|holder| holder.get_mut(list)?.as_array_mut());
        for item in items.into_iter().flatten().filter_map(Value::as_object_mut) {
            shorten(item, &usual);
        }
    }
    shorten(&mut brief, &usual());
    Value::Object(brief)
}

/// The run's limits that are not its agent's.
pub(super) fn own_budgets(case: &Case) -> Option<Value> {
    let (mut own, mut of_agent) = (case.budgets.clone()?, usual()["budgets"].clone());
    for (limit, value) in case.agent.get("budgets").and_then(Value::as_object).into_iter().flatten() {
        of_agent[limit] = value.clone();
    }
    shorten(&mut own, &of_agent);
    (!own.is_empty()).then_some(Value::Object(own))
}

/// What is one thing, and means another where a part of it is left out.
const WHOLE: [&str; 2] = ["input_schema", "default"];

/// Takes away what is as usual, and what holds nothing then.
fn shorten(map: &mut Map<String, Value>, usual: &Value) {
    map.retain(|key, value| {
        let usual = usual.get(key);
        match (&mut *value, usual) {
            (Value::Object(inner), Some(Value::Object(parts))) if !WHOLE.contains(&key.as_str()) => {
                let says_less = inner.is_empty() && !parts.is_empty();
                shorten(inner, &Value::Object(parts.clone()));
                says_less || !inner.is_empty()
            }
            (Value::Null, None) => false,
            (value, usual) => !usual.is_some_and(|usual| is_same(usual, value)),
        }
    });
}

/// Whether two values say the same: 0 and 0.0 do.
fn is_same(one: &Value, other: &Value) -> bool {
    let numbers = one.as_f64().zip(other.as_f64());
    numbers.map_or_else(|| one == other, |(one, other)| one == other)
}
