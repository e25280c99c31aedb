//! Logs and metrics.
//!
//! Metrics are OpenTelemetry instruments read out in Prometheus' form. No run or tenant is a label: their number has no
//! limit.

mod logs;
mod metrics;

pub use logs::{LogFormat, LogsError, init_logs};
pub use metrics::{Gauges, Metrics, MetricsError};
