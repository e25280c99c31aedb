//! The server's measurements, as the API shows them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use answerable_store::Store;
use answerable_telemetry::{Metrics, Process};
use tokio_util::sync::CancellationToken;

/// Between two counts of what waits in the database, more or less.
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// Metrics, with what is true at the moment of reading.
pub(super) struct Measured {
    metrics: Arc<Metrics>,
    running: Arc<OnceLock<Arc<AtomicUsize>>>,
}

impl Measured {
    pub(super) fn new(metrics: Arc<Metrics>, store: Store) -> Self {
        let running: Arc<OnceLock<Arc<AtomicUsize>>> = Arc::default();
        let watched = Arc::clone(&running);
        metrics.watch(move || {
            let (in_use, all) = store.pool_use();
            let running = watched.get().map_or(0, |running| running.load(Ordering::Relaxed));
            Process {
                running: u64::try_from(running).unwrap_or(u64::MAX),
                connections_in_use: in_use.into(),
                connections: all.into(),
            }
        });
        Self { metrics, running }
    }

    /// The engine has started; this is how many runs it works on.
    pub(super) fn watch(&self, running: Arc<AtomicUsize>) {
        // There is one engine a process.
        let _ = self.running.set(running);
    }
}

impl answerable_api::Metrics for Measured {
    fn text(&self) -> String {
        self.metrics.text().unwrap_or_else(|error| {
            tracing::error!(%error, "metrics can't be read out");
            String::new()
        })
    }

    fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        self.metrics.answered(method, route, status, took);
    }

    fn shed(&self, why: &'static str) {
        self.metrics.shed(why);
    }
}

/// Counts now and then what waits in the database, until `stop`. While that is away the last counts stand, and their age
/// says so.
pub(super) async fn count(store: Store, metrics: Arc<Metrics>, stop: CancellationToken) {
    loop {
        let round = async {
            match store.gauges().await {
                Ok(gauges) => metrics.counted(gauges),
                Err(error) => tracing::debug!(%error, "what waits was not counted; the last counts stand"),
            }
            tokio::time::sleep(super::maintenance::about(COUNT_EVERY)).await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = round => {}
        }
    }
}
