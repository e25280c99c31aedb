//! Who reads the instruments: whoever asks for `/metrics`, and a collector where one is named.

use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::Registry;

use crate::MetricsError;
use crate::otlp::PushedMetrics;

/// The provider of all instruments.
pub(crate) fn provider(
    registry: &Registry,
    push: Option<PushedMetrics>,
) -> Result<SdkMeterProvider, MetricsError> {
    let exporter = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .without_target_info()
        .scope_info_enabled(false)
        .build()
        .map_err(|error| MetricsError(error.to_string()))?;
    let builder = SdkMeterProvider::builder().with_reader(exporter);
    Ok(match push {
        None => builder.build(),
        Some(push) => builder.with_resource(push.resource.clone()).with_reader(push.into_reader()).build(),
    })
}
