//! The server: store, engine, API and delivery put together, from the start to the drained end.

mod door;
mod export;
mod identity;
mod maintenance;
mod measured;
mod retention;
mod schema;
mod secrets;
mod shell;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use answerable_api::{AddressRule, ApiConfig, AppState, router};
use answerable_blobs::Blobs;
use answerable_core::agent::ToolKind;
use answerable_engine::{Engine, EngineConfig, EngineParts, MAX_RECOVERIES};
use answerable_models::Models;
use answerable_store::{ConnectOptions, EngineStore, Signals, Store, Workspaces};
use answerable_telemetry::{LogFormat, Metrics, init_logs};
use answerable_tools::{Allow, ByKind, GuardedClient, HttpTools, McpTools, WorkspaceTools, egress};
use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Failure;
use crate::cli::shutdown;
use crate::config::{self, ServerConfig};
use door::Bounds;
use measured::Measured;
pub(crate) use retention::prune_database;
pub(crate) use schema::migrate_database;
pub(crate) use secrets::{look_at_secrets, sealer};
use shell::Shell;

/// Connections to the database that one server keeps at most.
const MAX_CONNECTIONS: u32 = 24;
/// Time that open connections of clients have after all else has drained.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Takes the address to listen on. Who connects before [`run`] waits until then.
///
/// # Errors
/// The address is another process's, or not this machine's.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| Failure::new(format!("can't listen at {address}: {error}")))
}

/// Runs a server until SIGTERM or SIGINT, drains it, and returns. `ready` gets the address that it listens on when the
/// database is migrated and the server takes work; sending to nobody is no error.
///
/// # Errors
/// The configuration makes no sense to a part of the server, or the database can't be migrated.
pub(crate) async fn run(
    config: ServerConfig,
    listener: TcpListener,
    ready: oneshot::Sender<SocketAddr>,
) -> Result<(), Failure> {
    let (stop, stopping) = shutdown_asked();
    run_until(config, listener, ready, stop).await?;
    stopping.await.map_err(Failure::new)?
}

/// The same until `stop`, whatever signals come.
///
/// # Errors
/// As those of [`run`].
pub(crate) async fn run_until(
    config: ServerConfig,
    listener: TcpListener,
    ready: oneshot::Sender<SocketAddr>,
    stop: CancellationToken,
) -> Result<(), Failure> {
    start_logs(&config.log)?;
    egress::install_crypto();
    let address = listener.local_addr().map_err(Failure::new)?;
    tracing::info!(%address, secret_key = config.secret_key.form().describe(), "answerable starts");
    let server = Server::new(&config, Shell::find(&config.shell).await)?;
    let serving = tokio::spawn(server.serve(listener));
    let until_usable = async {
        schema::until_migrated(&config.database, &server.store).await?;
        secrets::refuse_other_keys(&server.store).await
    };
    tokio::select! {
        usable = until_usable => usable?,
        () = stop.cancelled() => {
            server.end(serving, &config.telemetry).await;
            return Ok(());
        }
    }
    server.started.store(true, Ordering::Relaxed);
    let work = server.start_work(&config);
    tracing::info!(%address, "answerable is ready");
    // Nobody may be waiting.
    let _ = ready.send(address);
    stop.cancelled().await;
    tracing::info!("draining: running steps finish or are handed back");
    server.draining.send_replace(true);
    work.drain().await;
    server.end(serving, &config.telemetry).await;
    Ok(())
}

/// A token that is cancelled when the process is told to stop, and what came of listening for that.
fn shutdown_asked() -> (CancellationToken, tokio::task::JoinHandle<Result<(), Failure>>) {
    let token = CancellationToken::new();
    let stop = token.clone();
    let listening = tokio::spawn(async move {
        let heard = shutdown::requested().await;
        stop.cancel();
        heard
    });
    (token, listening)
}

/// Sets up the logs; in `dev` they may be there already.
pub(crate) fn start_logs(log: &config::Log) -> Result<(), Failure> {
    let format = match log.format {
        config::LogFormat::Pretty => LogFormat::Pretty,
        config::LogFormat::Json => LogFormat::Json,
    };
    // PostgreSQL's notices are of no use here ("exists already, skipping"); who wants them names them in the filter.
    let filter = format!("sqlx::postgres::notice=warn,{}", log.filter);
    match init_logs(&filter, format) {
        Ok(()) | Err(answerable_telemetry::LogsError::Twice) => Ok(()),
        Err(error) => Err(Failure::misconfigured(error)),
    }
}

/// What all parts share.
struct Server {
    id: Uuid,
    store: Store,
    client: GuardedClient,
    mcp: McpTools,
    workspaces: Workspaces,
    shell: Shell,
    metrics: Arc<Metrics>,
    measured: Arc<Measured>,
    spans: Option<export::Spans>,
    state: AppState,
    bounds: Bounds,
    started: Arc<AtomicBool>,
    draining: watch::Sender<bool>,
    stopped: CancellationToken,
}

impl Server {
    fn new(config: &ServerConfig, shell: Shell) -> Result<Self, Failure> {
        let id = Uuid::now_v7();
        let (signals, outgoing) = Signals::new();
        let options = ConnectOptions {
            url: config.database.url.expose_secret().to_owned(),
            max_connections: MAX_CONNECTIONS,
            // A direct URL beside the other one means that the other leads through a pooler.
            prepared_statements: config.database.direct_url.is_none(),
        };
        let sealer = secrets::sealer(&config.secret_key, &config.other_secret_keys);
        let store = Store::connect(&options, sealer, signals).map_err(Failure::misconfigured)?;
        store.hold();
        tokio::spawn({
            let store = store.clone();
            async move { store.send_signals(id, outgoing).await }
        });
        let allow = Allow::new(config.egress_allow.networks.clone(), config.egress_allow.hosts.clone());
        let client = GuardedClient::new(allow).map_err(Failure::new)?;
        let metrics = Arc::new(export::metrics(&config.telemetry, id)?);
        let spans = export::Spans::new(&config.telemetry)?;
        let mcp = McpTools::new(client.clone(), Arc::new(store.clone()), config.mcp_stdio.clone());
        let blobs = Blobs::new(config.blobs.clone()).map_err(Failure::misconfigured)?;
        let workspaces = Workspaces::new(store.clone(), Arc::new(blobs));
        let measured = Arc::new(Measured::new(Arc::clone(&metrics), store.clone()));
        let stopped = CancellationToken::new();
        let (started, draining) = (Arc::new(AtomicBool::new(false)), watch::Sender::new(false));
        let bounds =
            Bounds::within_files(config.limits.max_streams, config.limits.max_connections_per_address);
        let api = ApiConfig {
            operator_key: Some(config.operator_key.clone()),
            public_url: config.public_url.as_str().trim_end_matches('/').to_owned(),
            max_body_bytes: config.limits.max_body_bytes,
            max_requests: config.limits.max_requests,
            max_streams: bounds.streams,
            identity: identity::start(config.oidc.as_ref(), &config.egress_allow, store.clock(), &stopped)?,
            metrics: Arc::clone(&measured) as Arc<dyn answerable_api::Metrics>,
            addresses: Arc::new(Addresses(client.clone())),
            shell: shell.rule(),
            tool_source: Arc::new(mcp.clone()),
            mcp_commands: config.mcp_stdio.keys().cloned().collect(),
            workspaces: workspaces.clone(),
            started: Arc::clone(&started),
            draining: draining.subscribe(),
        };
        let state = AppState::new(store.clone(), api);
        Ok(Self {
            id,
            store,
            client,
            mcp,
            workspaces,
            shell,
            metrics,
            measured,
            spans,
            state,
            bounds,
            started,
            draining,
            stopped,
        })
    }

    /// Answers requests until the server is stopped.
    fn serve(&self, listener: TcpListener) -> impl Future<Output = ()> + Send + 'static {
        let measured = Arc::clone(&self.measured);
        let shed = move |why| answerable_api::Metrics::shed(&*measured, why);
        door::serve(listener, self.bounds, shed, router(self.state.clone()), self.stopped.clone())
    }

    /// Begins to work: the database is there.
    fn start_work(&self, config: &ServerConfig) -> Work {
        let stop = CancellationToken::new();
        let listening = {
            let (store, url, id) = (self.store.clone(), config.database.direct().clone(), self.id);
            tokio::spawn(async move { store.hear_signals(url.expose_secret(), id).await })
        };
        let public_url = config.public_url.as_str().to_owned();
        let engine = Engine::start(
            EngineConfig {
                server: self.id,
                lease_for: config.limits.lease,
                max_running: config.limits.max_running,
                drain_for: config.limits.drain,
                max_recoveries: MAX_RECOVERIES,
                trace_content: config.telemetry.content,
            },
            EngineParts {
                store: Arc::new(EngineStore::new(
                    self.store.clone(),
                    public_url,
                    config.telemetry.exports_spans(),
                )),
                models: Arc::new(Models::new(self.client.clone())),
                tools: self.executors(),
                tool_source: Arc::new(self.mcp.clone()),
                signals: self.store.signals().clone(),
                clock: self.store.clock().clone(),
                observer: Arc::clone(&self.metrics) as Arc<dyn answerable_ports::Observer>,
            },
        );
        self.measured.watch(engine.counter());
        let delivery = tokio::spawn(answerable_delivery::run(
            self.store.clone(),
            self.client.clone(),
            answerable_delivery::Limits::default(),
            stop.clone(),
        ));
        let schedules = tokio::spawn(answerable_api::fire_schedules(self.state.clone()));
        let upkeep = tokio::spawn(maintenance::run(
            self.store.clone(),
            self.workspaces.clone(),
            self.shell.sandbox(),
            config.database.direct().clone(),
            retention::keep(config.retention),
            stop.clone(),
        ));
        let counting =
            tokio::spawn(measured::count(self.store.clone(), Arc::clone(&self.metrics), stop.clone()));
        let export = self.spans.as_ref().map(|spans| spans.start(&self.store, &self.metrics, &stop));
        Work { engine, delivery, schedules, upkeep, counting, export, listening, stop }
    }

    /// Who runs which kind of tool.
    fn executors(&self) -> Arc<ByKind> {
        let http = HttpTools::new(self.client.clone(), self.store.clock().clone());
        let files = WorkspaceTools::new(Arc::new(self.workspaces.for_runs()));
        let by_kind = ByKind::new()
            .with(ToolKind::Http, Arc::new(http))
            .with(ToolKind::Mcp, Arc::new(self.mcp.clone()))
            .with(ToolKind::Workspace, Arc::new(files));
        let by_kind = match self.shell.tools(Arc::new(self.workspaces.for_runs())) {
            Some(shell) => by_kind.with(ToolKind::Shell, Arc::new(shell)),
            None => by_kind,
        };
        Arc::new(by_kind)
    }

    /// Lets the last answers leave.
    async fn end(&self, serving: tokio::task::JoinHandle<()>, telemetry: &config::Telemetry) {
        self.draining.send_replace(true);
        self.stopped.cancel();
        // Streams that a client holds open end with the process.
        let _ = tokio::time::timeout(LAST_ANSWERS, serving).await;
        let _ = tokio::time::timeout(LAST_ANSWERS, self.store.close()).await;
        export::end_metrics(telemetry, Arc::clone(&self.metrics)).await;
    }
}

/// What works beside the API.
struct Work {
    engine: Engine,
    delivery: tokio::task::JoinHandle<()>,
    schedules: tokio::task::JoinHandle<()>,
    upkeep: tokio::task::JoinHandle<()>,
    counting: tokio::task::JoinHandle<()>,
    export: Option<tokio::task::JoinHandle<()>>,
    listening: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
}

impl Work {
    async fn drain(self) {
        self.engine.drain().await;
        self.stop.cancel();
        // They stop at once or were never of use any more; a panic of theirs was logged.
        let _ = tokio::time::timeout(LAST_ANSWERS, self.delivery).await;
        let _ = tokio::time::timeout(LAST_ANSWERS, self.schedules).await;
        let _ = tokio::time::timeout(LAST_ANSWERS, self.upkeep).await;
        self.counting.abort();
        if let Some(export) = self.export {
            // It takes two seconds at most for what the last commits tell.
            let _ = tokio::time::timeout(LAST_ANSWERS, export).await;
        }
        self.listening.abort();
    }
}

/// The guard, as far as it can tell without the DNS.
struct Addresses(GuardedClient);

impl AddressRule for Addresses {
    fn refusal(&self, url: &str) -> Option<String> {
        self.0.check(url).err().map(|refused| refused.to_string())
    }
}
