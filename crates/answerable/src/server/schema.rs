//! The database's schema, at the start.

use std::time::Duration;

use answerable_store::{Store, StoreError, migrate};
use secrecy::ExposeSecret;

use crate::Failure;
use crate::config::{Database, Log};

/// Brings the database up to this version's schema, over its direct URL.
///
/// # Errors
/// It is away, or the role may not do what is needed.
pub(crate) async fn migrate_database(database: &Database, log: &Log) -> Result<(), Failure> {
    super::start_logs(log)?;
    migrate(database.direct().expose_secret()).await.map_err(Failure::new)
}

/// Migrates, however long the database is away; then the store is open.
pub(super) async fn until_migrated(database: &Database, store: &Store) -> Result<(), Failure> {
    let mut pause = Duration::from_millis(200);
    loop {
        match migrate(database.direct().expose_secret()).await {
            Ok(()) => {
                store.open();
                return Ok(());
            }
            Err(StoreError::Away(why)) => {
                tracing::warn!(%why, "the database can't be migrated yet; it is tried again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(5));
            }
            Err(error) => return Err(Failure::new(format!("the database can't be migrated: {error}"))),
        }
    }
}
