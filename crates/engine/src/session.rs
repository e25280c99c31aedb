//! A run while this process works on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_core::Millis;
use answerable_core::agent::ToolSpec;
use answerable_core::catalog;
use answerable_core::context::Sizes;
use answerable_core::id::{CallId, WorkspaceId};
use answerable_core::message::Message;
use answerable_core::registry::Registry;
use answerable_core::run::{Event, RunConfig, RunState, Status, next_due, outstanding};
use answerable_core::trace::{Frame, SpanId, SpanLink};
use answerable_ports::commit::StoredArtifact;
use answerable_ports::{ArtifactsKept, Claimed, Inbound, Lease, LoadedRun, ModelTarget, StoreError};
use serde_json::Value;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::env::Env;
use crate::lease::Hold;
use crate::listing::Heard;
use crate::place;
use crate::registries::compile;

/// What stays the same for a run's whole life.
#[derive(Debug)]
pub(crate) struct RunFacts {
    pub(crate) lease: Lease,
    pub(crate) thread_id: Option<Uuid>,
    pub(crate) agent_id: Option<Uuid>,
    pub(crate) workspace_id: WorkspaceId,
    pub(crate) context: Value,
    pub(crate) trace_id: String,
    pub(crate) frame: Frame,
}

impl RunFacts {
    /// The header that names a span of the run to those who are asked within it.
    pub(crate) fn traceparent(&self, span: &SpanId) -> String {
        SpanLink { trace_id: self.trace_id.clone(), span_id: span.clone() }.traceparent()
    }
}

/// Something that happened and is not committed yet.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    pub(crate) event: Event,
    pub(crate) artifacts: Vec<StoredArtifact>,
    /// Its number in the inbox, if it came from there.
    pub(crate) inbox: Option<i64>,
}

impl From<Event> for Cause {
    fn from(event: Event) -> Self {
        Self { event, artifacts: Vec::new(), inbox: None }
    }
}

/// A run while this process works on it: what is committed, and what happened since.
pub(crate) struct Session {
    pub(crate) env: Arc<Env>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) facts: Arc<RunFacts>,
    /// The pinned agent, and its hash.
    pub(crate) agent: Arc<Registry>,
    pub(crate) agent_hash: String,
    /// The same with the tools that were listed last: what calls are judged by.
    pub(crate) registry: Arc<Registry>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) state: RunState,
    pub(crate) seq: i64,
    /// The history as it is committed, oldest first.
    pub(crate) history: Vec<Message>,
    /// Tokens of what contexts are built of.
    pub(crate) sizes: Sizes,
    /// Inputs of the open step's calls.
    pub(crate) inputs: BTreeMap<CallId, Value>,
    /// The newest number of the inbox that is known here.
    pub(crate) known_inbox: i64,
    /// What people said, kept until the next step begins.
    pub(crate) steers: Vec<Inbound>,
    pub(crate) causes: Vec<Cause>,
    /// Artifacts of the run that are committed, once somebody had to know.
    pub(crate) kept: Option<ArtifactsKept>,
    /// Since when this server knows that its tenant is suspended.
    suspended_since: Option<Millis>,
    /// The provider as it was when the open step's context was built.
    pub(crate) target: Option<ModelTarget>,
    /// The open step began here then; people were not waited for since.
    pub(crate) step_began: Option<Instant>,
    /// Its calls' places that are not given back yet.
    pub(crate) places: TaskTracker,
}

impl Session {
    /// Takes up a loaded run.
    pub(crate) async fn take_up(
        env: &Arc<Env>,
        hold: &Arc<Hold>,
        claimed: Claimed,
        loaded: LoadedRun,
    ) -> Result<Self, StoreError> {
        let agent = env.agents.compiled(&loaded.agent_hash, || loaded.agent.clone()).await;
        let agent = agent.map_err(StoreError::Broken)?;
        let registry = match loaded.tools.as_slice() {
            [] => Arc::clone(&agent),
            tools => {
                let hash = catalog::hash(tools);
                let equipped = equipped(env, &agent, &loaded.agent_hash, &hash, tools).await;
                equipped.map_err(StoreError::Broken)?
            }
        };
        let facts = RunFacts {
            lease: claimed.lease,
            thread_id: loaded.thread_id,
            agent_id: loaded.agent_id,
            workspace_id: loaded.workspace_id,
            context: loaded.context,
            trace_id: loaded.trace_id,
            frame: Frame { content: env.config.trace_content, ..loaded.frame },
        };
        let mut session = Self {
            env: Arc::clone(env),
            hold: Arc::clone(hold),
            facts: Arc::new(facts),
            agent,
            agent_hash: loaded.agent_hash,
            registry,
            heard: Arc::default(),
            state: loaded.state,
            seq: loaded.seq,
            history: loaded.history,
            sizes: Sizes::default(),
            inputs: loaded.inputs,
            known_inbox: loaded.known_inbox,
            steers: Vec::new(),
            causes: Vec::new(),
            kept: None,
            suspended_since: None,
            target: None,
            step_began: None,
            places: TaskTracker::new(),
        };
        // First, so that times don't go back: what came in is dealt with before why the run was claimed.
        session.receive(loaded.inbox).await;
        session.rest(&loaded.rested);
        session.begin(claimed).await?;
        Ok(session)
    }

    /// The time for which its tenant was suspended doesn't count, whatever came in then; and calls begin again.
    fn rest(&mut self, rested: &[(Millis, Millis)]) {
        let now = self.now();
        let event = |(from, until): &(Millis, Millis)| Event::Rested {
            at: now,
            from: *from,
            until: (*until).min(now),
        };
        let resumed = self.state.suspended.then_some(Event::Resumed { at: now });
        self.causes.splice(0..0, rested.iter().map(event).chain(resumed).map(Cause::from));
    }

    /// Whether its tenant is suspended, as the last renewal has it: what comes in is written down then, and nothing begins.
    pub(crate) fn suspended(&mut self, suspended: bool) {
        let at = self.now();
        let is_resumed = |cause: &Cause| matches!(cause.event, Event::Resumed { .. });
        if suspended {
            // Suspended anew before it could go on.
            self.causes.retain(|cause| !is_resumed(cause));
            self.suspended_since.get_or_insert(at);
            if !self.state.suspended {
                self.causes.insert(0, Event::Suspended { at }.into());
            }
        } else if self.state.suspended && !self.causes.iter().any(is_resumed) {
            let from = self.suspended_since.unwrap_or(at);
            let resumed = [Event::Rested { at, from, until: at }, Event::Resumed { at }];
            self.causes.splice(0..0, resumed.map(Cause::from));
        }
        if !suspended {
            self.suspended_since = None;
        }
    }

    /// What the run's limits of time will be counted from, once its rests are written down.
    fn due(&self) -> Option<Millis> {
        let mut rested = self.state.clock;
        for cause in &self.causes {
            if let Event::Rested { from, until, .. } = cause.event {
                rested.rest(from, until);
            }
        }
        next_due(&RunState { clock: rested, suspended: false, ..self.state.clone() })
    }

    /// Why the run was claimed, as events: what was out when its server died is unclear before anything else is due.
    async fn begin(&mut self, claimed: Claimed) -> Result<(), StoreError> {
        let at = self.now();
        let queued = self.state.status == Status::Queued;
        let died = claimed.deaths > self.state.deaths;
        let interrupted = !queued && !outstanding(&self.state).is_empty();
        if died || interrupted {
            let unsent = self.unsent().await?;
            self.causes.push(Event::Recovered { at, deaths: claimed.deaths, unsent }.into());
        }
        if self.due().is_some_and(|due| due <= at) {
            self.causes.push(Event::TimerFired { at }.into());
        }
        if queued && claimed.may_start {
            self.causes.push(Event::Started { at }.into());
        }
        Ok(())
    }

    /// Calls that are written down as out and waited for their turn only.
    async fn unsent(&self) -> Result<Vec<CallId>, StoreError> {
        let tool = |name: &str| self.registry.tool(name);
        if place::unsent(&self.state, tool, &[]).is_empty() {
            return Ok(Vec::new());
        }
        let taken = patiently(|| self.env.store.places(self.lease())).await?;
        Ok(place::unsent(&self.state, tool, &taken))
    }

    pub(crate) fn lease(&self) -> Lease {
        self.facts.lease
    }

    /// By what events of the run are judged that has these tools.
    pub(crate) fn config<'a>(&self, registry: &'a Registry) -> RunConfig<'a> {
        RunConfig { registry, max_recoveries: self.env.config.max_recoveries }
    }

    /// The agent with these tools beside its own.
    pub(crate) fn equipped(&self, tools: &[ToolSpec]) -> Result<Arc<Registry>, String> {
        if tools.is_empty() {
            return Ok(Arc::clone(&self.agent));
        }
        match self.heard.equipped(&self.agent, tools) {
            Some(registry) => Ok(registry),
            None => compile(catalog::with_tools(&self.agent.spec, tools)).map(Arc::new),
        }
    }

    /// The time, never before what the state has seen.
    pub(crate) fn now(&self) -> Millis {
        self.env.now().max(self.state.clock.since.unwrap_or(0))
    }
}

/// The agent with tools that were listed, and their hash; not in the run's own time.
pub(crate) async fn equipped(
    env: &Env,
    agent: &Registry,
    agent_hash: &str,
    hash: &str,
    tools: &[ToolSpec],
) -> Result<Arc<Registry>, String> {
    let hash = format!("{agent_hash} {hash}");
    env.equipped.compiled(&hash, || catalog::with_tools(&agent.spec, tools)).await
}

/// A provider of a tenant, as it is now; asks until the store answers.
pub(crate) async fn find_target(env: &Env, facts: &RunFacts, name: &str) -> Option<ModelTarget> {
    let tenant = facts.lease.tenant_id;
    patiently(|| env.store.model_target(tenant, name)).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a provider can't be read");
        None
    })
}

/// Longest time that the store is given for an answer. Past that the line has gone dead without a word.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// Waits for the store's answer, but not for ever.
pub(crate) async fn answered<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let answer = tokio::time::timeout(ANSWER_PATIENCE, asked).await;
    answer.unwrap_or_else(|_| Err(StoreError::Away("it doesn't answer".into())))
}

/// Asks the store again while it is away. Whoever awaits this is dropped when the lease is lost or the run ends.
pub(crate) async fn patiently<T, F: Future<Output = Result<T, StoreError>>>(
    ask: impl Fn() -> F,
) -> Result<T, StoreError> {
    let mut pause = Duration::from_millis(100);
    loop {
        match answered(ask()).await {
            Err(StoreError::Away(why)) => {
                tracing::debug!(%why, "the store is away; asked again soon");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
            answer => return answer,
        }
    }
}
