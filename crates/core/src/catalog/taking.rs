//! Listed tools, one after another: what of them is taken. Their servers are not trusted, so names are cut before they are
//! compared, and what has no place any more is not looked into.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::nature::{Nature, Suggested, nature};
use super::{Catalog, LeftOut, Listed, use_of};
use crate::agent::{AgentSpec, MAX_TOOLS, McpTool, McpUse, ToolSpec};
use crate::reply::MAX_NAME;
use crate::schema::Schema;
use crate::{json, text};

/// Code points of a description that the model is shown.
pub(super) const MAX_DESCRIPTION: usize = 4_096;
/// Bytes of all listed tools together; and of those of one server that were looked at in vain.
pub(super) const MAX_BYTES: usize = 2 * 1024 * 1024;
/// What a tool counts for at least that was looked at in vain: a short pattern may take long, too.
const LEAST_SPOILT: usize = 16 * 1024;
/// Characters of patterns times characters of names that are compared with them.
const MAX_COMPARED: usize = 2_000_000_000;
/// Tools that are named as left out.
pub(super) const MAX_LEFT_OUT: usize = 128;
/// What stands between a server's name and its tool's.
const BETWEEN: &str = "__";

/// What is taken so far.
pub(super) struct Taking {
    names: HashSet<String>,
    own: usize,
    bytes: usize,
    /// Bytes of this server's tools that turned out to be no use.
    spoilt: usize,
    /// Bytes of the agent's patterns for it.
    patterns: usize,
    /// How much was compared with patterns so far.
    compared: usize,
    pub(super) catalog: Catalog,
}

impl Taking {
    pub(super) fn of(agent: &AgentSpec) -> Self {
        let names: HashSet<String> = agent.tools.iter().map(|tool| tool.name.clone()).collect();
        let (own, catalog) = (agent.tools.len(), Catalog::default());
        Self { names, own, bytes: 0, spoilt: 0, patterns: 0, compared: 0, catalog }
    }

    /// The next server.
    pub(super) fn begin(&mut self, agent: &AgentSpec, server: &str) {
        let globs = agent.mcp.iter().filter(|entry| entry.server == server).flat_map(|entry| &entry.allow);
        (self.spoilt, self.patterns) = (0, globs.map(String::len).sum());
    }

    pub(super) fn look_at(&mut self, agent: &AgentSpec, server: &str, listed: &Listed) {
        // Cut first: it may be megabytes long.
        let head = text::head(&listed.name, MAX_NAME);
        let name = format!("{server}{BETWEEN}{head}");
        self.compared = self.compared.saturating_add(self.patterns.saturating_mul(head.len()));
        if self.compared > MAX_COMPARED {
            return self.leave_out(shown(&name), "there are too many tools for so many patterns".to_owned());
        }
        let Some(of) = use_of(agent, server, head) else { return };
        if head.len() < listed.name.len() || !is_fit(&name, head) {
            let reason = format!("its name must have 1 to {MAX_NAME} characters, and none that controls");
            return self.leave_out(shown(&name), reason);
        }
        if let Err(why) = self.room(&name, 0) {
            return self.leave_out(name, why);
        }
        let spec = spec(of, name, listed);
        let bytes = size(&spec);
        if let Err(why) = self.room(&spec.name, bytes).and_then(|()| self.usable(&spec, bytes)) {
            return self.leave_out(spec.name, why);
        }
        let says = listed.annotations.as_ref().and_then(nature);
        if let Some(nature) = says.filter(|nature| *nature != Nature::of(&spec)) {
            self.catalog.suggested.push(Suggested { tool: spec.name.clone(), nature });
        }
        self.take(spec, bytes);
    }

    /// A tool that was looked at before.
    pub(super) fn retake(&mut self, spec: ToolSpec) {
        let bytes = size(&spec);
        match self.room(&spec.name, bytes) {
            Ok(()) => self.take(spec, bytes),
            Err(why) => self.leave_out(spec.name, why),
        }
    }

    /// Whether there is a place for a tool of that name and size.
    fn room(&self, name: &str, bytes: usize) -> Result<(), String> {
        if self.own + self.catalog.tools.len() >= MAX_TOOLS {
            Err(format!("an agent has at most {MAX_TOOLS} tools"))
        } else if self.names.contains(name) {
            Err("another tool has this name".to_owned())
        } else if self.bytes + bytes > MAX_BYTES {
            Err(format!("all tools together are larger than {MAX_BYTES} bytes"))
        } else {
            Ok(())
        }
    }

    /// Whether its schema can be used. Finding that out takes time, so it is limited how much is looked at in vain.
    fn usable(&mut self, spec: &ToolSpec, bytes: usize) -> Result<(), String> {
        if self.spoilt + bytes > MAX_BYTES {
            return Err("too many tools of its server have input schemas that can't be used".to_owned());
        }
        let usable = fit(&spec.input_schema);
        if usable.is_err() {
            self.spoilt += bytes.max(LEAST_SPOILT);
        }
        usable
    }

    fn take(&mut self, spec: ToolSpec, bytes: usize) {
        self.bytes += bytes;
        self.names.insert(spec.name.clone());
        self.catalog.tools.push(spec);
    }

    fn leave_out(&mut self, tool: String, reason: String) {
        if self.catalog.left_out.len() < MAX_LEFT_OUT {
            self.catalog.left_out.push(LeftOut { tool, reason });
        }
    }
}

/// Bytes of what a server chose.
fn size(spec: &ToolSpec) -> usize {
    spec.input_schema.to_string().len() + spec.description.len()
}

/// Whether a listed tool can have that name.
fn is_fit(name: &str, own: &str) -> bool {
    !own.is_empty()
        && text::chars(name) <= MAX_NAME
        && !name.chars().any(char::is_control)
        && json::clean_text(name) == name
}

/// What of a name can be shown.
fn shown(name: &str) -> String {
    json::clean_text(text::head(name, MAX_NAME))
}

/// A listed tool as one of the agent's.
fn spec(of: &McpUse, name: String, listed: &Listed) -> ToolSpec {
    let schema = match &listed.input_schema {
        Value::Null => json!({"type": "object"}),
        schema => json::clean(schema.clone()),
    };
    let at = McpTool { server: of.server.clone(), tool: listed.name.clone() };
    of.defaults.tool(name, description(listed), schema, at)
}

/// What is wrong with an input schema, if anything is.
fn fit(schema: &Value) -> Result<(), String> {
    if let Err(fault) = Schema::compile(schema) {
        return Err(format!("its input schema can't be used: {}: {}", fault.pointer, fault.message));
    }
    if takes_objects(schema) { Ok(()) } else { Err("its input schema lets no object in".into()) }
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
