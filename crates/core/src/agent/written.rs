//! A tool as its author writes it: what is left out is filled in once, when the agent is read, so that what a run pins
//! says all.

use serde::Deserialize;
use serde_json::{Value, json};

use super::builtin::{self, Builtin};
use super::tool_spec::{
    AgentTool, HttpSpec, McpTool, OnUncertain, OutputSpec, RateSpec, ReconcileSpec, Repeat, Risk, ShellSpec,
    SideEffect, ToolKind, ToolRetry, ToolSpec,
};

/// What an agent's author may write of a tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    input_schema: Option<Value>,
    #[serde(default = "http")]
    kind: ToolKind,
    #[serde(default)]
    http: Option<HttpSpec>,
    #[serde(default)]
    mcp: Option<McpTool>,
    #[serde(default)]
    agent: Option<AgentTool>,
    #[serde(default)]
    shell: Option<ShellSpec>,
    #[serde(default)]
    risk: Option<Risk>,
    #[serde(default)]
    side_effect: Option<SideEffect>,
    #[serde(default)]
    idempotent: Option<bool>,
    #[serde(default)]
    idempotency_key: Option<String>,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    retry: ToolRetry,
    #[serde(default)]
    parallel_safe: Option<bool>,
    #[serde(default)]
    max_concurrent: Option<u32>,
    #[serde(default)]
    rate: Option<RateSpec>,
    #[serde(default)]
    output: OutputSpec,
    #[serde(default = "guard")]
    repeat: Repeat,
    #[serde(default)]
    reconcile: Option<ReconcileSpec>,
    #[serde(default = "stop")]
    on_uncertain: OnUncertain,
}

impl From<Written> for ToolSpec {
    fn from(written: Written) -> Self {
        let builtin = builtin::find(written.kind, &written.name);
        let shell = written.shell.or_else(|| (written.kind == ToolKind::Shell).then(ShellSpec::default));
        Self {
            description: written
                .description
                .unwrap_or_else(|| builtin.map_or_else(String::new, |tool| tool.description.into())),
            input_schema: written.input_schema.unwrap_or_else(|| default_schema(written.kind, builtin)),
            risk: written.risk.unwrap_or_else(|| builtin.map_or(Risk::Low, |tool| tool.risk)),
            side_effect: written
                .side_effect
                .unwrap_or_else(|| builtin.map_or(SideEffect::Write, |tool| tool.side_effect)),
            // A built-in tool's changes are stored with the id of their call: the same call changes nothing twice. What a
            // command does on the network is another matter.
            idempotent: written
                .idempotent
                .unwrap_or_else(|| builtin.is_some() && !shell.as_ref().is_some_and(|shell| shell.network)),
            parallel_safe: written
                .parallel_safe
                .unwrap_or_else(|| builtin.is_some_and(|tool| tool.side_effect == SideEffect::None)),
            shell,
            name: written.name,
            kind: written.kind,
            http: written.http,
            mcp: written.mcp,
            agent: written.agent,
            idempotency_key: written.idempotency_key,
            timeout_ms: written.timeout_ms,
            retry: written.retry,
            max_concurrent: written.max_concurrent,
            rate: written.rate,
            output: written.output,
            repeat: written.repeat,
            reconcile: written.reconcile,
            on_uncertain: written.on_uncertain,
        }
    }
}

fn default_schema(kind: ToolKind, builtin: Option<&Builtin>) -> Value {
    match (kind, builtin) {
        (_, Some(tool)) => tool.input_schema(),
        (ToolKind::Agent, None) => json!({
            "type": "object",
            "properties": {"input": {"type": "string", "description": "What it is to do, with all that it must know."}},
            "required": ["input"],
            "additionalProperties": false,
        }),
        (_, None) => json!({"type": "object"}),
    }
}

fn http() -> ToolKind {
    ToolKind::Http
}

fn guard() -> Repeat {
    Repeat::Guard
}

fn stop() -> OnUncertain {
    OnUncertain::Stop
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tool: Value) -> ToolSpec {
        crate::field_error::read(tool).expect("a tool")
    }

    #[test]
    fn what_is_left_out_is_filled_in_and_read_back_the_same() {
        for tool in [
            json!({"name": "read_file", "kind": "workspace"}),
            json!({"name": "edit_file", "kind": "workspace", "risk": "high"}),
            json!({"name": "run_command", "kind": "shell"}),
            json!({"name": "pay", "kind": "client"}),
            json!({"name": "ask", "kind": "agent", "agent": {"agent_id": "agt_0192f0c1-2345-7890-abcd-ef0123456789"}}),
        ] {
            let spec = read(tool);
            let again = read(serde_json::to_value(&spec).expect("JSON"));
            assert_eq!(again, spec);
        }
        let reader = read(json!({"name": "read_file", "kind": "workspace"}));
        assert_eq!((reader.risk, reader.side_effect), (Risk::Low, SideEffect::None));
        assert!(reader.parallel_safe && reader.description.contains("file"));
        let writer = read(json!({"name": "write_file", "kind": "workspace"}));
        assert_eq!((writer.risk, writer.side_effect), (Risk::Medium, SideEffect::Write));
        assert!(writer.idempotent && !writer.parallel_safe);
        let command = read(json!({"name": "run_command", "kind": "shell", "shell": {"network": true}}));
        assert_eq!((command.risk, command.idempotent), (Risk::High, false));
        let other = read(json!({"name": "x", "http": {"url": "http://h/"}}));
        assert_eq!(other.kind, ToolKind::Http);
        assert_eq!((other.risk, other.side_effect), (Risk::Low, SideEffect::Write));
        assert!(!other.idempotent && !other.parallel_safe);
    }

    #[test]
    fn a_fault_is_told_where_it_is() {
        for (tool, at) in [
            (json!({"name": "x", "kind": "client", "colour": 1}), "/colour"),
            (json!({"name": "x", "kind": "client", "risk": "odd"}), "/risk"),
            (json!({"kind": "client"}), "/name"),
            (json!({"name": "x", "kind": "client", "retry": {"max_attempts": "3"}}), "/retry/max_attempts"),
        ] {
            let fault = crate::field_error::read::<ToolSpec>(tool).expect_err("a fault");
            assert_eq!(fault.pointer, at, "{}", fault.message);
        }
    }
}
