//! MCP servers, and what they offer.

use std::collections::BTreeMap;

use answerable_core::catalog::{Nature, nature};
use answerable_ports::{ListedTool, McpPlace};
use answerable_store::{McpServerPut, McpServerRow};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Time;
use super::settings::HIDDEN;
use crate::body::RequestBody;

/// A server as it is put.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpServerSpec {
    #[serde(default)]
    pub(crate) url: Option<String>,
    #[serde(default)]
    pub(crate) stdio: Option<String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default = "timeout_ms")]
    timeout_ms: i64,
}

impl RequestBody for McpServerSpec {}

fn timeout_ms() -> i64 {
    30_000
}

impl From<McpServerSpec> for McpServerPut {
    fn from(spec: McpServerSpec) -> Self {
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), SecretString::from(value));
        let place = match spec.url {
            Some(url) => McpPlace::Url { url, headers: spec.headers.into_iter().map(lower).collect() },
            None => McpPlace::Stdio { command: spec.stdio.unwrap_or_default() },
        };
        Self { place, timeout_ms: spec.timeout_ms }
    }
}

/// A server as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct McpServer {
    name: String,
    url: Option<String>,
    stdio: Option<String>,
    headers: BTreeMap<String, &'static str>,
    timeout_ms: i64,
    created_at: Time,
    updated_at: Time,
}

impl From<McpServerRow> for McpServer {
    fn from(row: McpServerRow) -> Self {
        Self {
            name: row.name,
            url: row.url,
            stdio: row.stdio,
            headers: row.header_names.into_iter().map(|name| (name, HIDDEN)).collect(),
            timeout_ms: row.timeout_ms,
            created_at: Time(row.created_at),
            updated_at: Time(row.updated_at),
        }
    }
}

/// What a server offers now: a list without pages.
#[derive(Debug, Serialize)]
pub(crate) struct OfferedTools {
    data: Vec<OfferedTool>,
    next_cursor: Option<String>,
}

#[derive(Debug, Serialize)]
struct OfferedTool {
    /// What an agent's model would call it.
    name: String,
    /// The server's own name, which `allow` is matched with.
    own_name: String,
    title: Option<String>,
    description: String,
    input_schema: Value,
    annotations: Option<Value>,
    /// What the annotations come to.
    suggested: Option<Nature>,
}

impl OfferedTools {
    pub(crate) fn of(server: &str, tools: Vec<ListedTool>) -> Self {
        let offered = |tool: ListedTool| OfferedTool {
            name: format!("{server}__{}", tool.name),
            suggested: tool.annotations.as_ref().and_then(nature),
            own_name: tool.name,
            title: tool.title,
            description: tool.description,
            input_schema: tool.input_schema,
            annotations: tool.annotations,
        };
        Self { data: tools.into_iter().map(offered).collect(), next_cursor: None }
    }
}
