//! The agent as a tenant writes it (contract, "Agents"). Absent fields get the contract's defaults.

#[cfg(test)]
mod borders;
pub mod builtin;
mod check;
mod check_http;
mod check_tool;
mod mcp_use;
mod redact;
mod tool_spec;
mod written;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use check::MAX_TOOLS;
pub use check::check;
pub use check_http::after_scheme;
pub use mcp_use::{McpUse, ToolDefaults};
pub(crate) use redact::redacted_url;
pub use redact::{REDACTED, redacted};
pub use tool_spec::{
    AgentTool, HttpSpec, MAX_TOOL_TIMEOUT_MS, McpTool, Method, OnOverflow, OnUncertain, OutputSpec, RateSpec,
    ReconcileSpec, Repeat, Risk, ShellSpec, SideEffect, ToolKind, ToolRetry, ToolSpec,
};

use crate::budget::Budgets;
use crate::permission::Policy;

/// An agent: everything that a run pins for its whole life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// For people and lists; not unique.
    pub name: String,
    /// System text.
    #[serde(default)]
    pub instructions: String,
    /// Which model answers, and how it is asked.
    pub model: ModelSpec,
    /// Tools that the model is offered.
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    /// MCP servers whose tools are offered too.
    #[serde(default)]
    pub mcp: Vec<McpUse>,
    /// Who may call what.
    #[serde(default = "Policy::for_agent")]
    pub policy: Policy,
    /// What a run may spend.
    #[serde(default)]
    pub budgets: Budgets,
    /// When work counts as no progress.
    #[serde(default)]
    pub loop_guard: LoopGuardSpec,
    /// How much of the history the model sees.
    #[serde(default)]
    pub context: ContextSpec,
    /// JSON Schema that the final answer must match, as JSON text.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// What its spans hold.
    #[serde(default, skip_serializing_if = "TraceSpec::is_default")]
    pub trace: TraceSpec,
}

/// Which model answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Name of one of the tenant's providers.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// Sampling temperature; absent: the provider's default.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Cap of one reply in tokens; absent: the provider's default.
    #[serde(default)]
    pub max_output_tokens: Option<u64>,
    /// Time that one attempt may take.
    #[serde(default = "model_timeout_ms")]
    pub timeout_ms: u64,
    /// Time until the first thing that a streamed reply says; absent: as the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_timeout_ms: Option<u64>,
    /// Time from one thing that a streamed reply says to the next; absent: as the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Attempts on each target.
    #[serde(default)]
    pub retry: ModelRetrySpec,
    /// Asked in turn when the one before has no more attempts.
    #[serde(default)]
    pub fallbacks: Vec<Fallback>,
    /// More fields of the request, as the provider names them.
    #[serde(default)]
    pub params: Map<String, Value>,
}

impl ModelSpec {
    /// Provider and model of a target: 0 is the main one, the rest are the fallbacks.
    pub fn target(&self, index: usize) -> Option<(&str, &str)> {
        match index {
            0 => Some((&self.provider, &self.model)),
            n => self
                .fallbacks
                .get(n - 1)
                .map(|fallback| (fallback.provider.as_str(), fallback.model.as_str())),
        }
    }

    /// More fields of a request to that target. What the main model's provider understands another may refuse.
    pub fn params(&self, index: usize) -> Map<String, Value> {
        let Some(fallback) = index.checked_sub(1).and_then(|n| self.fallbacks.get(n)) else {
            return self.params.clone();
        };
        match &fallback.params {
            Some(own) => own.clone(),
            None if fallback.provider == self.provider => self.params.clone(),
            None => Map::new(),
        }
    }
}

/// Attempts on a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelRetrySpec {
    /// The first included.
    pub max_attempts: u32,
    /// Pause before the second attempt in milliseconds, from which it doubles.
    pub backoff_ms: u64,
}

impl Default for ModelRetrySpec {
    fn default() -> Self {
        Self { max_attempts: 4, backoff_ms: 500 }
    }
}

/// Another model to ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    /// Name of one of the tenant's providers.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// More fields of the request; absent: those of the main model if it is the same provider's, else none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
}

/// When work counts as no progress (contract, "Behaviours decided" 2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoopGuardSpec {
    /// Times that a cycle of calls may come before the run ends.
    pub max_repeated_calls: u32,
    /// Times that one tool may fail alike before the run ends.
    pub max_repeated_errors: u32,
}

impl Default for LoopGuardSpec {
    fn default() -> Self {
        Self { max_repeated_calls: 3, max_repeated_errors: 3 }
    }
}

/// How much of the history the model sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContextSpec {
    /// Tokens of one request, estimated.
    pub max_tokens: u64,
    /// What happens to a history that is larger.
    pub overflow: Overflow,
}

impl Default for ContextSpec {
    fn default() -> Self {
        Self { max_tokens: 32_000, overflow: Overflow::DropOldest }
    }
}

/// What happens to a history that doesn't fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The oldest whole turns are left out.
    DropOldest,
    /// The oldest turns are summed up by the model.
    Summarize,
    /// The run ends with `context_overflow`.
    Stop,
}

/// What the spans of an agent's runs hold beside facts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TraceSpec {
    /// What models and tools said goes into spans, if the operator lets it.
    pub content: bool,
    /// JSON pointers into inputs and results of calls: what they name is left out. `*` is every member or element.
    pub redact: Vec<String>,
}

impl TraceSpec {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Prices of one model in micro-USD a million tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Price {
    /// Input that was not in the provider's cache.
    pub input_microusd_per_mtok: u64,
    /// Output, reasoning included.
    pub output_microusd_per_mtok: u64,
    /// Input that was in the cache; absent: as other input.
    pub cached_input_microusd_per_mtok: Option<u64>,
    /// Input that was written to the cache; absent: a quarter more than other input.
    pub cache_write_microusd_per_mtok: Option<u64>,
}

/// Prices by model name.
pub type Prices = BTreeMap<String, Price>;

fn model_timeout_ms() -> u64 {
    60_000
}
