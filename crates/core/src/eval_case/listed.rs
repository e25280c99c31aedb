//! Tools of MCP servers in a case: they are played by whoever plays the case, so the agent has them as tools of its own.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::agent::ToolSpec;
use crate::reply::legal_name;
use crate::run::Event;

/// Where the tools of a case are that nobody calls under this address.
const NOWHERE: &str = "https://mcp.invalid/";

/// All tools that were listed while the run lived, by name, as they were last.
#[derive(Default)]
pub(super) struct ListedTools {
    order: Vec<String>,
    tools: BTreeMap<String, ToolSpec>,
}

impl ListedTools {
    /// Takes in what servers offered.
    pub(super) fn note(&mut self, event: &Event) {
        let Event::ToolsListed { list, .. } = event else { return };
        for tool in &list.tools {
            if self.tools.insert(tool.name.clone(), tool.clone()).is_none() {
                self.order.push(tool.name.clone());
            }
        }
    }

    /// Everywhere in a case the names that an agent's own tools may have.
    pub(super) fn rename(&self, case: &mut Value) {
        let rename = |name: Option<&mut Value>| {
            if let Some(Value::String(name)) = name
                && self.tools.contains_key(name.as_str())
            {
                *name = legal_name(name);
            }
        };
        for list in ["tools", "decisions"] {
            let items = case.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            items.for_each(|item| rename(item.get_mut("tool_name")));
        }
        let replies = case.get_mut("model").and_then(Value::as_array_mut).into_iter().flatten();
        for reply in replies {
            let calls = reply.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten();
            calls.for_each(|call| rename(call.get_mut("name")));
        }
    }

    /// The agent with them as plain tools, and without its servers: no case reaches those.
    pub(super) fn given_to(&self, mut agent: Value) -> Value {
        let Some(fields) = agent.as_object_mut() else { return agent };
        if fields.get("mcp").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            return agent;
        }
        fields.insert("mcp".into(), json!([]));
        let listed = self.order.iter().filter_map(|name| self.tools.get(name)).map(plain);
        match fields.get_mut("tools").and_then(Value::as_array_mut) {
            Some(tools) => tools.extend(listed),
            None => drop(fields.insert("tools".into(), listed.collect())),
        }
        agent
    }
}

fn plain(tool: &ToolSpec) -> Value {
    let mut plain = serde_json::to_value(tool).unwrap_or_default();
    if let Some(fields) = plain.as_object_mut() {
        fields.remove("mcp");
        fields.insert("name".into(), legal_name(&tool.name).into());
        let http: Map<String, Value> = [("url".to_owned(), NOWHERE.into())].into_iter().collect();
        fields.insert("kind".into(), "http".into());
        fields.insert("http".into(), Value::Object(http));
    }
    plain
}
