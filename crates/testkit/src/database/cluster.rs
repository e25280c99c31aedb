//! The cluster of a test process and the template in it.

use std::env;
use std::path::Path;

use answerable_devdb::{Options, PrivatePostgres};
use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};
use url::Url;

use super::leftovers::Leftovers;
use super::{Error, connect, execute};

/// Names a cluster to use instead of a private one.
const URL_VARIABLE: &str = "ANSWERABLE_TEST_DATABASE_URL";
/// Read when a test runs, so that a changed migration needs no rebuild of this crate.
const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations");
/// Any number that nobody else locks: makes processes on one cluster take turns with the template.
const TEMPLATE_LOCK: i64 = 0x616e_7377_6572;
const MAX_CONNECTIONS: u32 = 300;

#[derive(Debug)]
pub(crate) struct Cluster {
    place: Place,
    template: String,
}

#[derive(Debug)]
enum Place {
    Private { postgres: PrivatePostgres, _leftovers: Leftovers },
    Named(Url),
}

impl Cluster {
    /// Finds or starts the cluster and sees to the template.
    pub(crate) async fn start() -> Result<Self, Error> {
        let place = match env::var(URL_VARIABLE) {
            Ok(url) => Place::Named(Url::parse(&url)?),
            Err(_) => private()?,
        };
        let migrator = Migrator::new(Path::new(MIGRATIONS)).await?;
        let cluster = Self { place, template: template_name(&migrator) };
        cluster.prepare_template(&migrator).await?;
        Ok(cluster)
    }

    pub(crate) fn template(&self) -> &str {
        &self.template
    }

    /// The URL of one of the cluster's databases.
    pub(crate) fn url(&self, database: &str) -> Result<String, Error> {
        Ok(match &self.place {
            Place::Private { postgres, .. } => postgres.url(database),
            Place::Named(url) => {
                let mut url = url.clone();
                url.set_path(database);
                url.into()
            }
        })
    }

    /// Makes the template unless it is there. It gets its name last, so a name that is there is migrated.
    async fn prepare_template(&self, migrator: &Migrator) -> Result<(), Error> {
        let mut connection = connect(&self.url("postgres")?).await?;
        // Held until the connection ends. It also keeps two processes from making the same role at once.
        sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut connection).await?;
        if !self.has_template(&mut connection).await? {
            let building = format!("{}_building", self.template);
            execute(&mut connection, format!("DROP DATABASE IF EXISTS {building} WITH (FORCE)")).await?;
            execute(&mut connection, format!("CREATE DATABASE {building} TEMPLATE template0")).await?;
            let mut inside = connect(&self.url(&building)?).await?;
            migrator.run(&mut inside).await?;
            inside.close().await?;
            execute(&mut connection, format!("ALTER DATABASE {building} RENAME TO {}", self.template))
                .await?;
        }
        Ok(connection.close().await?)
    }

    async fn has_template(&self, connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
        let found = sqlx::query("SELECT 1 FROM pg_database WHERE datname = $1");
        Ok(found.bind(&self.template).fetch_optional(connection).await?.is_some())
    }
}

fn private() -> Result<Place, Error> {
    let folder = tempfile::Builder::new().prefix("answerable-test-").tempdir()?.keep();
    let leftovers = Leftovers::of(&folder)?;
    let options = Options { data_dir: folder, bin_dir: None, fsync: false, max_connections: MAX_CONNECTIONS };
    Ok(Place::Private { postgres: PrivatePostgres::start(options)?, _leftovers: leftovers })
}

/// A name that changes with any migration, so that a cluster that stays is never out of date.
fn template_name(migrator: &Migrator) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for migration in migrator.iter() {
        hash.update(migration.version.to_be_bytes());
        hash.update(&*migration.checksum);
    }
    let digest: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("answerable_template_{digest}")
}
