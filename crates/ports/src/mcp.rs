//! MCP servers: where they are, and what tools they offer.

use std::collections::BTreeMap;

use answerable_core::id::TenantId;
use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::Value;

use crate::store::StoreError;

/// A tenant's MCP server, ready to be called.
#[derive(Debug, Clone)]
pub struct McpTarget {
    /// Whose it is: sessions are never shared between tenants.
    pub tenant_id: TenantId,
    /// The tenant's name for it.
    pub name: String,
    /// Where it is.
    pub place: McpPlace,
    /// Secrets that were filled into its headers: they must not come back, wherever in a header they stand.
    pub secrets: Vec<SecretString>,
    /// A secret that a header names and that isn't there. Nothing may be sent without it.
    pub missing: Option<String>,
    /// Time that a request may take which isn't a call: opening a session, reading a page of tools.
    pub timeout_ms: u64,
    /// Changes with the settings: sessions under another version are closed.
    pub version: String,
}

/// Where a server is.
#[derive(Debug, Clone)]
pub enum McpPlace {
    /// Streamable HTTP.
    Url {
        /// Its address.
        url: String,
        /// Headers of every request, with secrets filled in.
        headers: BTreeMap<String, SecretString>,
    },
    /// A command that the operator's configuration names.
    Stdio {
        /// Its name there.
        command: String,
    },
}

/// Headers that are the protocol's, the trace's or the connection's own: no tenant chooses them.
const RESERVED: [&str; 12] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "traceparent",
    "transfer-encoding",
];

/// Whether a header isn't for tenants to choose.
#[must_use]
pub fn is_reserved_header(name: &str) -> bool {
    RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// A tool as its server describes it. None of it is trusted.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTool {
    /// The server's name for it.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// For the model.
    pub description: String,
    /// As it came, whatever it is; null where there is none.
    pub input_schema: Value,
    /// What the server says of its nature: a suggestion for whoever writes the agent.
    pub annotations: Option<Value>,
}

/// Why a server's tools can't be listed. The words name no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpFault {
    /// It can't be reached, or failed; it may answer later.
    #[error("{0}")]
    Away(String),
    /// It won't: there is no such server, the guard refuses its address, it refuses us or speaks another protocol.
    #[error("{0}")]
    Refused(String),
}

/// Where tenants' MCP servers are kept.
#[async_trait]
pub trait McpServers: Send + Sync {
    /// A tenant's server of that name, if there is one.
    async fn mcp_target(&self, tenant_id: TenantId, name: &str) -> Result<Option<McpTarget>, StoreError>;
}

/// Where lists of tools come from.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// All tools that a server offers now, asked again while it is away, within bounds of its own.
    async fn list(&self, tenant_id: TenantId, server: &str) -> Result<Vec<ListedTool>, McpFault>;

    /// Rises with each word of the server that its tools have changed, and with each session that takes a lost one's place,
    /// as far as this process heard of them.
    fn changes(&self, tenant_id: TenantId, server: &str) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_protocol_are_not_for_tenants() {
        for name in ["Host", "expect", "Content-Encoding", "MCP-Session-Id", "traceparent"] {
            assert!(is_reserved_header(name), "{name}");
        }
        assert!(!is_reserved_header("authorization") && !is_reserved_header("x-host"));
    }
}
