//! A database of its own for each test, with the migrations applied.

mod cluster;
mod leftovers;

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::sync::OnceCell;
use uuid::Uuid;

use cluster::Cluster;

/// The cluster of this process and its migrated template. Made by whichever test comes first.
static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

/// What kept a test from its database.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No PostgreSQL could be started.
    #[error("the private PostgreSQL: {0}")]
    Cluster(#[from] answerable_devdb::Error),
    /// A folder could not be made, or the helper process.
    #[error("the folder of the test cluster: {0}")]
    Folder(#[from] std::io::Error),
    /// The migrations could not be read or applied.
    #[error("the migrations: {0}")]
    Migrations(#[from] sqlx::migrate::MigrateError),
    /// The database refused something.
    #[error("the test cluster: {0}")]
    Database(#[from] sqlx::Error),
    /// `ANSWERABLE_TEST_DATABASE_URL` is no URL.
    #[error("ANSWERABLE_TEST_DATABASE_URL: {0}")]
    Url(#[from] url::ParseError),
}

/// A migrated database that nobody else uses. It is dropped with this value, whoever is still connected.
#[derive(Debug)]
pub struct TestDatabase {
    /// Where to connect, as a superuser.
    pub url: String,
    name: String,
    /// Where to connect for making and dropping databases.
    maintenance_url: String,
}

impl TestDatabase {
    /// Makes a copy of the migrated template. The first call of a process starts its private PostgreSQL, or
    /// uses the cluster named by `ANSWERABLE_TEST_DATABASE_URL`.
    ///
    /// # Errors
    /// What kept it from being made.
    pub async fn create() -> Result<Self, Error> {
        let cluster = CLUSTER.get_or_try_init(Cluster::start).await?;
        Self::copy_of(cluster, cluster.template()).await
    }

    /// The same without any migration, for whoever brings their own.
    ///
    /// # Errors
    /// What kept it from being made.
    pub async fn empty() -> Result<Self, Error> {
        Self::copy_of(CLUSTER.get_or_try_init(Cluster::start).await?, "template0").await
    }

    async fn copy_of(cluster: &Cluster, template: &str) -> Result<Self, Error> {
        let name = format!("answerable_test_{}", Uuid::now_v7().simple());
        let mut connection = connect(&cluster.url("postgres")?).await?;
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        execute(&mut connection, create).await?;
        Ok(Self { url: cluster.url(&name)?, name, maintenance_url: cluster.url("postgres")? })
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (url, name) = (self.maintenance_url.clone(), self.name.clone());
        // A runtime of its own: the test's may be ending, and can't be waited on from here.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(drop_database(&url, &name))
        });
        // A database that stays costs a little space and spoils no test.
        let _ = dropping.join();
    }
}

async fn drop_database(url: &str, name: &str) -> Result<(), Error> {
    let mut connection = connect(url).await?;
    execute(&mut connection, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
    Ok(connection.close().await?)
}

async fn connect(url: &str) -> Result<PgConnection, sqlx::Error> {
    PgConnectOptions::from_str(url)?.connect().await
}

/// Runs one statement of ours; every name in it is made here and needs no quoting.
async fn execute(connection: &mut PgConnection, statement: String) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(connection).await.map(drop)
}
