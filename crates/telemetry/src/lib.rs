//! Logs and metrics.
//!
//! Metrics are OpenTelemetry instruments read out in Prometheus' form, and sent to a collector where one is named. No run
//! or tenant is a label: their number has no limit. Spans are exported out of the store's outbox ([`otlp`]).

#[cfg(test)]
mod deployed;
mod logs;
mod metrics;
pub mod otlp;
mod provider;

pub use logs::{LogFormat, LogsError, init_logs};
pub use metrics::{Metrics, MetricsError, Process};
