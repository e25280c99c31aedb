//! The agent of the trials: a tool of every sort.

use serde_json::{Value, json};

use crate::agent::{AgentSpec, check};
use crate::registry::Registry;

/// The test agent; the top-level fields of `changes` replace its own. Under `tools`, fields of tools by name are added.
pub(in crate::run) fn agent(changes: &Value) -> Registry {
    let mut agent = json!({
        "name": "trial", "model": {"provider": "main", "model": "m", "max_output_tokens": 500, "retry": {"max_attempts": 2},
            "fallbacks": [{"provider": "alt", "model": "n"}]},
        "loop_guard": {"max_repeated_calls": 9, "max_repeated_errors": 9},
        "policy": {"max_denials": 9}, "tools": tools(),
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        if name == "tools" {
            change_tools(&mut agent, value);
        } else {
            agent[name] = value.clone();
        }
    }
    let spec: AgentSpec = crate::field_error::read(agent).expect("types");
    assert_eq!(check(&spec), [], "a sound agent");
    Registry::compile(spec).expect("an agent that compiles")
}

fn change_tools(agent: &mut Value, changes: &Value) {
    for tool in agent["tools"].as_array_mut().expect("a list") {
        let name = tool["name"].as_str().expect("a name").to_owned();
        for (field, value) in changes.get(&name).and_then(Value::as_object).into_iter().flatten() {
            tool[field] = value.clone();
        }
    }
}

fn tools() -> Value {
    let input = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let http = |name: &str, more: Value| {
        let mut tool = json!({"name": name, "kind": "http", "http": {"url": format!("https://world.example/{name}")},
            "input_schema": input, "timeout_ms": 1000, "retry": {"max_attempts": 3, "backoff_ms": 100}});
        for (field, value) in more.as_object().into_iter().flatten() {
            tool[field] = value.clone();
        }
        tool
    };
    let agent =
        |budgets: Value| json!({"agent_id": "agt_0192f0c1-2345-7890-abcd-ef0123456789", "budgets": budgets});
    let find = json!({"tool": "find", "input": {"key": "{{idempotency_key}}"}});
    json!([
        http("look", json!({"side_effect": "none", "parallel_safe": true})),
        http("peek", json!({"side_effect": "none", "retry": {"max_attempts": 1}})),
        http("poll", json!({"side_effect": "none", "parallel_safe": true, "repeat": "allow"})),
        http("find", json!({"side_effect": "none"})),
        http("pay", json!({"on_uncertain": "stop"})),
        http("mail", json!({"on_uncertain": "observe"})),
        http("note", json!({"on_uncertain": "observe", "parallel_safe": true})),
        http("charge", json!({"idempotent": true, "retry": {"max_attempts": 2, "backoff_ms": 100}})),
        http("refund", json!({"reconcile": find, "on_uncertain": "ask"})),
        http("ship", json!({"idempotent": true, "reconcile": find, "on_uncertain": "observe", "parallel_safe": true})),
        http("order", json!({"idempotent": true, "idempotency_key": "order:{{input.n}}"})),
        http("risky", json!({"risk": "high"})),
        http("gate", json!({"risk": "high", "parallel_safe": true, "on_uncertain": "ask"})),
        http("wipe", json!({"risk": "critical"})),
        {"name": "help", "kind": "agent", "agent": agent(json!({"max_tokens": 5000})), "input_schema": input,
            "on_uncertain": "ask", "timeout_ms": 60000},
        {"name": "team", "kind": "agent", "agent": agent(json!({})), "input_schema": input, "side_effect": "none",
            "on_uncertain": "observe", "parallel_safe": true, "timeout_ms": 60000},
        {"name": "ask_user", "kind": "client", "side_effect": "none", "timeout_ms": 60000},
        {"name": "sign", "kind": "client", "on_uncertain": "ask", "timeout_ms": 60000, "parallel_safe": true},
        {"name": "stamp", "kind": "client", "on_uncertain": "stop", "timeout_ms": 60000},
    ])
}
