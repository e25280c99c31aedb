//! Metrics on their way to a collector.

use std::sync::Mutex;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, Temporality};
use tokio::runtime::Handle;

use super::health::Health;
use super::service::Service;
use super::target::{Target, TargetError};
use super::wire::Wire;

/// Metrics that are also sent to a collector, beside being read out.
#[derive(Debug)]
pub struct PushedMetrics {
    exporter: Exporter,
    every: Duration,
    pub(crate) resource: Resource,
}

impl PushedMetrics {
    /// Metrics of the server `instance`, sent to `target` each `every`. To be made within a runtime, after the
    /// process has chosen its cryptography.
    ///
    /// # Errors
    /// The target can't be spoken to as it is described.
    pub fn new(
        target: &Target,
        service: &Service,
        instance: &str,
        every: Duration,
    ) -> Result<Self, TargetError> {
        let wire = Wire::new(target)?;
        let exporter =
            Exporter { wire, runtime: Handle::current(), shown: target.shown(), collector: Mutex::default() };
        Ok(Self { exporter, every, resource: service.of_metrics(instance) })
    }

    pub(crate) fn into_reader(self) -> PeriodicReader<Exporter> {
        PeriodicReader::builder(self.exporter).with_interval(self.every).build()
    }
}

/// Sends on the service's runtime: the reader's own thread has none.
#[derive(Debug)]
pub(crate) struct Exporter {
    wire: Wire,
    runtime: Handle,
    shown: String,
    collector: Mutex<Health>,
}

impl PushMetricExporter for Exporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let (wire, request) = (self.wire.clone(), ExportMetricsServiceRequest::from(metrics));
        let sent = self.runtime.spawn(async move { wire.send(request).await }).await;
        let sent = sent.map_err(|_| OTelSdkError::AlreadyShutdown)?;
        let Ok(mut collector) = self.collector.lock() else { return Err(OTelSdkError::AlreadyShutdown) };
        match sent {
            Ok(taken) => {
                let away_s = collector.worked().map(|away| away.as_secs());
                if let Some(away_s) = away_s {
                    tracing::info!(collector = self.shown, away_s, "the collector takes metrics again");
                }
                if taken.rejected > 0 {
                    tracing::warn!(
                        collector = self.shown,
                        points = taken.rejected,
                        said = taken.message,
                        "the collector refused metrics"
                    );
                }
                Ok(())
            }
            Err(not_taken) => {
                let error = not_taken.why();
                // Sums count on: the next time says it all.
                if collector.failed() {
                    tracing::warn!(collector = self.shown, error, "the collector takes no metrics");
                }
                Err(OTelSdkError::InternalFailure(error))
            }
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}
