//! What handlers share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use answerable_core::id::TenantId;
use answerable_ports::{Crowded, Identity, Share, Shares, ToolSource};
use answerable_store::{Store, Workspaces};
use secrecy::SecretString;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::complaints::Complaints;
use crate::held::Who;
use crate::key_ring::KeyRing;
use crate::large;
use crate::limits::RequestLimits;
use crate::problem::Problem;
use crate::readiness::Readiness;

/// What the API is told by whoever runs it.
#[derive(Clone)]
pub struct ApiConfig {
    /// The operator's key; without one `/v1/tenants` is closed.
    pub operator_key: Option<SecretString>,
    /// Where people and systems reach this server, without a slash at its end.
    pub public_url: String,
    /// Bytes that a body may have.
    pub max_body_bytes: usize,
    /// Who vouches for people, if anybody does.
    pub identity: Option<Arc<dyn Identity>>,
    /// Requests that are dealt with at a time.
    pub max_requests: usize,
    /// Event streams that are open at a time.
    pub max_streams: usize,
    /// The server's measurements.
    pub metrics: Arc<dyn Metrics>,
    /// Which literal addresses may be called.
    pub addresses: Arc<dyn AddressRule>,
    /// Which commands of shell tools this server runs.
    pub shell: ShellRule,
    /// Who knows what MCP servers offer.
    pub tool_source: Arc<dyn ToolSource>,
    /// Commands that speak to MCP servers, as the operator names them.
    pub mcp_commands: BTreeSet<String>,
    /// The files of workspaces.
    pub workspaces: Workspaces,
    /// Set when the database is migrated. Until then it is no news that requests can't be served.
    pub started: Arc<AtomicBool>,
    /// True from when the server goes down: no new work is taken, and what is held open ends.
    pub draining: watch::Receiver<bool>,
}

/// What is measured of the API, and shown.
pub trait Metrics: Send + Sync {
    /// All measurements in the Prometheus text format.
    fn text(&self) -> String;

    /// A request was answered. `route` is the path's template.
    fn answered(&self, method: &str, route: &str, status: u16, took: std::time::Duration);

    /// A request was turned away, because there were too many of its kind: `requests`, or `streams`, of all or
    /// `_of_one` tenant.
    fn shed(&self, why: &'static str);
}

/// Which commands of shell tools a server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRule {
    /// Why it runs none.
    pub refusal: Option<String>,
    /// They may reach the network.
    pub network: bool,
    /// Most memory of one of them, in MiB.
    pub memory_mb: u64,
}

/// Judges addresses that tenants want called.
pub trait AddressRule: Send + Sync {
    /// Why this address may not be called, as far as that can be told without asking the DNS.
    fn refusal(&self, url: &str) -> Option<String>;
}

/// A turn to do what takes much memory.
pub(crate) type Heavy = Arc<Share<TenantId>>;

/// State of all handlers. Clones share it.
#[derive(Clone)]
pub struct AppState {
    /// The store.
    pub(crate) store: Store,
    /// See [`ApiConfig`].
    pub(crate) config: Arc<ApiConfig>,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) limits: Arc<RequestLimits>,
    /// Places for requests that are dealt with.
    pub(crate) places: Shares<Who>,
    /// Places for streams, and for requests that wait.
    streams: Shares<TenantId>,
    /// Places for large answers.
    pub(crate) large: large::Places,
    /// Turns of streams to read.
    stream_reads: Shares<TenantId>,
    pub(crate) readiness: Arc<Readiness>,
    complaints: Arc<Complaints>,
    /// Places for requests that read a whole run into memory.
    heavy: Shares<TenantId>,
    /// Turns to judge a body that takes a while.
    long_bodies: Shares<Option<Who>>,
    /// Turns to look a decision link up.
    links: Arc<Semaphore>,
    /// Places for exports of whole tenants.
    exports: Shares<TenantId>,
}

/// Streams that read at once.
const STREAM_READS: usize = 8;
/// How long a stream waits for its turn: to be cut off would only bring it back.
pub(crate) const STREAM_PATIENCE: Duration = Duration::from_secs(120);
/// Requests that may read a whole run into memory at once.
const HEAVY_AT_ONCE: usize = 4;
/// Exports of tenants at once: each reads all the time.
const EXPORTS_AT_ONCE: usize = 4;
/// How long one waits for its turn.
const TURN_PATIENCE: Duration = Duration::from_secs(20);
/// Decision links that are looked up at once, and how long one waits for it: anybody may make links up.
const LINKS_AT_ONCE: usize = 3;
const LINK_PATIENCE: Duration = Duration::from_millis(250);

/// Threads that there are for work: one of them at least is somebody else's.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, |threads| threads.get().max(2))
}

impl AppState {
    /// State over a store.
    pub fn new(store: Store, config: ApiConfig) -> Self {
        let keys = Arc::new(KeyRing::new(store.signals()));
        let places = Shares::new(config.max_requests, config.max_requests);
        let streams = Shares::new(config.max_streams, 0);
        Self {
            store,
            config: Arc::new(config),
            keys,
            limits: Arc::default(),
            places,
            streams,
            large: large::Places::new(),
            stream_reads: Shares::new(STREAM_READS, usize::MAX),
            readiness: Arc::default(),
            complaints: Arc::default(),
            // Whoever waits has a place among the requests.
            heavy: Shares::new(HEAVY_AT_ONCE, usize::MAX),
            long_bodies: Shares::new(threads(), usize::MAX),
            links: Arc::new(Semaphore::new(LINKS_AT_ONCE)),
            exports: Shares::new(EXPORTS_AT_ONCE, EXPORTS_AT_ONCE),
        }
    }

    /// Whether the log shall tell now that a request could not be served, and of how many it didn't tell since it last
    /// did.
    pub(crate) fn complains(&self) -> Option<u64> {
        if self.config.started.load(Ordering::Relaxed) { self.complaints.due() } else { None }
    }

    /// Whether the server goes down.
    pub(crate) fn is_draining(&self) -> bool {
        *self.config.draining.borrow()
    }

    /// Refuses new work while the server goes down.
    pub(crate) fn takes_work(&self) -> Result<(), Problem> {
        if self.is_draining() { Err(Problem::unavailable(5)) } else { Ok(()) }
    }

    /// Event streams that are open.
    pub(crate) fn streams_open(&self) -> usize {
        self.streams.taken()
    }

    /// A turn to read for a stream, or for a request that waits: they wait for each other here, and leave connections to requests.
    ///
    /// # Errors
    /// It did not come.
    pub(crate) async fn stream_read(
        &self,
        tenant: TenantId,
        patience: Duration,
    ) -> Result<Share<TenantId>, Crowded> {
        self.stream_reads.take_within(tenant, patience).await
    }

    /// A place for a stream, or for a request that waits.
    ///
    /// # Errors
    /// There is none, or the tenant has its part of them.
    pub(crate) fn take_stream(&self, tenant: TenantId) -> Result<Share<TenantId>, Crowded> {
        self.streams.take(tenant)
    }

    /// Tells that there was no place for a stream or a wait, and counts it.
    pub(crate) fn stream_refused(&self, why: Crowded) -> Problem {
        match why {
            Crowded::Full => {
                self.config.metrics.shed("streams");
                Problem::away("This server has too many streams and waits open.")
            }
            Crowded::Part => {
                self.config.metrics.shed("streams_of_one");
                Problem::quota_exceeded("The tenant has too many streams and waits open at this server.", 5)
            }
        }
    }

    /// Waits for a place to export a tenant.
    ///
    /// # Errors
    /// There was none for a while.
    pub(crate) async fn take_export(&self, tenant: TenantId) -> Result<Share<TenantId>, Problem> {
        let place = self.exports.take_within(tenant, TURN_PATIENCE).await;
        place.map_err(|_| Problem::away("This server has as many exports under way as it can.").after(30))
    }

    /// Waits for a turn to do what takes much memory; it is over when all of what this gives is dropped. Work on another
    /// thread takes a part along: it goes on when its client hangs up.
    ///
    /// # Errors
    /// It did not come for a while.
    pub(crate) async fn heavy_work(&self, tenant: TenantId) -> Result<Heavy, Problem> {
        let turn = self.heavy.take_within(tenant, TURN_PATIENCE).await;
        turn.map(Arc::new).map_err(|_| Problem::away("This server reads as many whole runs as it can."))
    }

    /// Waits for a turn to judge a long body.
    ///
    /// # Errors
    /// It did not come for a while.
    pub(crate) async fn long_body(&self, who: Option<Who>) -> Result<Share<Option<Who>>, Problem> {
        let turn = self.long_bodies.take_within(who, TURN_PATIENCE).await;
        turn.map_err(|_| Problem::away("This server has as many long bodies to read as it can."))
    }

    /// Waits a moment for a turn to look a decision link up.
    ///
    /// # Errors
    /// It did not come.
    pub(crate) async fn link_lookup(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let turn = tokio::time::timeout(LINK_PATIENCE, self.links.acquire()).await;
        turn.map_err(|_| Problem::unavailable(1))?.map_err(|error| Problem::internal(error.to_string()))
    }

    /// What is wrong with an address that a tenant wants called, at `pointer`.
    pub(crate) fn check_address(&self, url: &str, pointer: &str) -> Result<(), Problem> {
        match self.config.addresses.refusal(url) {
            Some(words) => Err(Problem::invalid_at(pointer, words)),
            None => Ok(()),
        }
    }
}
