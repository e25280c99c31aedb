//! Catalog: which tools an agent takes from MCP servers, out of what those offer. What a server says is outside input: none
//! of it sets a risk or an effect, and one odd tool spoils no other.

mod equipped;
mod nature;
mod taking;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{AgentSpec, McpUse, ToolSpec};
use crate::json;
use taking::Taking;

pub use equipped::Equipped;
pub use nature::{Nature, Suggested, nature};

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The server's name for it.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// For the model.
    pub description: String,
    /// Whatever the server gave; null where it gave none.
    pub input_schema: Value,
    /// What the server says of its nature.
    pub annotations: Option<Value>,
}

/// The tools that an agent takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    /// They, in the order of the agent's servers and then of each server's list.
    pub tools: Vec<ToolSpec>,
    /// Those that it would take and can't.
    pub left_out: Vec<LeftOut>,
    /// What servers say otherwise than the agent.
    pub suggested: Vec<Suggested>,
}

/// A tool that an agent would take and can't.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// `SERVER__TOOL`.
    pub tool: String,
    /// Why.
    pub reason: String,
}

/// A server whose tools a run is without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The tenant's name for it.
    pub server: String,
    /// Why.
    pub reason: String,
}

/// The tools that `agent` takes out of `lists`: what each of its servers offers.
pub fn catalog(agent: &AgentSpec, lists: &[(String, Vec<Listed>)]) -> Catalog {
    let mut taking = Taking::of(agent);
    for (server, listed) in lists {
        taking.begin(agent, server);
        for tool in listed {
            taking.look_at(agent, server, tool);
        }
    }
    taking.catalog
}

/// The same tools as another agent takes them: with what it says of them, and without those that it doesn't take.
pub fn retaken(agent: &AgentSpec, tools: &[ToolSpec]) -> Vec<ToolSpec> {
    let mut taking = Taking::of(agent);
    for tool in tools {
        let Some(at) = &tool.mcp else { continue };
        if let Some(of) = use_of(agent, &at.server, &at.tool) {
            let schema = tool.input_schema.clone();
            let spec = of.defaults.tool(tool.name.clone(), tool.description.clone(), schema, at.clone());
            taking.retake(spec);
        }
    }
    taking.catalog.tools
}

/// The agent as it is with listed tools.
#[must_use]
pub fn with_tools(agent: &AgentSpec, tools: &[ToolSpec]) -> AgentSpec {
    let mut agent = agent.clone();
    agent.tools.extend(tools.iter().cloned());
    agent
}

/// What tells one list from another.
pub fn hash(tools: &[ToolSpec]) -> String {
    let tools = serde_json::to_value(tools).unwrap_or_default();
    json::sha256_hex(json::canonical(&tools).as_bytes())
}

/// The servers that an agent names, each once, and whether it can do without.
pub fn servers(agent: &AgentSpec) -> Vec<(&str, bool)> {
    let mut servers: Vec<(&str, bool)> = Vec::new();
    for entry in &agent.mcp {
        match servers.iter_mut().find(|(name, _)| *name == entry.server) {
            Some((_, required)) => *required |= entry.required,
            None => servers.push((&entry.server, entry.required)),
        }
    }
    servers
}

/// The first entry of the agent's that lets the tool in.
fn use_of<'a>(agent: &'a AgentSpec, server: &str, tool: &str) -> Option<&'a McpUse> {
    agent.mcp.iter().find(|entry| entry.server == server && entry.admits(tool))
}

#[cfg(test)]
mod tests;
