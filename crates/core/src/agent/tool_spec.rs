//! One tool of an agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::budget::BudgetPatch;
use crate::id::AgentId;

/// Longest time that one attempt of a tool may take: a day.
pub const MAX_TOOL_TIMEOUT_MS: u64 = 24 * 3600 * 1000;

/// A tool, with all that its author left to the runtime filled in (contract, "ToolSpec"; [`super::written`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "super::written::Written")]
pub struct ToolSpec {
    /// What the model calls it; `^[A-Za-z0-9_-]{1,64}$`, for a tool of an MCP server `SERVER__TOOL`.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of the input.
    pub input_schema: Value,
    /// What runs it.
    pub kind: ToolKind,
    /// Where it is, for kind `http`.
    pub http: Option<HttpSpec>,
    /// Where it is, for kind `mcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpTool>,
    /// Who it is, for kind `agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentTool>,
    /// What its commands may use, for kind `shell`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<ShellSpec>,
    /// How much harm a call can do; policies go by it.
    pub risk: Risk,
    /// Whether a call changes something. A tool that doesn't say is taken to.
    pub side_effect: SideEffect,
    /// The far side honours `Idempotency-Key`.
    pub idempotent: bool,
    /// Template of a business key; absent: the runtime makes one a call.
    pub idempotency_key: Option<String>,
    /// Time that one attempt may take; absent: 30 s, for client tools and agents 24 h.
    pub timeout_ms: Option<u64>,
    /// Attempts of one call.
    pub retry: ToolRetry,
    /// May run beside other calls of the same reply.
    pub parallel_safe: bool,
    /// Calls of it that the tenant's runs may have out at once; absent: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// Calls of it that the tenant's runs may begin in a span of time; absent: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateSpec>,
    /// What becomes of long output.
    pub output: OutputSpec,
    /// Whether repeated calls count as a loop.
    pub repeat: Repeat,
    /// How to ask what became of an unclear call.
    pub reconcile: Option<ReconcileSpec>,
    /// What happens when nobody can say.
    pub on_uncertain: OnUncertain,
}

impl ToolSpec {
    /// Time that one attempt may take, in milliseconds.
    pub fn timeout_ms(&self) -> u64 {
        let waits = matches!(self.kind, ToolKind::Client | ToolKind::Agent);
        self.timeout_ms.unwrap_or(if waits { MAX_TOOL_TIMEOUT_MS } else { 30_000 })
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
    /// Templates of query values, by name. Absent: GET and DELETE send the input's top-level scalars, others nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<BTreeMap<String, String>>,
    /// Template of the body: JSON with templates in its strings. Absent: the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

/// Where a tool of kind `mcp` is. The runtime writes this when it reads a server's list; no agent may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpTool {
    /// The tenant's name for the server.
    pub server: String,
    /// The server's own name for the tool, whatever characters it has.
    pub tool: String,
}

/// Who a tool of kind `agent` is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentTool {
    /// The agent, one of the same tenant's.
    pub agent_id: AgentId,
    /// Its version; absent: the newest when the call begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<u32>,
    /// Limits of one call, beside the agent's own and what the calling run has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<BudgetPatch>,
}

/// What the commands of a tool of kind `shell` may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ShellSpec {
    /// They may reach the network. What they do there, no guard sees.
    pub network: bool,
    /// Memory of all processes of a command together, in MiB.
    pub memory_mb: u64,
    /// Processes and threads of a command.
    pub max_processes: u32,
}

impl Default for ShellSpec {
    fn default() -> Self {
        Self { network: false, memory_mb: 512, max_processes: 64 }
    }
}

/// So many calls in such a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateSpec {
    /// Calls.
    pub calls: u32,
    /// Span in milliseconds.
    pub per_ms: u64,
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

fn empty_object() -> Value {
    json!({})
}
