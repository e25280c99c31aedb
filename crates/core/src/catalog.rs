//! Catalog: which tools an agent takes from MCP servers, out of what those offer. What a server says is outside input: none
//! of it sets a risk or an effect, and one odd tool spoils no other.

mod equipped;
mod nature;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::{AgentSpec, MAX_TOOLS, McpTool, McpUse, ToolSpec};
use crate::reply::MAX_NAME;
use crate::schema::Schema;
use crate::{json, text};

pub use equipped::Equipped;
pub use nature::{Nature, Suggested, nature};

/// Code points of a description that the model is shown.
const MAX_DESCRIPTION: usize = 4_096;
/// Bytes of all listed tools together.
const MAX_BYTES: usize = 2 * 1024 * 1024;
/// Tools that are named as left out.
const MAX_LEFT_OUT: usize = 128;
/// What stands between a server's name and its tool's.
const BETWEEN: &str = "__";

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
        for tool in listed {
            if let Some(of) = use_of(agent, server, &tool.name) {
                taking.look_at(of, tool);
            }
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
            taking.take(spec);
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

/// What is taken so far.
struct Taking {
    names: HashSet<String>,
    own: usize,
    bytes: usize,
    catalog: Catalog,
}

impl Taking {
    fn of(agent: &AgentSpec) -> Self {
        let names: HashSet<String> = agent.tools.iter().map(|tool| tool.name.clone()).collect();
        Self { names, own: agent.tools.len(), bytes: 0, catalog: Catalog::default() }
    }

    fn look_at(&mut self, of: &McpUse, listed: &Listed) {
        match spec(of, listed) {
            Ok(spec) => {
                let (name, is) = (spec.name.clone(), Nature::of(&spec));
                let says = listed.annotations.as_ref().and_then(nature);
                if self.take(spec)
                    && let Some(nature) = says.filter(|nature| *nature != is)
                {
                    self.catalog.suggested.push(Suggested { tool: name, nature });
                }
            }
            Err((tool, reason)) => self.leave_out(tool, reason),
        }
    }

    /// False: it is left out.
    fn take(&mut self, spec: ToolSpec) -> bool {
        let bytes = spec.input_schema.to_string().len() + spec.description.len();
        let why = if self.names.contains(&spec.name) {
            "another tool has this name".to_owned()
        } else if self.own + self.catalog.tools.len() >= MAX_TOOLS {
            format!("an agent has at most {MAX_TOOLS} tools")
        } else if self.bytes + bytes > MAX_BYTES {
            format!("all tools together are larger than {MAX_BYTES} bytes")
        } else {
            self.bytes += bytes;
            self.names.insert(spec.name.clone());
            self.catalog.tools.push(spec);
            return true;
        };
        self.leave_out(spec.name, why);
        false
    }

    fn leave_out(&mut self, tool: String, reason: String) {
        if self.catalog.left_out.len() < MAX_LEFT_OUT {
            self.catalog.left_out.push(LeftOut { tool, reason });
        }
    }
}

/// A listed tool as one of the agent's, or its name and what is wrong with it.
fn spec(of: &McpUse, listed: &Listed) -> Result<ToolSpec, (String, String)> {
    let name = format!("{}{BETWEEN}{}", of.server, listed.name);
    let is_fit = !listed.name.is_empty()
        && text::chars(&name) <= MAX_NAME
        && !name.chars().any(char::is_control)
        && json::clean_text(&name) == name;
    if !is_fit {
        let shown: String = json::clean_text(text::head(&name, MAX_NAME));
        let reason = format!("its name must have 1 to {MAX_NAME} characters, and none that controls");
        return Err((shown, reason));
    }
    let schema = match &listed.input_schema {
        Value::Null => json!({"type": "object"}),
        schema => json::clean(schema.clone()),
    };
    if let Err(fault) = Schema::compile(&schema) {
        let reason = format!("its input schema can't be used: {}: {}", fault.pointer, fault.message);
        return Err((name, reason));
    }
    if !takes_objects(&schema) {
        return Err((name, "its input schema lets no object in".into()));
    }
    let at = McpTool { server: of.server.clone(), tool: listed.name.clone() };
    Ok(of.defaults.tool(name, description(listed), schema, at))
}

/// Whether the schema's own type lets objects in.
fn takes_objects(schema: &Value) -> bool {
    let is_object = |name: &Value| name.as_str() == Some("object");
    match schema.get("type") {
        None => schema.as_bool() != Some(false),
        Some(Value::Array(names)) => names.iter().any(is_object),
        Some(name) => is_object(name),
    }
}

fn description(listed: &Listed) -> String {
    let said = [listed.description.as_str(), listed.title.as_deref().unwrap_or_default()];
    let said = said.into_iter().find(|said| !said.trim().is_empty()).unwrap_or_default();
    let said = json::clean_text(said);
    let head = text::head(&said, MAX_DESCRIPTION);
    if head.len() < said.len() { format!("{head}…") } else { said }
}

#[cfg(test)]
mod tests;
