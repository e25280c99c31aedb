//! Webhooks: what runs and approvals came to is told to the tenants' endpoints, signed by Standard Webhooks, at least once.
//!
//! Deliveries are rows that were made in the run's own transaction. They are claimed, tried, and tried again over about a
//! day; a slow or dead endpoint delays no run and no other endpoint.

mod attempt;
mod backoff;

use std::sync::Arc;
use std::time::Duration;

use answerable_store::Store;
use answerable_tools::GuardedClient;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Tries that are out at once.
const AT_ONCE: usize = 64;
/// Tries of one endpoint that are out at once.
const EACH: i64 = 4;
/// Tries of one tenant that are out at once.
const OF_TENANT: i64 = 16;
/// Longest time between two looks; a signal shortens it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Sends deliveries until `stop`. Those that are out then are let finish.
pub async fn run(store: Store, client: GuardedClient, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut out = JoinSet::new();
    while !stop.is_cancelled() {
        while out.try_join_next().is_some() {}
        let free = i64::try_from(places.available_permits()).unwrap_or(0);
        let claimed =
            if free > 0 { store.deliveries_claim(free, EACH, OF_TENANT).await } else { Ok(Vec::new()) };
        let none = match claimed {
            Ok(claimed) => {
                let none = claimed.is_empty();
                for outgoing in claimed {
                    let (store, client, places) = (store.clone(), client.clone(), Arc::clone(&places));
                    out.spawn(async move {
                        // The semaphore is never closed.
                        let _place = places.acquire_owned().await;
                        attempt::attempt(&store, &client, outgoing).await;
                    });
                }
                none
            }
            Err(error) => {
                tracing::debug!(%error, "no deliveries could be claimed");
                true
            }
        };
        if none {
            tokio::select! {
                () = stop.cancelled() => {}
                () = store.signals().deliveries() => {}
                // An endpoint has a place again.
                Some(_) = out.join_next() => {}
                () = tokio::time::sleep(until_next(&store).await) => {}
            }
        }
    }
    while out.join_next().await.is_some() {}
}

/// Time until the next delivery is due, within bounds.
async fn until_next(store: &Store) -> Duration {
    let jitter = rand::random_range(0.8..1.2);
    let next = store.deliveries_next().await.ok().flatten();
    let wait = next.and_then(|at| (at - store.clock().utc()).to_std().ok()).unwrap_or(LOOK_EVERY);
    wait.clamp(Duration::from_millis(200), LOOK_EVERY.mul_f64(jitter))
}
