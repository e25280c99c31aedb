//! What MCP servers offer a run: asked before its first step, and again before a step when they may offer something else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use answerable_core::agent::{AgentSpec, ToolSpec};
use answerable_core::catalog::{self, Catalog, Listed, Missing, catalog, servers};
use answerable_core::id::TenantId;
use answerable_core::registry::Registry;
use answerable_core::run::{Event, Phase, RunState, RunTools, ToolList};
use answerable_ports::{ListedTool, ToolSource};
use futures::future::join_all;

use crate::env::Env;
use crate::registries::aside;
use crate::session::{Session, equipped};

/// What this process knows of the servers of a run.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// How often each had spoken of changes when it was asked for its tools; `None`: it never was for this run, so that
    /// nobody knows what was missed.
    changes: Mutex<Option<BTreeMap<String, u64>>>,
    /// The agent with the tools that they offered last, if those were new.
    equipped: Mutex<Option<Arc<Registry>>>,
}

impl Heard {
    fn note(&self, now: BTreeMap<String, u64>) {
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    fn is(&self, now: &BTreeMap<String, u64>) -> bool {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(now)
    }

    fn keep(&self, equipped: Arc<Registry>) {
        *self.equipped.lock().unwrap_or_else(PoisonError::into_inner) = Some(equipped);
    }

    /// The agent with these tools, if they were listed last.
    pub(crate) fn equipped(&self, agent: &Registry, tools: &[ToolSpec]) -> Option<Arc<Registry>> {
        let kept = self.equipped.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.filter(|kept| kept.spec.tools.get(agent.spec.tools.len()..) == Some(tools))
    }
}

fn changes(source: &dyn ToolSource, tenant: TenantId, agent: &AgentSpec) -> BTreeMap<String, u64> {
    let count = |(server, _): (&str, bool)| (server.to_owned(), source.changes(tenant, server));
    servers(agent).into_iter().map(count).collect()
}

impl Session {
    /// Whether the run stands before a step, and the list of its tools may be out of date; or was never read, because the
    /// server that began the run knew nothing of such tools.
    pub(crate) fn tools_are_stale(&self, state: &RunState) -> bool {
        let agent = &self.agent.spec;
        if state.phase != Phase::Boundary || agent.mcp.is_empty() {
            return false;
        }
        let is_news = || !self.heard.is(&changes(&*self.env.tool_source, self.lease().tenant_id, agent));
        state.tools.is_none() || (state.may_list_again() && is_news())
    }
}

/// The servers of an agent, about to be asked.
pub(crate) struct Listing {
    env: Arc<Env>,
    tenant: TenantId,
    agent: Arc<Registry>,
    agent_hash: String,
    /// What the run knows of their tools.
    known: RunTools,
    /// Tools that the run has by now.
    former: Vec<ToolSpec>,
    heard: Arc<Heard>,
}

/// What servers offer, and those of which nobody knows.
#[derive(Default)]
struct Answers {
    lists: Vec<(String, Vec<Listed>)>,
    missing: Vec<Missing>,
}

impl Listing {
    pub(crate) fn of(session: &Session) -> Self {
        let tools = session.registry.spec.tools.iter();
        Self {
            env: Arc::clone(&session.env),
            tenant: session.lease().tenant_id,
            agent: Arc::clone(&session.agent),
            agent_hash: session.agent_hash.clone(),
            known: session.state.tools.clone().unwrap_or_default(),
            former: tools.filter(|tool| tool.mcp.is_some()).cloned().collect(),
            heard: Arc::clone(&session.heard),
        }
    }

    /// Asks all of them at once.
    pub(crate) async fn run(self) -> Event {
        let began = Instant::now();
        // Before they are asked: what changes meanwhile is news.
        self.heard.note(changes(&*self.env.tool_source, self.tenant, &self.agent.spec));
        match self.asked().await {
            Ok(answers) => self.looked_at(answers, began).await,
            Err((server, detail)) => Event::ToolsUnavailable { at: self.env.now(), server, detail },
        }
    }

    /// What they say. A fault of one that the run can't begin without ends it, and only then.
    async fn asked(&self) -> Result<Answers, (String, String)> {
        let source = &self.env.tool_source;
        let asked = servers(&self.agent.spec).into_iter().map(|(server, required)| async move {
            (server.to_owned(), required, source.list(self.tenant, server).await)
        });
        let mut answers = Answers::default();
        for (server, required, answer) in join_all(asked).await {
            let fault = match answer {
                Ok(tools) => {
                    answers.lists.push((server, tools.into_iter().map(listed).collect()));
                    continue;
                }
                Err(fault) => fault.to_string(),
            };
            if !self.known.has_list() && required {
                return Err((server, fault));
            } else if !self.known.has_list() || self.is_missing(&server) {
                answers.missing.push(Missing { server, reason: fault });
            } else {
                // It still has the tools that it had: calls of them will tell.
                tracing::info!(server, why = %fault, "an MCP server gives no list; the run keeps the tools that it had");
                let former = self.former.iter().filter_map(|tool| again(&server, tool)).collect();
                answers.lists.push((server, former));
            }
        }
        Ok(answers)
    }

    fn is_missing(&self, server: &str) -> bool {
        self.known.missing.iter().any(|missing| missing.server == server)
    }

    /// What of it the run takes: servers may offer much, and looking at that takes time.
    async fn looked_at(self, answers: Answers, began: Instant) -> Event {
        let (agent, Answers { lists, missing }) = (Arc::clone(&self.agent), answers);
        let (found, hash) = aside(move || {
            let found = catalog(&agent.spec, &lists);
            let hash = catalog::hash(&found.tools);
            (found, hash)
        })
        .await;
        let taken = || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        if self.known.is_as_it_was(&hash, &missing) {
            return Event::ToolsKept { at: self.env.now(), duration_ms: taken() };
        }
        let Catalog { tools, left_out, suggested } = found;
        // If it can't be compiled, the fold says so.
        if let Ok(equipped) = equipped(&self.env, &self.agent, &self.agent_hash, &hash, &tools).await {
            self.heard.keep(equipped);
        }
        let list = ToolList { tools, left_out, suggested, missing };
        Event::ToolsListed { at: self.env.now(), list, duration_ms: taken() }
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
