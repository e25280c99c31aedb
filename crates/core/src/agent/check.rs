//! Whether an agent makes sense: what its types can't say.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::check_tool::{check_running, check_tool};
use super::{AgentSpec, McpTool};
use crate::permission::MAX_RULES;
use crate::{FieldError, budget, loop_guard};

/// Most tools of an agent; as many as providers take.
pub(crate) const MAX_TOOLS: usize = 128;
/// Bytes of the instructions.
const MAX_INSTRUCTIONS: usize = 256 * 1024;
/// Most attempts of a tool or on a model.
pub(super) const MAX_ATTEMPTS: u32 = 100;
/// Longest attempt on a model: an hour.
const MAX_MODEL_TIMEOUT_MS: u64 = 3_600_000;
/// Most JSON pointers to what is left out of spans.
const MAX_REDACTIONS: usize = 100;
/// Bytes of such a pointer.
const MAX_POINTER: usize = 1_000;

/// Bytes of an agent as JSON.
const MAX_AGENT_BYTES: usize = 4 << 20;

/// Every fault of an agent whose schemas are looked at elsewhere ([`crate::registry::Registry::compile`]).
pub fn check(agent: &AgentSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_names(agent, &mut errors);
    check_model(agent, &mut errors);
    budget::check(&agent.budgets, "/budgets", &mut errors);
    check_limits(agent, &mut errors);
    check_trace(agent, &mut errors);
    check_mcp(agent, &mut errors);
    if serde_json::to_string(agent).map_or(0, |text| text.len()) > MAX_AGENT_BYTES {
        errors.push(FieldError::new("", format!("an agent has at most {MAX_AGENT_BYTES} bytes")));
    }
    if agent.tools.len() > MAX_TOOLS {
        errors.push(FieldError::new("/tools", format!("at most {MAX_TOOLS} tools")));
    }
    let mut names = HashSet::new();
    for (i, tool) in agent.tools.iter().enumerate() {
        let at = format!("/tools/{i}");
        if !names.insert(tool.name.as_str()) {
            errors.push(FieldError::new(format!("{at}/name"), "another tool has this name"));
        }
        check_tool(agent, tool, &at, &mut errors);
    }
    errors
}

fn check_names(agent: &AgentSpec, errors: &mut Vec<FieldError>) {
    if agent.name.trim().is_empty() || agent.name.chars().count() > 200 {
        errors.push(FieldError::new("/name", "must have 1 to 200 characters"));
    }
    if agent.instructions.len() > MAX_INSTRUCTIONS {
        errors.push(FieldError::new("/instructions", format!("at most {MAX_INSTRUCTIONS} bytes")));
    }
}

/// Most entries of `mcp`.
const MAX_MCP: usize = 32;
/// Most globs of one of them.
const MAX_GLOBS: usize = 200;

fn check_mcp(agent: &AgentSpec, errors: &mut Vec<FieldError>) {
    if agent.mcp.len() > MAX_MCP {
        errors.push(FieldError::new("/mcp", format!("at most {MAX_MCP} entries")));
    }
    for (i, server) in agent.mcp.iter().enumerate() {
        let at = format!("/mcp/{i}");
        if server.allow.len() > MAX_GLOBS
            || server.allow.iter().any(|glob| glob.is_empty() || glob.len() > 200)
        {
            let message = format!("at most {MAX_GLOBS} globs of 1 to 200 bytes");
            errors.push(FieldError::new(format!("{at}/allow"), message));
        }
        // The same rules as for a tool that is written out.
        let like = server.defaults.tool(
            "x".into(),
            String::new(),
            Value::Null,
            McpTool { server: server.server.clone(), tool: "x".into() },
        );
        check_running(&like, &format!("{at}/defaults"), errors);
    }
}

fn check_trace(agent: &AgentSpec, errors: &mut Vec<FieldError>) {
    let pointers = &agent.trace.redact;
    if pointers.len() > MAX_REDACTIONS {
        errors.push(FieldError::new("/trace/redact", format!("at most {MAX_REDACTIONS} pointers")));
    }
    for (i, pointer) in pointers.iter().enumerate() {
        let legal = pointer.starts_with('/') && pointer.len() <= MAX_POINTER && !pointer.contains('\0');
        if !legal {
            let message = format!("must be a JSON pointer of at most {MAX_POINTER} bytes, beginning with /");
            errors.push(FieldError::new(format!("/trace/redact/{i}"), message));
        }
    }
}

fn check_model(agent: &AgentSpec, errors: &mut Vec<FieldError>) {
    let model = &agent.model;
    if model.max_output_tokens == Some(0) {
        errors.push(FieldError::new("/model/max_output_tokens", "must be at least 1"));
    }
    for (name, ms) in [
        ("timeout_ms", Some(model.timeout_ms)),
        ("first_token_timeout_ms", model.first_token_timeout_ms),
        ("idle_timeout_ms", model.idle_timeout_ms),
    ] {
        if ms.is_some_and(|ms| ms == 0 || ms > MAX_MODEL_TIMEOUT_MS) {
            let message = format!("must be 1 to {MAX_MODEL_TIMEOUT_MS}");
            errors.push(FieldError::new(format!("/model/{name}"), message));
        }
    }
    if model.retry.max_attempts == 0 || model.retry.max_attempts > MAX_ATTEMPTS {
        errors.push(FieldError::new("/model/retry/max_attempts", format!("must be 1 to {MAX_ATTEMPTS}")));
    }
    if model.retry.backoff_ms > 60_000 {
        errors.push(FieldError::new("/model/retry/backoff_ms", "must be 0 to 60000"));
    }
    if model.fallbacks.len() > 8 {
        errors.push(FieldError::new("/model/fallbacks", "at most 8"));
    }
    if model.temperature.is_some_and(|t| !(0.0..=2.0).contains(&t)) {
        errors.push(FieldError::new("/model/temperature", "must be 0 to 2"));
    }
    check_params(&model.params, "/model/params", errors);
    for (i, fallback) in model.fallbacks.iter().enumerate() {
        let params = fallback.params.iter();
        params.for_each(|params| check_params(params, &format!("/model/fallbacks/{i}/params"), errors));
    }
}

fn check_params(params: &Map<String, Value>, at: &str, errors: &mut Vec<FieldError>) {
    for reserved in ["model", "messages", "input", "tools", "stream"] {
        if params.contains_key(reserved) {
            errors.push(FieldError::new(format!("{at}/{reserved}"), "is set by the runtime"));
        }
    }
}

fn check_limits(agent: &AgentSpec, errors: &mut Vec<FieldError>) {
    for (name, value) in [
        ("max_repeated_calls", agent.loop_guard.max_repeated_calls),
        ("max_repeated_errors", agent.loop_guard.max_repeated_errors),
    ] {
        if value == 0 || value > loop_guard::MAX_REPEATS {
            errors.push(FieldError::new(
                format!("/loop_guard/{name}"),
                format!("must be 1 to {}", loop_guard::MAX_REPEATS),
            ));
        }
    }
    if agent.context.max_tokens == 0 {
        errors.push(FieldError::new("/context/max_tokens", "must be at least 1"));
    }
    if agent.policy.rules.len() > MAX_RULES {
        errors.push(FieldError::new("/policy/rules", format!("at most {MAX_RULES}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(tools: Value) -> Vec<String> {
        let agent = json!({"name": "a", "model": {"provider": "p", "model": "m"}, "tools": tools});
        let agent: AgentSpec = crate::field_error::read(agent).expect("types");
        check(&agent).into_iter().map(|fault| fault.pointer).collect()
    }

    fn http(url: &str) -> Value {
        json!([{"name": "a", "kind": "http", "http": {"url": url}}])
    }

    #[test]
    fn limits() {
        let tool = |more: Value| {
            let mut tool = http("http://h/");
            tool[0].as_object_mut().expect("a tool").extend(more.as_object().expect("fields").clone());
            tool
        };
        let rate = |calls: u64, per_ms: u64| tool(json!({"rate": {"calls": calls, "per_ms": per_ms}}));
        for (tools, wanted) in [
            (tool(json!({"max_concurrent": 1})), None),
            (tool(json!({"max_concurrent": 0})), Some("/tools/0/max_concurrent")),
            (tool(json!({"max_concurrent": 10_001})), Some("/tools/0/max_concurrent")),
            (rate(10_000, 86_400_000), None),
            (rate(0, 1000), Some("/tools/0/rate/calls")),
            (rate(10_001, 1000), Some("/tools/0/rate/calls")),
            (rate(1, 0), Some("/tools/0/rate/per_ms")),
            (rate(1, 86_400_001), Some("/tools/0/rate/per_ms")),
            (json!([{"name": "a", "kind": "client", "max_concurrent": 1}]), Some("/tools/0/max_concurrent")),
        ] {
            assert_eq!(faults(tools.clone()), wanted.into_iter().collect::<Vec<_>>(), "{tools}");
        }
    }

    #[test]
    fn names_keys_headers_and_reconcilers() {
        let two = json!([{"name": "a", "kind": "client"}, {"name": "a", "kind": "client"}]);
        assert_eq!(faults(two), ["/tools/1/name"]);
        assert_eq!(faults(json!([{"name": "look around!", "kind": "client"}])), ["/tools/0/name"]);
        assert_eq!(faults(json!([{"name": "a", "kind": "shell"}])), ["/tools/0/name"]);
        assert_eq!(faults(json!([{"name": "read_file", "kind": "workspace"}])), [""; 0]);
        let other = json!([{"name": "read_file", "kind": "workspace", "input_schema": {"type": "object"}}]);
        assert_eq!(faults(other), ["/tools/0/input_schema"]);
        assert_eq!(faults(json!([{"name": "a", "kind": "mcp"}])), ["/tools/0/kind"]);
        assert_eq!(faults(json!([{"name": "a", "kind": "agent"}])), ["/tools/0/agent"]);
        let id = "agt_0192f0c1-2345-7890-abcd-ef0123456789";
        let limits = json!([{"name": "look", "kind": "http", "side_effect": "none", "http": {"url": "http://h/"}},
            {"name": "a", "kind": "agent", "agent": {"agent_id": id, "budgets": {"max_steps": 0}},
            "reconcile": {"tool": "look"}}]);
        assert_eq!(faults(limits), ["/tools/1/reconcile", "/tools/1/agent/budgets/max_steps"]);
        let headers = json!([{"name": "a", "kind": "http", "http": {"url": "http://h/",
            "headers": {"X-Run-Id": "x", "x note": "y", "x-a": "{{env.A}}"}}}]);
        assert_eq!(faults(headers).len(), 3);
        let key = json!([{"name": "a", "kind": "client", "idempotency_key": "{{secret.a}}",
            "reconcile": {"tool": "a"}}]);
        assert_eq!(faults(key), ["/tools/0/idempotency_key", "/tools/0/reconcile/tool"]);
    }
}
