//! The server's measurements, as the API shows them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use answerable_store::Store;
use answerable_telemetry::{Gauges, Metrics};

/// Metrics, with what is true at the moment of reading.
pub(super) struct Measured {
    metrics: Arc<Metrics>,
    store: Store,
    running: OnceLock<Arc<AtomicUsize>>,
}

impl Measured {
    pub(super) fn new(metrics: Arc<Metrics>, store: Store) -> Self {
        Self { metrics, store, running: OnceLock::new() }
    }

    /// The engine has started; this is how many runs it works on.
    pub(super) fn watch(&self, running: Arc<AtomicUsize>) {
        // There is one engine a process.
        let _ = self.running.set(running);
    }
}

impl answerable_api::Metrics for Measured {
    fn text(&self) -> String {
        let (in_use, all) = self.store.pool_use();
        let running = self.running.get().map_or(0, |running| running.load(Ordering::Relaxed));
        let gauges = Gauges {
            running: u64::try_from(running).unwrap_or(u64::MAX),
            connections_in_use: in_use.into(),
            connections: all.into(),
        };
        self.metrics.text(gauges).unwrap_or_else(|error| {
            tracing::error!(%error, "metrics can't be read out");
            String::new()
        })
    }

    fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        self.metrics.answered(method, route, status, took);
    }
}
