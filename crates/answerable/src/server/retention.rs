//! Old data taken away at once, for those who don't wait for the servers to do it.

use answerable_store::{ConnectOptions, Keep, Pruned, Sealer, Signals, Store};
use secrecy::ExposeSecret;

use crate::Failure;
use crate::config::{Database, Log, Retention};

/// One transaction at a time, and one connection to count with.
const CONNECTIONS: u32 = 2;

/// What the settings mean to the store.
pub(super) fn keep(retention: Retention) -> Keep {
    Keep { journal_days: retention.journal_days, runs_days: retention.runs_days }
}

/// Takes away all that is old enough, or counts it, over the database's direct URL.
///
/// # Errors
/// The database is away or not migrated, the role may not do it, or a server is at it.
pub(crate) async fn prune_database(
    database: &Database,
    retention: Retention,
    log: &Log,
    only_count: bool,
) -> Result<Pruned, Failure> {
    super::start_logs(log)?;
    let url = database.direct().expose_secret();
    let options =
        ConnectOptions { url: url.to_owned(), max_connections: CONNECTIONS, prepared_statements: true };
    // Nothing that is sealed is opened here, so no key is asked for.
    let store = Store::connect(&options, Sealer::new(&[0; 32]), Signals::new().0).map_err(Failure::new)?;
    store.check().await.map_err(Failure::new)?;
    if only_count {
        return store.prune_preview(keep(retention)).await.map_err(Failure::new);
    }
    let pruned = store.prune(url, keep(retention), u32::MAX).await.map_err(Failure::new)?;
    pruned.ok_or_else(|| Failure::new("a server is pruning at the moment; try again in a minute"))
}
