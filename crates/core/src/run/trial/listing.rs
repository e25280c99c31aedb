//! MCP servers in a trial: one, named `srv`.

use serde_json::{Value, json};

use super::Trial;
use crate::catalog::{Listed, Missing, catalog};
use crate::run::{Event, Record, ToolList};

/// Changes of the agent for one that takes all tools of the server, which write unless `defaults` says otherwise.
pub(in crate::run) fn with_server(defaults: &Value) -> Value {
    json!({"mcp": [{"server": "srv", "allow": ["*"], "defaults": defaults}]})
}

impl Trial {
    /// A run whose agent takes the server's tools, and was told of those with these names.
    pub(in crate::run) fn begun_with(names: &[&str]) -> Self {
        let mut trial = Self::begun(&with_server(&json!({})));
        trial.lists(names);
        trial
    }

    /// The server offers tools of these names.
    pub(in crate::run) fn lists(&mut self, names: &[&str]) -> Vec<Record> {
        self.must(self.listed(names))
    }

    pub(in crate::run) fn listed(&self, names: &[&str]) -> Event {
        let tool = |name: &&str| Listed {
            name: (*name).to_owned(),
            title: None,
            description: format!("{name} on the server"),
            input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            annotations: None,
        };
        let lists = [("srv".to_owned(), names.iter().map(tool).collect())];
        let found = catalog(&self.registry.spec, &lists);
        let list = ToolList { tools: found.tools, left_out: found.left_out, ..ToolList::default() };
        Event::ToolsListed { at: self.now, list, duration_ms: 5 }
    }

    /// The server was asked again, and offers what it did.
    pub(in crate::run) fn kept(&self) -> Event {
        Event::ToolsKept { at: self.now, duration_ms: 5 }
    }

    /// The server is away, and the run goes on without it.
    pub(in crate::run) fn goes_without(&self) -> Event {
        let missing = vec![Missing { server: "srv".into(), reason: "it is away".into() }];
        let list = ToolList { missing, ..ToolList::default() };
        Event::ToolsListed { at: self.now, list, duration_ms: 5 }
    }

    /// The server is away, and the run can't do without.
    pub(in crate::run) fn unavailable(&self) -> Event {
        Event::ToolsUnavailable { at: self.now, server: "srv".into(), detail: "it is away".into() }
    }
}
