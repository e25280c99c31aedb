//! What must be done now and then: partitions for the weeks to come, what is old enough to go, and what is of no
//! use any more.

use std::time::Duration;

use answerable_sandbox::Sandbox;
use answerable_store::{Keep, Pruned, Store, Workspaces, make_partitions};
use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;

/// Between two rounds, more or less: servers that were started together don't all come at once.
const EVERY: Duration = Duration::from_secs(3600);
/// The same where a round left something for the next.
const SOON: Duration = Duration::from_secs(60);
/// Small transactions of each kind in one round.
const BATCHES: u32 = 100;

/// Keeps the database in order until `stop`.
pub(super) async fn run(
    store: Store,
    workspaces: Workspaces,
    sandbox: Option<Sandbox>,
    direct_url: SecretString,
    keep: Keep,
    stop: CancellationToken,
) {
    loop {
        let round = async {
            if let Err(error) = make_partitions(direct_url.expose_secret()).await {
                tracing::warn!(%error, "partitions were not made; rows go to the default ones");
            }
            let more = prune(&store, direct_url.expose_secret(), keep).await;
            sweep(&workspaces).await;
            sweep_folders(sandbox.as_ref()).await;
            tokio::time::sleep(about(if more { SOON } else { EVERY })).await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = round => {}
        }
    }
}

/// One round; whether there is more to do soon.
async fn prune(store: &Store, direct_url: &str, keep: Keep) -> bool {
    match store.prune(direct_url, keep, BATCHES).await {
        Ok(Some(pruned)) => {
            tell(&pruned);
            pruned.more
        }
        // Another server is at it.
        Ok(None) => false,
        Err(error) => {
            tracing::warn!(%error, "what is old was not taken away; it is tried again");
            false
        }
    }
}

/// Contents that no file holds any more.
async fn sweep(workspaces: &Workspaces) {
    match workspaces.sweep(BATCHES).await {
        Ok(0) => {}
        Ok(contents) => tracing::info!(contents, "what no file holds any more was taken away"),
        Err(error) => {
            tracing::warn!(%error, "what no file holds any more was not taken away; it is tried again");
        }
    }
}

/// Folders of commands whose server died: one that starts again at once finds the last ones too young.
async fn sweep_folders(sandbox: Option<&Sandbox>) {
    let Some(sandbox) = sandbox.cloned() else { return };
    let swept = tokio::task::spawn_blocking(move || super::shell::sweep(&sandbox)).await;
    if let Err(error) = swept {
        tracing::warn!(%error, "what commands of a dead server left was not taken away; it is tried again");
    }
}

fn tell(pruned: &Pruned) {
    if pruned.in_use > 0 {
        tracing::info!(
            partitions = pruned.in_use,
            "old partitions are in use; they are left for the next time"
        );
    }
    if !pruned.is_empty() {
        tracing::info!(
            runs = pruned.runs,
            journal_partitions = pruned.journal_partitions,
            journal_rows = pruned.journal_rows,
            event_partitions = pruned.event_partitions,
            deliveries = pruned.deliveries,
            idempotency_keys = pruned.idempotency_keys,
            "what was old was taken away"
        );
    }
}

/// From three to five quarters of it.
pub(super) fn about(time: Duration) -> Duration {
    // The id's random part is as good a die as any.
    let half = time.as_millis() / 2;
    let die = uuid::Uuid::now_v7().as_u128() % half.max(1);
    time * 3 / 4 + Duration::from_millis(u64::try_from(die).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_differ_and_stay_near() {
        let pauses: std::collections::BTreeSet<Duration> = (0..50).map(|_| about(EVERY)).collect();
        assert!(pauses.len() > 40, "{pauses:?}");
        assert!(pauses.iter().all(|pause| (EVERY * 3 / 4..EVERY * 5 / 4).contains(pause)), "{pauses:?}");
    }
}
