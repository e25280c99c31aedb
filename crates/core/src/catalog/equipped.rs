//! An agent with the tools that its run was told of, as they change while it lives.

use super::with_tools;
use crate::agent::ToolSpec;
use crate::registry::Registry;
use crate::run::Event;

/// What the calls of a run are judged by, event by event.
#[derive(Debug)]
pub struct Equipped<'a> {
    agent: &'a Registry,
    listed: Option<Box<Registry>>,
}

impl<'a> Equipped<'a> {
    /// The agent alone.
    pub fn of(agent: &'a Registry) -> Self {
        Self { agent, listed: None }
    }

    /// The agent without what was listed.
    pub fn agent(&self) -> &'a Registry {
        self.agent
    }

    /// The agent with what was listed last.
    pub fn registry(&self) -> &Registry {
        self.listed.as_deref().unwrap_or(self.agent)
    }

    /// Takes note of an event that has happened.
    pub fn hear(&mut self, event: &Event) {
        if let Event::ToolsListed { list, .. } = event {
            self.equip(&list.tools);
        }
    }

    /// These tools were listed. Each of their schemas was compiled before it was taken; if one can't be any more, the agent
    /// stands alone.
    pub fn equip(&mut self, tools: &[ToolSpec]) {
        self.listed = Registry::compile(with_tools(&self.agent.spec, tools)).ok().map(Box::new);
    }
}
