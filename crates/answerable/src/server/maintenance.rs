//! What must be done now and then: partitions for the weeks to come, and keys that are old enough to forget.

use std::time::Duration;

use answerable_store::{Store, make_partitions};
use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;

/// Between two rounds.
const EVERY: Duration = Duration::from_secs(3600);
/// Keys forgotten in one transaction.
const BATCH: i64 = 5_000;

/// Keeps the database in order until `stop`.
pub(super) async fn run(store: Store, direct_url: SecretString, stop: CancellationToken) {
    loop {
        if let Err(error) = make_partitions(direct_url.expose_secret()).await {
            tracing::warn!(%error, "partitions were not made; rows go to the default ones");
        }
        if let Err(error) = prune(&store).await {
            tracing::warn!(%error, "old idempotency keys were not removed");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

async fn prune(store: &Store) -> answerable_store::Result<()> {
    loop {
        let mut tx = store.system().await?;
        let gone = tx.answers_prune(BATCH).await?;
        tx.commit().await?;
        if gone < BATCH.unsigned_abs() {
            return Ok(());
        }
    }
}
