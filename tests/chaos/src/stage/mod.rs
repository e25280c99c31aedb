//! The stage: one PostgreSQL, several servers, a proxy between each of them and the database, and what can be done to
//! them.

mod account;
mod binaries;
mod disk;
mod error;
mod faketime;
mod journal;
mod pooler;
mod postgres;
mod process;
mod proxy;
mod server;
mod takeover;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

pub use error::{Error, Result};
pub use journal::{FILE as JOURNAL, Journal};
pub use pooler::Pooler;
pub use postgres::Postgres;
pub use process::Process;
pub use proxy::{Mode, Proxy};
pub use server::{Common, Launch, Server};
pub use takeover::{busiest, kill_and_measure};

/// The database of all servers.
pub const DATABASE: &str = "answerable";
/// How long servers may take to be ready again by themselves when nothing is broken any more.
pub const RECOVERY: Duration = Duration::from_secs(45);

/// What a stage is to be.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Where everything is written.
    pub dir: PathBuf,
    /// How many servers.
    pub servers: usize,
    /// Their lease.
    pub lease: Duration,
    /// PostgreSQL as in production, with a disk and a clock of its own where that is possible.
    pub durable: bool,
    /// Guards that the servers do without, as `ANSWERABLE_FAULT_WITHOUT` takes them.
    pub without: Option<String>,
}

/// All that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Stage {
    /// Where everything is written.
    pub dir: PathBuf,
    /// What is broken, and when.
    pub journal: Arc<Journal>,
    /// The lease of the servers.
    pub lease: Duration,
    /// The servers.
    pub servers: Vec<Arc<Server>>,
    /// PgBouncer, where it is installed.
    pub pooler: Option<Pooler>,
    /// The key for tenants.
    pub operator_key: String,
    common: Common,
    supervisors: JoinSet<()>,
    /// After the servers: fields end in this order.
    pub postgres: Postgres,
}

impl Stage {
    /// Sets the stage and starts the servers; they may not be ready yet.
    ///
    /// # Errors
    /// Something of the stage is missing or doesn't start.
    pub async fn set(plot: &Plot) -> Result<Self> {
        let journal = Arc::new(Journal::open(&plot.dir)?);
        let postgres = Postgres::start_new(&plot.dir, plot.durable).await?;
        postgres.execute("postgres", format!("CREATE DATABASE {DATABASE} TEMPLATE template0")).await?;
        let pooler = Pooler::start(&plot.dir, &postgres).await?;
        let operator_key = format!("operator-{}", Uuid::new_v4().simple());
        let common = Common {
            program: binaries::server()?,
            dir: plot.dir.clone(),
            environment: environment(plot, &operator_key),
            http: http_client()?,
            journal: Arc::clone(&journal),
        };
        journal.note(
            "stage",
            json!({"lease_ms": millis(plot.lease), "servers": plot.servers, "without": plot.without}),
        );
        let mut stage = Self {
            dir: plot.dir.clone(),
            journal,
            lease: plot.lease,
            servers: Vec::new(),
            pooler,
            operator_key,
            common,
            supervisors: JoinSet::new(),
            postgres,
        };
        for index in 0..plot.servers {
            let server = stage.server(index, DATABASE).await?;
            stage.supervisors.spawn(Arc::clone(&server).supervise());
            stage.servers.push(server);
        }
        Ok(stage)
    }

    async fn server(&self, index: usize, database: &str) -> Result<Arc<Server>> {
        let proxy = Proxy::open(self.postgres.socket()).await?;
        Ok(Arc::new(Server::new(index, database, proxy, self.common.clone())?))
    }

    /// One more server, on a database of its own, supervised for as long as the second value lives.
    ///
    /// # Errors
    /// There is no port for it.
    pub async fn extra_server(&self, database: &str, first: Launch) -> Result<(Arc<Server>, JoinSet<()>)> {
        let server = self.server(self.servers.len(), database).await?;
        server.restart(first);
        let mut supervisor = JoinSet::new();
        supervisor.spawn(Arc::clone(&server).supervise());
        Ok((server, supervisor))
    }

    /// Where the servers answer.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.url()).collect()
    }

    /// Numbers of the servers that aren't ready within `patience`.
    pub async fn not_ready(&self, patience: Duration) -> Vec<usize> {
        let looks =
            self.servers.iter().map(|server| async move { (server.index, server.ready(patience).await) });
        let looked = futures::future::join_all(looks).await;
        looked.into_iter().filter(|(_, ready)| !ready).map(|(index, _)| index).collect()
    }

    /// Takes back all that can be taken back. Servers are not touched: they must recover by themselves.
    ///
    /// # Errors
    /// PostgreSQL doesn't come back.
    pub async fn heal(&self) -> Result<()> {
        for server in &self.servers {
            server.signal(nix::sys::signal::Signal::SIGCONT);
            server.hold_down(false);
            server.proxy.heal();
        }
        self.postgres.free_disk();
        self.postgres.start().await
    }

    /// Whether clocks of servers can be made wrong.
    pub fn has_faketime(&self) -> bool {
        faketime::library().is_some()
    }
}

/// The log of all lives of a server.
pub fn log_of(dir: &Path, server: usize) -> PathBuf {
    dir.join(format!("server-{server}.log"))
}

fn environment(plot: &Plot, operator_key: &str) -> Vec<(String, String)> {
    let secret_key = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let lease = millis(plot.lease).to_string();
    let mut environment = vec![
        ("ANSWERABLE_OPERATOR_KEY", operator_key),
        ("ANSWERABLE_SECRET_KEY", &secret_key),
        ("ANSWERABLE_EGRESS_ALLOW", "127.0.0.0/8"),
        ("ANSWERABLE_LEASE_MS", &lease),
        ("ANSWERABLE_DRAIN_MS", "4000"),
        ("ANSWERABLE_MAX_RUNNING", "64"),
        ("ANSWERABLE_LOG_FORMAT", "json"),
    ];
    if let Some(guards) = &plot.without {
        environment.push(("ANSWERABLE_FAULT_WITHOUT", guards));
    }
    environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A span in whole milliseconds.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn http_client() -> Result<reqwest::Client> {
    // Fails where there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().connect_timeout(Duration::from_secs(2)).build();
    client.map_err(|error| Error::says(format!("no HTTP client: {error}")))
}
