//! What is wrong with one tool, whatever runs it.

use super::check::MAX_ATTEMPTS;
use super::check_http::{check_http, check_templates};
use super::{AgentSpec, ToolKind, ToolSpec, builtin};
use crate::template::{Slot, Template};
use crate::{FieldError, budget};

/// Longest output that a model is shown.
const MAX_OUTPUT_CHARS: usize = 1_000_000;
/// Longest attempt of an http tool: an hour.
const MAX_HTTP_TIMEOUT_MS: u64 = 3_600_000;
/// Most calls of a tool that may be out at once.
const MAX_CONCURRENT: u32 = 10_000;
/// Most calls in a span of time.
const MAX_RATE_CALLS: u32 = 10_000;
/// Most memory of a command.
const MAX_SHELL_MEMORY_MB: u64 = 16_384;
/// Most processes of a command.
const MAX_SHELL_PROCESSES: u32 = 1_024;
/// Bytes of a tool's description.
const MAX_DESCRIPTION: usize = 16 * 1024;

/// A tool of `agent`; `at` is its place.
pub(super) fn check_tool(agent: &AgentSpec, tool: &ToolSpec, at: &str, errors: &mut Vec<FieldError>) {
    let mut fault =
        |field: &str, message: &str| errors.push(FieldError::new(format!("{at}/{field}"), message));
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if tool.name.is_empty() || tool.name.len() > 64 || !tool.name.chars().all(legal) {
        fault("name", "must match ^[A-Za-z0-9_-]{1,64}$");
    }
    if tool.description.len() > MAX_DESCRIPTION {
        fault("description", "at most 16384 bytes");
    }
    check_kind(tool, at, errors);
    check_running(tool, at, errors);
    check_key(tool, at, errors);
    check_reconcile(agent, tool, at, errors);
}

/// How a tool is run, whatever runs it.
pub(super) fn check_running(tool: &ToolSpec, at: &str, errors: &mut Vec<FieldError>) {
    let mut fault =
        |field: &str, message: &str| errors.push(FieldError::new(format!("{at}/{field}"), message));
    if tool.retry.max_attempts == 0 || tool.retry.max_attempts > MAX_ATTEMPTS {
        fault("retry/max_attempts", "must be 1 to 100");
    }
    // A client has a month; a request that is held for longer than an hour is cut by somebody on the way.
    let longest = match tool.kind {
        ToolKind::Client | ToolKind::Agent => 30 * super::MAX_TOOL_TIMEOUT_MS,
        _ => MAX_HTTP_TIMEOUT_MS,
    };
    if tool.timeout_ms.is_some_and(|ms| ms == 0 || ms > longest) {
        fault("timeout_ms", &format!("must be 1 to {longest}"));
    }
    if tool.output.max_chars == 0 || tool.output.max_chars > MAX_OUTPUT_CHARS {
        fault("output/max_chars", "must be 1 to 1000000");
    }
    if matches!(tool.kind, ToolKind::Client | ToolKind::Agent) {
        for (field, is_there) in
            [("max_concurrent", tool.max_concurrent.is_some()), ("rate", tool.rate.is_some())]
        {
            if is_there {
                fault(field, "only tools that the runtime itself calls have such limits");
            }
        }
    }
    if tool.max_concurrent.is_some_and(|calls| calls == 0 || calls > MAX_CONCURRENT) {
        fault("max_concurrent", &format!("must be 1 to {MAX_CONCURRENT}"));
    }
    if let Some(rate) = tool.rate {
        if rate.calls == 0 || rate.calls > MAX_RATE_CALLS {
            fault("rate/calls", &format!("must be 1 to {MAX_RATE_CALLS}"));
        }
        if rate.per_ms == 0 || rate.per_ms > super::MAX_TOOL_TIMEOUT_MS {
            fault("rate/per_ms", &format!("must be 1 to {}", super::MAX_TOOL_TIMEOUT_MS));
        }
    }
}

/// What a kind needs, and what only other kinds have.
fn check_kind(tool: &ToolSpec, at: &str, errors: &mut Vec<FieldError>) {
    let mut fault =
        |field: &str, message: &str| errors.push(FieldError::new(format!("{at}/{field}"), message));
    for (field, kind, is_there) in [
        ("http", ToolKind::Http, tool.http.is_some()),
        ("agent", ToolKind::Agent, tool.agent.is_some()),
        ("shell", ToolKind::Shell, tool.shell.is_some()),
    ] {
        if is_there && tool.kind != kind {
            fault(field, &format!("only a tool of kind {field} has it"));
        }
    }
    match tool.kind {
        ToolKind::Http if tool.http.is_none() => fault("http", "a tool of kind http needs it"),
        ToolKind::Agent if tool.agent.is_none() => fault("agent", "a tool of kind agent needs it"),
        ToolKind::Mcp => {
            fault("kind", "tools of MCP servers are taken by the agent's `mcp`, not written out");
        }
        ToolKind::Workspace | ToolKind::Shell => match builtin::find(tool.kind, &tool.name) {
            None => {
                fault("name", &format!("the built-in tools of this kind are: {}", builtin_names(tool.kind)))
            }
            Some(builtin) if tool.input_schema != builtin.input_schema() => {
                fault("input_schema", "a built-in tool has the runtime's own; leave it out");
            }
            Some(_) => {}
        },
        _ => {}
    }
    if tool.mcp.is_some() {
        fault("mcp", "is set by the runtime");
    }
    if let Some(shell) = &tool.shell {
        if !(16..=MAX_SHELL_MEMORY_MB).contains(&shell.memory_mb) {
            fault("shell/memory_mb", &format!("must be 16 to {MAX_SHELL_MEMORY_MB}"));
        }
        if !(1..=MAX_SHELL_PROCESSES).contains(&shell.max_processes) {
            fault("shell/max_processes", &format!("must be 1 to {MAX_SHELL_PROCESSES}"));
        }
    }
    if tool.kind == ToolKind::Agent && tool.reconcile.is_some() {
        fault("reconcile", "what became of an agent's call is known from its run");
    }
    if let Some(patch) = tool.agent.as_ref().and_then(|agent| agent.budgets.as_ref()) {
        budget::check(&patch.apply(&budget::Budgets::default()), &format!("{at}/agent/budgets"), errors);
    }
    if let Some(http) = &tool.http {
        check_http(http, at, errors);
    }
}

fn builtin_names(kind: ToolKind) -> String {
    let names = builtin::BUILTINS.iter().filter(|tool| tool.kind == kind).map(|tool| tool.name);
    names.collect::<Vec<_>>().join(", ")
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
