//! Webhooks: what runs and approvals came to is told to the tenants' endpoints, signed by Standard Webhooks, at least once.
//!
//! Deliveries are rows that were made in the run's own transaction. They are claimed, tried, and tried again over about a
//! day. A run's events reach an endpoint in their order as long as it answers; a slow or dead endpoint delays no run and no
//! other endpoint.

mod attempt;
mod backoff;
mod excerpt;
mod places;

use std::time::Duration;

use answerable_store::Store;
use answerable_tools::GuardedClient;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use places::Places;

/// Longest time between two looks; a signal shortens it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How much is sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Tries that are out at once of this server.
    pub at_once: usize,
    /// Tries that are out at once to an endpoint that answers. Any other has one.
    pub each: i64,
    /// Tries that are out at once of a tenant.
    pub of_tenant: i64,
    /// Time that an endpoint has to answer.
    pub answer_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { at_once: 256, each: 4, of_tenant: 64, answer_within: Duration::from_secs(15) }
    }
}

/// Sends deliveries until `stop`. Those that are out then are let finish.
pub async fn run(store: Store, client: GuardedClient, limits: Limits, stop: CancellationToken) {
    let places = Places::of(&limits);
    let mut out = JoinSet::new();
    while !stop.is_cancelled() {
        while out.try_join_next().is_some() {}
        let claimed = match places.left() {
            Some(left) => store.deliveries_claim(&left).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "no deliveries could be claimed");
                Vec::new()
            }),
            None => Vec::new(),
        };
        let none = claimed.is_empty();
        for outgoing in claimed {
            let (store, client, place) = (store.clone(), client.clone(), places.take(outgoing.health));
            out.spawn(async move {
                attempt::attempt(&store, &client, outgoing, limits.answer_within).await;
                drop(place);
            });
        }
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
