//! Export to a collector by OpenTelemetry's protocol, over HTTP and gRPC: spans out of the outbox, metrics as they stand.
//!
//! A collector that is slow, away or wrong costs no run anything: spans wait in the outbox, whose length is bounded.

mod deliver;
mod export;
mod exporter;
mod grpc;
mod health;
mod http;
mod push;
mod service;
mod span;
mod stats;
mod target;
mod value;
mod wire;

pub use export::{LONGEST_TIMEOUT, Pace, run};
pub use exporter::SpanExporter;
pub use push::PushedMetrics;
pub use service::Service;
pub use stats::ExportStats;
pub use target::{Protocol, Target, TargetError};
