//! Tools of MCP servers: the list is read before the first step, and again before a step when a server's may have changed.
//! What was listed stands in the event, so that a journal alone tells what its calls were judged by; a list that is as it was
//! stands there once.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::event_type::EventType;
use super::open_approval::VERSION_OF_APPROVALS;
use super::record::Record;
use super::state::RunState;
use super::status::StopReason;
use super::step::{Legal, Machine};
use crate::agent::{AgentSpec, ToolKind, ToolSpec};
use crate::catalog::{self, LeftOut, Missing, Suggested};
use crate::permission::Rule;

/// Version of the first binary that knows tools beside those that tenants and their callers run.
const VERSION_OF_TOOLS: u16 = 4;

/// Where a run stands with the tools of MCP servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTools {
    /// The list must be read before the next step.
    pub due: bool,
    /// Lists read so far.
    pub listings: u32,
    /// The step that the last one followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_step: Option<u32>,
    /// Hash of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Servers that the run is without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
}

/// What servers offer a run ([`super::Event::ToolsListed`]).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolList {
    /// Tools that the run has from here on, beside the agent's own.
    pub tools: Vec<ToolSpec>,
    /// Those that it would have and can't.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// What servers say of tools otherwise than the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggested: Vec<Suggested>,
    /// Servers that the run is without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
}

/// What a binary must understand to work on runs of `agent`.
pub fn version_of(agent: &AgentSpec) -> u16 {
    let is_new = |tool: &ToolSpec| {
        !matches!(tool.kind, ToolKind::Http | ToolKind::Client)
            || tool.max_concurrent.is_some()
            || tool.rate.is_some()
    };
    // Older binaries don't know what its rules ask for.
    let is_new_rule = |rule: &Rule| !rule.self_approval || rule.remind_every_ms.is_some();
    if agent.policy.rules.iter().any(is_new_rule) {
        VERSION_OF_APPROVALS
    } else if !agent.mcp.is_empty() || agent.tools.iter().any(is_new) {
        VERSION_OF_TOOLS
    } else {
        1
    }
}

impl RunTools {
    /// A list was read before, so that the run has tools to go on with.
    pub fn has_list(&self) -> bool {
        self.hash.is_some()
    }

    /// Whether this is the hash of the tools that it has, and these are the servers that it is without.
    pub fn is_as_it_was(&self, hash: &str, missing: &[Missing]) -> bool {
        let servers =
            |missing: &[Missing]| missing.iter().map(|missing| missing.server.clone()).collect::<Vec<_>>();
        servers(&self.missing) == servers(missing) && self.hash.as_deref() == Some(hash)
    }

    fn may_be_read_again(&self, after_step: u32) -> bool {
        !self.due && self.after_step != Some(after_step)
    }

    /// The list was read after that step.
    fn read(&mut self, after_step: u32) {
        self.due = false;
        self.listings = self.listings.saturating_add(1);
        self.after_step = Some(after_step);
    }
}

impl RunState {
    /// The same, for binaries of `version` and newer.
    #[must_use]
    pub fn needing(self, version: u16) -> Self {
        Self { version: self.version.max(version), ..self }
    }

    /// The list of tools must be read before anything else.
    pub fn lists_tools(&self) -> bool {
        self.tools.as_ref().is_some_and(|tools| tools.due)
    }

    /// Whether the list may be read again: once before each step, so that a server that speaks of changes all the time
    /// doesn't keep the run from its steps.
    pub fn may_list_again(&self) -> bool {
        self.tools.as_ref().is_some_and(|tools| tools.may_be_read_again(self.step))
    }
}

impl Machine<'_> {
    /// The run starts: its agent may take tools from servers.
    pub(super) fn expect_tools(&mut self) {
        if self.config.registry.spec.mcp.is_empty() {
            return;
        }
        self.state.version = self.state.version.max(VERSION_OF_TOOLS);
        self.state.tools = Some(RunTools { due: true, ..RunTools::default() });
    }

    pub(super) fn tools_listed(&mut self, list: ToolList, duration_ms: u64) -> Legal {
        let step = self.state.step;
        let Some(known) = self.state.tools.as_mut().filter(|tools| tools.due) else {
            return Err(self.illegal("ToolsListed"));
        };
        let hash = catalog::hash(&list.tools);
        let is_news = known.hash.as_ref() != Some(&hash) || known.missing != list.missing;
        known.read(step);
        (known.hash, known.missing) = (Some(hash.clone()), list.missing.clone());
        // What is as it was is told once.
        if is_news {
            self.emit(EventType::ToolsListed, self.told_of(&list, duration_ms));
            self.records.push(Record::ToolsListed { hash, tools: list.tools });
        }
        Ok(())
    }

    pub(super) fn tools_kept(&mut self) -> Legal {
        let step = self.state.step;
        match self.state.tools.as_mut().filter(|tools| tools.due && tools.has_list()) {
            Some(known) => known.read(step),
            None => return Err(self.illegal("ToolsKept")),
        }
        Ok(())
    }

    /// What those who watch the run are told: names, not schemas.
    fn told_of(&self, list: &ToolList, duration_ms: u64) -> Value {
        let servers: Vec<&str> = catalog::servers(&self.config.registry.spec)
            .into_iter()
            .map(|(server, _)| server)
            .filter(|server| !list.missing.iter().any(|missing| missing.server == *server))
            .collect();
        let names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
        let suggested: Vec<Value> = list
            .suggested
            .iter()
            .map(|Suggested { tool, nature }| {
                json!({"tool": tool, "risk": nature.risk, "side_effect": nature.side_effect,
                    "idempotent": nature.idempotent})
            })
            .collect();
        json!({"servers": servers, "tools": names, "left_out": list.left_out, "missing": list.missing,
            "suggested": suggested, "duration_ms": duration_ms})
    }

    pub(super) fn tools_unavailable(&mut self, server: &str, detail: &str) -> Legal {
        // A run that has tools goes on with them: calls of those that are gone will tell.
        if self.state.tools.as_ref().is_none_or(|tools| !tools.due || tools.has_list()) {
            return Err(self.illegal("ToolsUnavailable"));
        }
        let detail = format!("the tools of the MCP server {server} can't be had: {detail}");
        self.end_by(StopReason::ToolsUnavailable, detail, None);
        Ok(())
    }

    pub(super) fn tools_changed(&mut self) -> Legal {
        match &mut self.state.tools {
            Some(tools) if tools.may_be_read_again(self.state.step) => tools.due = true,
            // A server began the run that knew nothing of tools of servers.
            None if !self.config.registry.spec.mcp.is_empty() => self.expect_tools(),
            _ => return Err(self.illegal("ToolsChanged")),
        }
        Ok(())
    }
}
