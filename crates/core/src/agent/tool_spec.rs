//! One tool of an agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Longest time that one attempt of a tool may take: a day.
pub const MAX_TOOL_TIMEOUT_MS: u64 = 24 * 3600 * 1000;

/// A tool as the tenant writes it (contract, "ToolSpec").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// What the model calls it; `^[A-Za-z0-9_-]{1,64}$`.
    pub name: String,
    /// For the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the input.
    #[serde(default = "any_object")]
    pub input_schema: Value,
    /// What runs it.
    pub kind: ToolKind,
    /// Where it is, for kind `http`.
    #[serde(default)]
    pub http: Option<HttpSpec>,
    /// How much harm a call can do; policies go by it.
    #[serde(default = "Risk::low")]
    pub risk: Risk,
    /// Whether a call changes something. A tool that doesn't say is taken to.
    #[serde(default = "SideEffect::write")]
    pub side_effect: SideEffect,
    /// The far side honours `Idempotency-Key`.
    #[serde(default)]
    pub idempotent: bool,
    /// Template of a business key; absent: the runtime makes one a call.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// Time that one attempt may take; absent: 30 s, for client tools 24 h.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Attempts of one call.
    #[serde(default)]
    pub retry: ToolRetry,
    /// May run beside other calls of the same reply.
    #[serde(default)]
    pub parallel_safe: bool,
    /// What becomes of long output.
    #[serde(default)]
    pub output: OutputSpec,
    /// Whether repeated calls count as a loop.
    #[serde(default = "Repeat::guard")]
    pub repeat: Repeat,
    /// How to ask what became of an unclear call.
    #[serde(default)]
    pub reconcile: Option<ReconcileSpec>,
    /// What happens when nobody can say.
    #[serde(default = "OnUncertain::stop")]
    pub on_uncertain: OnUncertain,
}

impl ToolSpec {
    /// Time that one attempt may take, in milliseconds.
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_ms.unwrap_or(if self.kind == ToolKind::Client { MAX_TOOL_TIMEOUT_MS } else { 30_000 })
    }

    /// Whether a call changes something.
    pub fn writes(&self) -> bool {
        self.side_effect == SideEffect::Write
    }
}

/// What runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// A request to the tenant's own service.
    Http,
    /// A tool of an MCP server.
    Mcp,
    /// The caller of the API answers.
    Client,
    /// A built-in tool over the run's files.
    Workspace,
    /// A built-in tool that runs a command in a sandbox.
    Shell,
    /// Another agent.
    Agent,
}

/// Where an `http` tool is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSpec {
    /// Template of the address.
    pub url: String,
    /// Method.
    #[serde(default)]
    pub method: Method,
    /// Templates of more headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// Method of an `http` tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Method {
    Get,
    #[default]
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// The input goes into the query, not into a body.
    pub fn is_bodiless(self) -> bool {
        matches!(self, Self::Get | Self::Delete)
    }

    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// How much harm a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Risk {
    Low,
    Medium,
    High,
    Critical,
}

impl Risk {
    fn low() -> Self {
        Self::Low
    }

    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// Whether a call changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideEffect {
    /// It only reads.
    None,
    /// It may change something.
    Write,
}

impl SideEffect {
    fn write() -> Self {
        Self::Write
    }
}

/// Attempts of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolRetry {
    /// The first included. Unclear writes are never sent again, whatever this says.
    pub max_attempts: u32,
    /// Pause before the second attempt; doubles each time.
    pub backoff_ms: u64,
}

impl Default for ToolRetry {
    fn default() -> Self {
        Self { max_attempts: 3, backoff_ms: 200 }
    }
}

/// What becomes of long output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputSpec {
    /// Code points that the model is shown.
    pub max_chars: usize,
    /// What happens over that.
    pub on_overflow: OnOverflow,
}

impl Default for OutputSpec {
    fn default() -> Self {
        Self { max_chars: 16_000, on_overflow: OnOverflow::Truncate }
    }
}

/// What happens to output over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnOverflow {
    /// The head is shown, the whole kept as an artifact.
    Truncate,
    /// The call counts as failed, `OUTPUT_TOO_LARGE`.
    Error,
}

/// Whether repeated calls count as a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// They do.
    Guard,
    /// They don't: polling and paging.
    Allow,
}

impl Repeat {
    fn guard() -> Self {
        Self::Guard
    }
}

/// How to ask what became of an unclear call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReconcileSpec {
    /// A tool of the same agent, without side effect.
    pub tool: String,
    /// Its input, with templates in strings.
    #[serde(default = "empty_object")]
    pub input: Value,
}

/// What happens when nobody can say whether a write happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUncertain {
    /// The run ends, `side_effect_uncertain`.
    Stop,
    /// The run waits for a person.
    Ask,
    /// The model is told; the same call is refused from then on.
    Observe,
}

impl OnUncertain {
    fn stop() -> Self {
        Self::Stop
    }
}

fn any_object() -> Value {
    json!({"type": "object"})
}

fn empty_object() -> Value {
    json!({})
}
