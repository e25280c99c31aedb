//! Whether an agent makes sense: what its types can't say.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{AgentSpec, HttpSpec, ToolKind, ToolSpec};
use crate::template::{Slot, Template};
use crate::{FieldError, budget, loop_guard};

/// Most tools of an agent; as many as providers take.
const MAX_TOOLS: usize = 128;
/// Bytes of the instructions.
const MAX_INSTRUCTIONS: usize = 256 * 1024;
/// Most attempts of a tool or on a model.
const MAX_ATTEMPTS: u32 = 100;
/// Longest output that a model is shown.
const MAX_OUTPUT_CHARS: usize = 1_000_000;
/// Longest attempt on a model: an hour.
const MAX_MODEL_TIMEOUT_MS: u64 = 3_600_000;
/// Longest attempt of an http tool: an hour.
const MAX_HTTP_TIMEOUT_MS: u64 = 3_600_000;
/// Most JSON pointers to what is left out of spans.
const MAX_REDACTIONS: usize = 100;
/// Bytes of such a pointer.
const MAX_POINTER: usize = 1_000;
/// Bytes of a tool's description.
const MAX_DESCRIPTION: usize = 16 * 1024;

/// Every fault of an agent whose schemas are looked at elsewhere ([`crate::registry::Registry::compile`]).
pub fn check(agent: &AgentSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_names(agent, &mut errors);
    check_model(agent, &mut errors);
    budget::check(&agent.budgets, "/budgets", &mut errors);
    check_limits(agent, &mut errors);
    check_trace(agent, &mut errors);
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
    if !agent.mcp.is_empty() {
        errors.push(FieldError::new("/mcp", "MCP servers are not available in this version"));
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
    if agent.policy.rules.len() > 200 {
        errors.push(FieldError::new("/policy/rules", "at most 200"));
    }
}

fn check_tool(agent: &AgentSpec, tool: &ToolSpec, at: &str, errors: &mut Vec<FieldError>) {
    let mut fault =
        |field: &str, message: &str| errors.push(FieldError::new(format!("{at}/{field}"), message));
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if tool.name.is_empty() || tool.name.len() > 64 || !tool.name.chars().all(legal) {
        fault("name", "must match ^[A-Za-z0-9_-]{1,64}$");
    }
    if tool.description.len() > MAX_DESCRIPTION {
        fault("description", "at most 16384 bytes");
    }
    if tool.retry.max_attempts == 0 || tool.retry.max_attempts > MAX_ATTEMPTS {
        fault("retry/max_attempts", "must be 1 to 100");
    }
    // A client has a month; a request that is held for longer than an hour is cut by somebody on the way.
    let longest =
        if tool.kind == ToolKind::Client { 30 * super::MAX_TOOL_TIMEOUT_MS } else { MAX_HTTP_TIMEOUT_MS };
    if tool.timeout_ms.is_some_and(|ms| ms == 0 || ms > longest) {
        fault("timeout_ms", &format!("must be 1 to {longest}"));
    }
    if tool.output.max_chars == 0 || tool.output.max_chars > MAX_OUTPUT_CHARS {
        fault("output/max_chars", "must be 1 to 1000000");
    }
    match (tool.kind, &tool.http) {
        (ToolKind::Http, Some(http)) => check_http(http, at, errors),
        (ToolKind::Http, None) => fault("http", "a tool of kind http needs it"),
        (ToolKind::Client, Some(_)) => fault("http", "only a tool of kind http has it"),
        (ToolKind::Client, None) => {}
        _ => fault("kind", "this kind is not available in this version; there are http and client"),
    }
    check_key(tool, at, errors);
    check_reconcile(agent, tool, at, errors);
}

fn check_http(http: &HttpSpec, at: &str, errors: &mut Vec<FieldError>) {
    let here = format!("{at}/http/url");
    match Template::parse(&http.url) {
        Err(error) => errors.push(FieldError::new(&here, error.to_string())),
        Ok(template) if template.secrets().next().is_some() => {
            errors.push(FieldError::new(&here, "secrets may stand in headers only"));
        }
        Ok(_) => check_url(&http.url, &here, errors),
    }
    for (name, text) in &http.headers {
        let here = format!("{at}/http/headers/{}", crate::field_error::pointer_token(name));
        let legal = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(legal) {
            errors.push(FieldError::new(&here, "not a header's name"));
        }
        if is_reserved(name) {
            errors.push(FieldError::new(&here, "this header is set by the runtime"));
        }
        if let Err(error) = Template::parse(text) {
            errors.push(FieldError::new(&here, error.to_string()));
        } else if text.contains(['\r', '\n', '\0']) {
            errors.push(FieldError::new(&here, "a header has no line ends"));
        }
    }
}

/// Headers that tell the tool's owner what is called by whom; no agent may write them.
fn is_reserved(name: &str) -> bool {
    const RESERVED: [&str; 12] = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "idempotency-key",
        "x-run-id",
        "x-tool-call-id",
        "x-attempt",
        "traceparent",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    ];
    RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// An address that outgoing calls may have: http or https, with a fixed host and no user.
fn check_url(text: &str, at: &str, errors: &mut Vec<FieldError>) {
    let after_scheme = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains("{{") {
        errors.push(FieldError::new(at, "the host can't be a template"));
        return;
    }
    match url::Url::parse(&text.replace("{{", "").replace("}}", "")) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            errors.push(FieldError::new(at, "an address has no user; credentials belong into headers"));
        }
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {}
        Ok(_) => errors.push(FieldError::new(at, "must be an http or https address")),
        Err(error) => errors.push(FieldError::new(at, format!("not an address: {error}"))),
    }
}

fn check_key(tool: &ToolSpec, at: &str, errors: &mut Vec<FieldError>) {
    let Some(key) = &tool.idempotency_key else { return };
    let here = format!("{at}/idempotency_key");
    match Template::parse(key) {
        Err(error) => errors.push(FieldError::new(here, error.to_string())),
        Ok(template) => {
            if template.slots().any(|slot| matches!(slot, Slot::Secret(_) | Slot::IdempotencyKey)) {
                errors.push(FieldError::new(here, "a key is made of input and context only"));
            }
        }
    }
}

fn check_reconcile(agent: &AgentSpec, tool: &ToolSpec, at: &str, errors: &mut Vec<FieldError>) {
    let Some(reconcile) = &tool.reconcile else { return };
    match agent.tools.iter().find(|other| other.name == reconcile.tool) {
        Some(other) if !other.writes() && other.kind == ToolKind::Http => {}
        Some(_) => {
            errors.push(FieldError::new(
                format!("{at}/reconcile/tool"),
                "must be an http tool without side effect",
            ));
        }
        None => errors.push(FieldError::new(format!("{at}/reconcile/tool"), "the agent has no such tool")),
    }
    if !reconcile.input.is_object() {
        errors.push(FieldError::new(format!("{at}/reconcile/input"), "must be an object"));
    }
    check_templates(&reconcile.input, &format!("{at}/reconcile/input"), errors);
}

fn check_templates(value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::String(text) => match Template::parse(text) {
            Err(error) => errors.push(FieldError::new(at, error.to_string())),
            Ok(template) if template.secrets().next().is_some() => {
                errors.push(FieldError::new(at, "secrets may stand in headers only"));
            }
            Ok(_) => {}
        },
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                check_templates(item, &format!("{at}/{i}"), errors);
            }
        }
        Value::Object(map) => {
            for (name, item) in map {
                check_templates(item, &format!("{at}/{}", crate::field_error::pointer_token(name)), errors);
            }
        }
        _ => {}
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
    fn addresses() {
        for fine in
            ["https://shop.example/o/{{input.id}}?q={{context.q}}", "http://[::1]:80/", "http://0x7f.1/"]
        {
            assert_eq!(faults(http(fine)), [""; 0], "{fine}");
        }
        for odd in [
            "file:///etc/passwd",
            "gopher://h/",
            "https://{{input.host}}/",
            "http://h/{{secret.a}}",
            "/a",
            "http://",
            "http://u:p@h/",
        ] {
            assert_eq!(faults(http(odd)), ["/tools/0/http/url"], "{odd}");
        }
    }

    #[test]
    fn names_keys_headers_and_reconcilers() {
        let two = json!([{"name": "a", "kind": "client"}, {"name": "a", "kind": "client"}]);
        assert_eq!(faults(two), ["/tools/1/name"]);
        assert_eq!(faults(json!([{"name": "look around!", "kind": "client"}])), ["/tools/0/name"]);
        assert_eq!(faults(json!([{"name": "a", "kind": "shell"}])), ["/tools/0/kind"]);
        let headers = json!([{"name": "a", "kind": "http", "http": {"url": "http://h/",
            "headers": {"X-Run-Id": "x", "x note": "y", "x-a": "{{env.A}}"}}}]);
        assert_eq!(faults(headers).len(), 3);
        let key = json!([{"name": "a", "kind": "client", "idempotency_key": "{{secret.a}}",
            "reconcile": {"tool": "a"}}]);
        assert_eq!(faults(key), ["/tools/0/idempotency_key", "/tools/0/reconcile/tool"]);
    }
}
