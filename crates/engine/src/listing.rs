//! What MCP servers offer a run: asked before its first step, and again before a step when they may offer something else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use answerable_core::agent::{AgentSpec, ToolSpec};
use answerable_core::catalog::{Listed, Missing, catalog, servers};
use answerable_core::id::TenantId;
use answerable_core::registry::Registry;
use answerable_core::run::{Event, Phase, RunState, ToolList};
use answerable_ports::{ListedTool, McpFault, ToolSource};
use futures::future::join_all;

use crate::env::Env;
use crate::session::Session;

/// How often each server had spoken of changes when this process asked it for its tools; `None`: it never did for this run,
/// so that nobody knows what was missed.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<Option<BTreeMap<String, u64>>>);

impl Heard {
    fn note(&self, now: BTreeMap<String, u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    fn is(&self, now: &BTreeMap<String, u64>) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(now)
    }
}

fn changes(source: &dyn ToolSource, tenant: TenantId, agent: &AgentSpec) -> BTreeMap<String, u64> {
    let count = |(server, _): (&str, bool)| (server.to_owned(), source.changes(tenant, server));
    servers(agent).into_iter().map(count).collect()
}

impl Session {
    /// Whether the run stands before a step, and the list of its tools may be out of date.
    pub(crate) fn tools_are_stale(&self, state: &RunState) -> bool {
        let may = state.phase == Phase::Boundary && state.may_list_again();
        may && !self.heard.is(&changes(&*self.env.tool_source, self.lease().tenant_id, &self.agent.spec))
    }
}

/// The servers of an agent, about to be asked.
pub(crate) struct Listing {
    env: Arc<Env>,
    tenant: TenantId,
    agent: Arc<Registry>,
    /// Tools that the run has by now.
    former: Vec<ToolSpec>,
    heard: Arc<Heard>,
}

impl Listing {
    pub(crate) fn of(session: &Session) -> Self {
        let tools = session.registry.spec.tools.iter();
        Self {
            env: Arc::clone(&session.env),
            tenant: session.lease().tenant_id,
            agent: Arc::clone(&session.agent),
            former: tools.filter(|tool| tool.mcp.is_some()).cloned().collect(),
            heard: Arc::clone(&session.heard),
        }
    }

    /// Asks all of them at once.
    pub(crate) async fn run(self) -> Event {
        let (began, source) = (Instant::now(), &self.env.tool_source);
        let agent = &self.agent.spec;
        // Before they are asked: what changes meanwhile is news.
        self.heard.note(changes(&**source, self.tenant, agent));
        let asked = servers(agent).into_iter().map(|(server, required)| async move {
            (server, required, source.list(self.tenant, server).await)
        });
        let (mut lists, mut missing) = (Vec::new(), Vec::new());
        for (server, required, answer) in join_all(asked).await {
            match self.offered(server, answer) {
                Ok(listed) => lists.push((server.to_owned(), listed)),
                Err(fault) if required => {
                    let (at, server, detail) = (self.env.now(), server.to_owned(), fault.to_string());
                    return Event::ToolsUnavailable { at, server, detail };
                }
                Err(fault) => {
                    missing.push(Missing { server: server.to_owned(), reason: fault.to_string() });
                }
            }
        }
        let found = catalog(agent, &lists);
        let list =
            ToolList { tools: found.tools, left_out: found.left_out, suggested: found.suggested, missing };
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Event::ToolsListed { at: self.env.now(), list, duration_ms }
    }

    /// What a server offers. One that is away for a while still has the tools that it had: calls of them will tell.
    fn offered(
        &self,
        server: &str,
        answer: Result<Vec<ListedTool>, McpFault>,
    ) -> Result<Vec<Listed>, McpFault> {
        match answer {
            Ok(tools) => Ok(tools.into_iter().map(listed).collect()),
            Err(McpFault::Away(why)) => {
                let former: Vec<Listed> = self.former.iter().filter_map(|tool| again(server, tool)).collect();
                if former.is_empty() {
                    return Err(McpFault::Away(why));
                }
                tracing::info!(server, %why, "an MCP server is away; the run keeps the tools that it had");
                Ok(former)
            }
            Err(refused) => Err(refused),
        }
    }
}

fn listed(tool: ListedTool) -> Listed {
    let ListedTool { name, title, description, input_schema, annotations } = tool;
    Listed { name, title, description, input_schema, annotations }
}

/// A tool of that server as it was listed before.
fn again(server: &str, tool: &ToolSpec) -> Option<Listed> {
    let at = tool.mcp.as_ref().filter(|at| at.server == server)?;
    Some(Listed {
        name: at.tool.clone(),
        title: None,
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        annotations: None,
    })
}
