//! What the engine is made of, and its start.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use answerable_core::Millis;
use answerable_core::id::TenantId;
use answerable_ports::{
    Clock, ModelProvider, Observer, RunStore, Signals, StoreError, ToolExecutor, ToolSource,
};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::lease::Leases;
use crate::line::Lines;
use crate::place::Places;
use crate::registries::Registries;
use crate::scheduler;
use crate::starting::Starting;

/// How the engine behaves.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// This process, among those that share the database.
    pub server: Uuid,
    /// A lease that isn't renewed for so long is another's to take.
    pub lease_for: Duration,
    /// Runs that this process works on at once.
    pub max_running: usize,
    /// Time that running steps have to finish when the process is told to stop.
    pub drain_for: Duration,
    /// Deaths in one step that a run survives.
    pub max_recoveries: u32,
    /// What models and tools said may go into spans, where the agent wants it.
    pub trace_content: bool,
}

/// The engine's counterparts.
pub struct EngineParts {
    /// Where runs are.
    pub store: Arc<dyn RunStore>,
    /// Who answers.
    pub models: Arc<dyn ModelProvider>,
    /// Who acts.
    pub tools: Arc<dyn ToolExecutor>,
    /// Who knows what MCP servers offer.
    pub tool_source: Arc<dyn ToolSource>,
    /// Who is told.
    pub signals: Signals,
    /// The database's time.
    pub clock: Clock,
    /// Who counts and measures.
    pub observer: Arc<dyn Observer>,
}

/// A running engine.
pub struct Engine {
    env: Arc<Env>,
    task: tokio::task::JoinHandle<()>,
}

impl Engine {
    /// Starts claiming runs.
    pub fn start(config: EngineConfig, parts: EngineParts) -> Self {
        let env = Arc::new(Env::new(config, parts));
        let task = tokio::spawn(scheduler::run(Arc::clone(&env)));
        Self { env, task }
    }

    /// Runs that this process works on, as they change.
    pub fn counter(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.env.running)
    }

    /// Claims nothing more, lets running steps finish or hands them back, and ends.
    pub async fn drain(self) {
        self.env.drain.cancel();
        // A panic of the scheduler was logged by the runtime; there is nothing left to drain then.
        let _ = self.task.await;
    }
}

/// What every task of the engine shares.
pub(crate) struct Env {
    pub(crate) config: EngineConfig,
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) models: Arc<dyn ModelProvider>,
    pub(crate) tools: Arc<dyn ToolExecutor>,
    pub(crate) tool_source: Arc<dyn ToolSource>,
    pub(crate) signals: Signals,
    clock: Clock,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) leases: Leases,
    pub(crate) places: Places,
    /// Questions about tenants' days.
    pub(crate) days: Lines,
    pub(crate) starting: Arc<Starting>,
    /// Nothing new is begun.
    pub(crate) drain: CancellationToken,
    /// The time to finish is over.
    pub(crate) drained: CancellationToken,
    pub(crate) running: Arc<AtomicUsize>,
    /// A claim may have succeeded without this server's knowledge.
    pub(crate) unsure: AtomicBool,
    #[cfg(feature = "faults")]
    pub(crate) early: crate::unguarded::Early,
    /// Agents, compiled.
    pub(crate) agents: Registries,
    /// The same with tools that were listed for their runs.
    pub(crate) equipped: Registries,
    signing: Mutex<HashMap<TenantId, (Instant, Vec<SecretString>)>>,
}

/// Compiled agents that are kept.
const MAX_AGENTS: usize = 512;
/// Compiled agents with tools of servers that are kept, apart: these may be large, and servers may change them all the time.
const MAX_EQUIPPED: usize = 32;
/// Time for which a tenant's signing secrets are kept.
const SIGNING_FOR: Duration = Duration::from_secs(5);

impl Env {
    fn new(config: EngineConfig, parts: EngineParts) -> Self {
        Self {
            leases: Leases::new(config.lease_for),
            places: Places::default(),
            days: Lines::default(),
            starting: Arc::default(),
            config,
            store: parts.store,
            models: parts.models,
            tools: parts.tools,
            tool_source: parts.tool_source,
            signals: parts.signals,
            clock: parts.clock,
            observer: parts.observer,
            drain: CancellationToken::new(),
            drained: CancellationToken::new(),
            running: Arc::default(),
            unsure: AtomicBool::new(false),
            #[cfg(feature = "faults")]
            early: crate::unguarded::Early::default(),
            agents: Registries::of(MAX_AGENTS),
            equipped: Registries::of(MAX_EQUIPPED),
            signing: Mutex::default(),
        }
    }

    /// Milliseconds since the Unix epoch, by the database's clock.
    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// The tenant's signing secrets; a rotated one is used within seconds.
    pub(crate) async fn signing_secrets(&self, tenant: TenantId) -> Result<Vec<SecretString>, StoreError> {
        {
            let kept = self.signing.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((at, secrets)) = kept.get(&tenant)
                && at.elapsed() < SIGNING_FOR
            {
                return Ok(secrets.clone());
            }
        }
        let secrets = self.store.signing_secrets(tenant).await?;
        let mut kept = self.signing.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (at, _)| at.elapsed() < SIGNING_FOR);
        kept.insert(tenant, (Instant::now(), secrets.clone()));
        Ok(secrets)
    }
}

/// What spreads pauses: 0..=1000.
pub(crate) fn jitter() -> u16 {
    rand::random_range(0..=1000)
}
