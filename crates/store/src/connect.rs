//! The pool, and the migrations.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use answerable_core::id::TenantId;
use answerable_faults::{self as faults, Point};
use answerable_ports::{Clock, Shares, Signals, StoreError};
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::query::Map;
use sqlx::{AssertSqlSafe, ConnectOptions as _, IntoArguments, PgPool, Postgres, Row as _, Transaction};

use crate::audit::Acts;
use crate::claim::Turns;
use crate::conn::Conn;
use crate::error::store_error;
use crate::seal::Sealer;
use crate::tx::{SystemTx, Taker, TenantTx};

/// A newer server may have migrated further: this one works on that as well, and may be started again.
static MIGRATIONS: LazyLock<Migrator> =
    LazyLock::new(|| Migrator { ignore_missing: true, ..sqlx::migrate!("../../migrations") });

/// What holds for every transaction. A server that stands still within one (a paused machine, a cut line) must not keep
/// its locks: claiming waits for one of them. And no statement here is worth compiling, which can take seconds.
const RULES: &str = "SET LOCAL idle_in_transaction_session_timeout = 10000; SET LOCAL jit = off";

/// Connections for claims and renewals.
const LEASE_CONNECTIONS: u32 = 3;
/// Transactions that may wait for one: more than there are requests, runs and streams.
const IN_LINE: usize = 100_000;
/// Time that a transaction waits for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// How to reach the database.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// `postgres://…`; may lead through a pooler.
    pub url: String,
    /// Connections at most, beside three for claims and renewals.
    pub max_connections: u32,
    /// Keep prepared statements on the server. Not through PgBouncer in transaction mode.
    pub prepared_statements: bool,
}

/// The store. Clones share the pool.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
    /// Claims and renewals have connections of their own: requests that take all the others must not cost leases.
    leases: PgPool,
    /// Transactions of tenants: one whose own all wait for each other, or for the disk, leaves connections to the others.
    shares: Shares<Taker>,
    turns: Arc<Turns>,
    prepared: bool,
    sealer: Sealer,
    signals: Signals,
    clock: Clock,
    held: Arc<AtomicBool>,
}

impl Store {
    /// Makes the pool. Connects lazily, so a database that is away at start is no error here.
    ///
    /// # Errors
    /// The URL makes no sense.
    pub fn connect(options: &ConnectOptions, sealer: Sealer, signals: Signals) -> Result<Self, StoreError> {
        let connect = pg_options(&options.url)?;
        let prepared = options.prepared_statements;
        // A pooler takes few settings at the start; this one is the default of every version that still lives.
        let connect =
            if prepared { connect } else { connect.statement_cache_capacity(0).extra_float_digits(None) };
        let pool = |connections| {
            PgPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(PATIENCE)
                .idle_timeout(Duration::from_secs(300))
                .connect_lazy_with(connect.clone())
        };
        let (pool, leases) = (pool(options.max_connections), pool(LEASE_CONNECTIONS));
        Ok(Self {
            pool,
            leases,
            shares: Shares::new(usize::try_from(options.max_connections).unwrap_or(usize::MAX), IN_LINE),
            turns: Arc::default(),
            prepared,
            sealer,
            signals,
            clock: Clock::default(),
            held: Arc::default(),
        })
    }

    /// Until [`open`](Self::open) the database counts as away: its schema isn't there yet.
    pub fn hold(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    /// The database is migrated.
    pub fn open(&self) {
        self.held.store(false, Ordering::Relaxed);
    }

    fn is_open(&self) -> Result<(), StoreError> {
        if self.held.load(Ordering::Relaxed) {
            Err(StoreError::Away("not migrated yet".into()))
        } else {
            Ok(())
        }
    }

    /// Begins a transaction of one tenant. It waits if the tenant has its part of all connections in use.
    ///
    /// # Errors
    /// The database is away, or no connection came free in time.
    pub async fn tenant(&self, tenant_id: TenantId) -> Result<TenantTx, StoreError> {
        self.tenant_as(Taker::Requests(tenant_id)).await
    }

    /// The same for its runs, which its requests don't stand before.
    pub(crate) async fn working(&self, tenant_id: TenantId) -> Result<TenantTx, StoreError> {
        self.tenant_as(Taker::Runs(tenant_id)).await
    }

    pub(crate) async fn tenant_as(&self, taker: Taker) -> Result<TenantTx, StoreError> {
        self.is_open()?;
        let tenant_id = taker.tenant();
        // A UUID's text can't hold anything but hex digits and hyphens.
        let begin = format!(
            "BEGIN; {RULES}; SET LOCAL ROLE answerable_app; SELECT set_config('app.tenant', '{}', true)",
            tenant_id.0.hyphenated()
        );
        let share = self.shares.take_within(taker, PATIENCE).await;
        let share = share.map_err(|_| StoreError::Away("no connection is free for the tenant".into()))?;
        let tx = begin_in(&self.pool, begin).await?;
        Ok(TenantTx {
            tx,
            _share: share,
            prepared: self.prepared,
            tenant_id,
            sealer: self.sealer.clone(),
            signals: Vec::new(),
            hub: self.signals.clone(),
            acts: Acts::default(),
        })
    }

    /// Begins a transaction that crosses tenants.
    ///
    /// # Errors
    /// The database is away.
    pub async fn system(&self) -> Result<SystemTx, StoreError> {
        self.system_in(&self.pool).await
    }

    /// The same for claims and renewals, which wait for nobody else's connections.
    pub(crate) async fn leasing(&self) -> Result<SystemTx, StoreError> {
        self.system_in(&self.leases).await
    }

    async fn system_in(&self, pool: &PgPool) -> Result<SystemTx, StoreError> {
        self.is_open()?;
        let tx = begin_in(pool, format!("BEGIN; {RULES}; SET LOCAL ROLE answerable_system")).await?;
        Ok(SystemTx {
            tx,
            prepared: self.prepared,
            sealer: self.sealer.clone(),
            signals: Vec::new(),
            hub: self.signals.clone(),
            acts: Acts::default(),
        })
    }

    /// The pool itself, for tests.
    #[cfg(test)]
    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Runs one statement that is its own transaction, as whoever the service connects as. Behind a pooler it gets a
    /// transaction all the same: its parts could go to several servers otherwise.
    pub(crate) async fn alone<'q, T, O, A>(&self, query: Map<'q, Postgres, T, A>) -> sqlx::Result<O>
    where
        T: FnMut(PgRow) -> sqlx::Result<O> + Send,
        O: Send + Unpin,
        A: IntoArguments<Postgres> + Send + 'q,
    {
        if self.prepared {
            return query.fetch_one(&self.pool).await;
        }
        let mut tx = begin_in(&self.pool, format!("BEGIN; {RULES}"))
            .await
            .map_err(|error| sqlx::Error::Io(std::io::Error::other(error)))?;
        let answer = query.fetch_one(Conn { raw: &mut tx, prepared: false }).await?;
        tx.commit().await?;
        Ok(answer)
    }

    /// Who is told what.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// The database's time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whose turn it is to have a run claimed.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    pub(crate) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Whether the database answers and is migrated to what this binary needs.
    ///
    /// # Errors
    /// It doesn't answer, or lacks a migration.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.is_open()?;
        let newest = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0);
        let newest_applied = sqlx::query("SELECT max(version) FROM _sqlx_migrations WHERE success");
        let applied: Option<i64> =
            self.alone(newest_applied.try_map(|row: PgRow| row.try_get(0))).await.map_err(store_error)?;
        // A newer database is fine: a rolling upgrade has begun.
        if applied.unwrap_or(0) >= newest {
            Ok(())
        } else {
            Err(StoreError::Away("migrations are missing".into()))
        }
    }

    /// Connections in use and in all.
    pub fn pool_use(&self) -> (u32, u32) {
        let use_of = |pool: &PgPool| {
            let all = pool.size();
            (all.saturating_sub(u32::try_from(pool.num_idle()).unwrap_or(u32::MAX)), all)
        };
        let (pool, leases) = (use_of(&self.pool), use_of(&self.leases));
        (pool.0 + leases.0, pool.1 + leases.1)
    }

    /// Closes the pool, when all that was begun is done.
    pub async fn close(&self) {
        self.pool.close().await;
        self.leases.close().await;
    }
}

/// Begins in a task of its own, so that it is never dropped halfway (a request is, when its client goes): the connection
/// would go back to the pool with the transaction open, and the next commit of the engine would be written in there and
/// lost.
async fn begin_in(pool: &PgPool, begin: String) -> Result<Transaction<'static, Postgres>, StoreError> {
    let pool = pool.clone();
    let begun = tokio::spawn(async move { pool.begin_with(AssertSqlSafe(begin)).await });
    begun.await.map_err(|error| StoreError::Away(error.to_string()))?.map_err(store_error)
}

pub(crate) fn pg_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(|error| StoreError::Broken(error.to_string()))?;
    Ok(options.application_name("answerable").log_statements(tracing::log::LevelFilter::Off))
}

/// Migrates the database at `url` (not through a pooler). Several servers may try at once: one does it, the rest wait.
///
/// # Errors
/// The database is away, a migration fails, or the role may not create what is needed.
pub async fn migrate(url: &str) -> Result<(), StoreError> {
    let options = pg_options(url)?;
    let mut connection = options.connect().await.map_err(store_error)?;
    faults::before(Point::Migrate);
    MIGRATIONS.run_direct(None, &mut connection, false).await.map_err(migration_error)?;
    faults::after(Point::Migrate);
    Ok(())
}

/// A database that goes away in the midst of a migration has rolled it back: it is tried again.
fn migration_error(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) => store_error(error),
        MigrateError::ExecuteMigration(error, version) => match store_error(error) {
            StoreError::Broken(why) => StoreError::Broken(format!("migration {version}: {why}")),
            StoreError::Away(why) => StoreError::Away(format!("migration {version}: {why}")),
        },
        error => StoreError::Broken(error.to_string()),
    }
}

/// Makes the partitions of the weeks to come, as the role that owns the tables.
///
/// # Errors
/// The database is away.
pub async fn make_partitions(url: &str) -> Result<(), StoreError> {
    let mut connection = pg_options(url)?.connect().await.map_err(store_error)?;
    sqlx::query!("SELECT make_partitions(4) IS NULL AS done")
        .fetch_one(&mut connection)
        .await
        .map_err(store_error)?;
    Ok(())
}
