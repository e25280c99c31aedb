//! Which tools of an MCP server an agent takes, and what is to hold for them.

use serde::{Deserialize, Serialize};

use super::tool_spec::{
    McpTool, OnUncertain, OutputSpec, RateSpec, Repeat, Risk, SideEffect, ToolKind, ToolRetry, ToolSpec,
};
use crate::permission::glob_matches;

/// A server whose tools an agent takes (contract, "Agents"). Several of these may name one server; for each tool the first
/// that lets it in counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpUse {
    /// The tenant's name for the server.
    pub server: String,
    /// Globs over the server's own names of tools: only what matches one is taken.
    #[serde(default)]
    pub allow: Vec<String>,
    /// What holds for these tools.
    #[serde(default)]
    pub defaults: ToolDefaults,
    /// Without the server the run can't go on.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub required: bool,
}

impl McpUse {
    /// Whether the tool of that name, as the server calls it, is taken.
    pub fn admits(&self, tool: &str) -> bool {
        self.allow.iter().any(|glob| glob_matches(glob, tool))
    }
}

/// What holds for the tools of a server, as the fields of [`ToolSpec`] with these names. Nothing that the server says of its
/// tools changes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "they are those of `ToolSpec`")]
pub struct ToolDefaults {
    pub risk: Risk,
    pub side_effect: SideEffect,
    pub idempotent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    pub retry: ToolRetry,
    pub parallel_safe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateSpec>,
    pub output: OutputSpec,
    pub repeat: Repeat,
    pub on_uncertain: OnUncertain,
}

impl Default for ToolDefaults {
    fn default() -> Self {
        Self {
            risk: Risk::Low,
            side_effect: SideEffect::Write,
            idempotent: false,
            timeout_ms: None,
            retry: ToolRetry::default(),
            parallel_safe: false,
            max_concurrent: None,
            rate: None,
            output: OutputSpec::default(),
            repeat: Repeat::Guard,
            on_uncertain: OnUncertain::Stop,
        }
    }
}

impl ToolDefaults {
    /// A tool of a server under these.
    pub fn tool(
        &self,
        name: String,
        description: String,
        input_schema: serde_json::Value,
        at: McpTool,
    ) -> ToolSpec {
        ToolSpec {
            name,
            description,
            input_schema,
            kind: ToolKind::Mcp,
            http: None,
            mcp: Some(at),
            agent: None,
            shell: None,
            risk: self.risk,
            side_effect: self.side_effect,
            idempotent: self.idempotent,
            idempotency_key: None,
            timeout_ms: self.timeout_ms,
            retry: self.retry.clone(),
            parallel_safe: self.parallel_safe,
            max_concurrent: self.max_concurrent,
            rate: self.rate,
            output: self.output.clone(),
            repeat: self.repeat,
            reconcile: None,
            on_uncertain: self.on_uncertain,
        }
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_yes(value: &bool) -> bool {
    *value
}
