//! Metrics, taken from the rows and spans that are committed: what isn't true isn't counted.

mod bounds;
mod gauges;
mod instruments;
mod labels;
mod operations;
mod rows;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use answerable_ports::{Committed, Gauges, Observer};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Encoder as _, Registry, TextEncoder};

pub use gauges::Process;
use gauges::Watched;
use instruments::Instruments;
use operations::Names;

use crate::otlp::PushedMetrics;
use crate::provider::provider;

/// Metrics can't be set up or read out.
#[derive(Debug, thiserror::Error)]
#[error("metrics: {0}")]
pub struct MetricsError(pub(crate) String);

/// The metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Keeps the instruments alive.
    provider: SdkMeterProvider,
    instruments: Instruments,
    watched: Arc<Watched>,
    names: Names,
}

impl Metrics {
    /// Makes the instruments. They can be read out; with `push` they are also sent to a collector.
    ///
    /// # Errors
    /// Two instruments have one name.
    pub fn new(push: Option<PushedMetrics>) -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let provider = provider(&registry, push)?;
        let meter = provider.meter("answerable");
        let (instruments, watched) = (Instruments::of(&meter), Watched::of(&meter));
        Ok(Self { registry, provider, instruments, watched, names: Names::default() })
    }

    /// For instruments that are made elsewhere and read out with these.
    pub fn meter(&self) -> Meter {
        self.provider.meter("answerable")
    }

    /// This tells what is true of the process whenever the metrics are read out. The first one stands.
    pub fn watch(&self, process: impl Fn() -> Process + Send + Sync + 'static) {
        self.watched.ask(Box::new(process));
    }

    /// What was just counted in the database.
    pub fn counted(&self, gauges: Gauges) {
        self.watched.count(gauges);
    }

    /// All metrics in Prometheus' text form.
    ///
    /// # Errors
    /// They can't be encoded.
    pub fn text(&self) -> Result<String, MetricsError> {
        let mut out = Vec::new();
        TextEncoder::new()
            .encode(&self.registry.gather(), &mut out)
            .map_err(|error| MetricsError(error.to_string()))?;
        String::from_utf8(out).map_err(|error| MetricsError(error.to_string()))
    }

    /// Sends what was counted last to the collector, if there is one, and ends: nothing can be read out any more. Blocks
    /// until the collector has answered, or for five seconds.
    pub fn close(&self) {
        // What went wrong was logged by whoever sends.
        let _ = self.provider.shutdown();
    }

    /// A request to the API was answered; `route` is the path's template, empty where none fits.
    pub fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        let mut labels = vec![
            KeyValue::new("http.request.method", labels::method(method)),
            KeyValue::new("http.response.status_code", i64::from(status)),
        ];
        if !route.is_empty() {
            labels.push(KeyValue::new("http.route", route.to_owned()));
        }
        self.instruments.request_seconds.record(took.as_secs_f64(), &labels);
    }

    /// A request, or a stream, was turned away.
    pub fn shed(&self, reason: &'static str) {
        self.instruments.shed.add(1, &[KeyValue::new("reason", reason)]);
    }
}

impl Observer for Metrics {
    fn committed(&self, committed: &Committed<'_>) {
        let instruments = &self.instruments;
        instruments.commit_seconds.record(committed.took.as_secs_f64(), &[]);
        if let Some(started) = &committed.started {
            instruments.accepted_to_start.record(started.after_accepted.as_secs_f64(), &[]);
            instruments.claim_to_start.record(started.after_claimed.as_secs_f64(), &[]);
        }
        if let Some(took) = committed.step_took {
            instruments.step_seconds.record(took.as_secs_f64(), &[]);
        }
        committed.records.iter().for_each(|record| instruments.row(record));
        committed.spans.iter().flatten().for_each(|span| instruments.span(span, &self.names));
    }

    fn commit_failed(&self) {
        self.instruments.commit_failures.add(1, &[]);
    }

    fn taken_over(&self) {
        self.instruments.takeovers.add(1, &[]);
    }

    fn lease_lost(&self) {
        self.instruments.leases_lost.add(1, &[]);
    }
}
