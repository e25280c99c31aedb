//! Export of spans and metrics. What is wrong with where they go stops the start, before anything else has begun.

use std::sync::Arc;
use std::time::Duration;

use answerable_store::Store;
use answerable_telemetry::Metrics;
use answerable_telemetry::otlp::{self, ExportStats, Pace, PushedMetrics, SpanExporter};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Failure;
use crate::config::Telemetry;

/// Time for the last metrics.
const LAST_METRICS: Duration = Duration::from_secs(2);

/// Metrics as they are to be made: with a collector or without.
pub(super) fn metrics(telemetry: &Telemetry, server: Uuid) -> Result<Metrics, Failure> {
    let pushed = telemetry.metrics.as_ref().map(|target| {
        PushedMetrics::new(target, &telemetry.service, &server.to_string(), telemetry.metrics_every)
    });
    let pushed = pushed.transpose().map_err(|error| unusable("metrics", &error))?;
    Metrics::new(pushed).map_err(Failure::new)
}

/// Sends the last metrics, if they are sent at all.
pub(super) async fn end_metrics(telemetry: &Telemetry, metrics: Arc<Metrics>) {
    if telemetry.metrics.is_some() {
        let closing = tokio::task::spawn_blocking(move || metrics.close());
        // A collector that doesn't answer holds up no end.
        let _ = tokio::time::timeout(LAST_METRICS, closing).await;
    }
}

/// The export of spans, ready to begin.
pub(super) struct Spans {
    exporter: SpanExporter,
    pace: Pace,
}

impl Spans {
    /// `None`: spans go nowhere.
    pub(super) fn new(telemetry: &Telemetry) -> Result<Option<Self>, Failure> {
        let Some(target) = &telemetry.spans else { return Ok(None) };
        let exporter =
            SpanExporter::new(target, &telemetry.service).map_err(|error| unusable("spans", &error))?;
        let pace =
            Pace { every: telemetry.spans_every, batch: telemetry.spans_batch, backlog: telemetry.backlog };
        Ok(Some(Self { exporter, pace }))
    }

    /// Begins to empty the outbox, until `stop`.
    pub(super) fn start(&self, store: &Store, metrics: &Metrics, stop: &CancellationToken) -> JoinHandle<()> {
        let stats = Arc::new(ExportStats::new(&metrics.meter()));
        let (exporter, outbox) = (self.exporter.clone(), Arc::new(store.clone()));
        tokio::spawn(otlp::run(outbox, exporter, self.pace, stop.clone(), stats))
    }
}

fn unusable(what: &str, error: &otlp::TargetError) -> Failure {
    Failure::misconfigured(format!("{what} can't be exported as the OTEL_* variables say: {error}"))
}
