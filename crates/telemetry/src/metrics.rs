//! Metrics, taken from the rows that are committed: what isn't true isn't counted.

use std::time::Duration;

use answerable_core::run::{EventType, Record, StepModel};
use answerable_ports::Observer;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Encoder as _, Registry, TextEncoder};
use serde_json::Value;

/// Bounds in seconds, from a commit to a long tool call.
const SECONDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0];
/// Bounds of the GenAI conventions for tokens.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Metrics can't be set up or read out.
#[derive(Debug, thiserror::Error)]
#[error("metrics: {0}")]
pub struct MetricsError(String);

/// What is true at the moment of reading out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gauges {
    /// Runs that this process works on.
    pub running: u64,
    /// Connections to the database in use.
    pub connections_in_use: u64,
    /// Connections to the database.
    pub connections: u64,
}

/// The instruments.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Keeps the instruments alive.
    _provider: SdkMeterProvider,
    runs: Counter<u64>,
    steps: Counter<u64>,
    commit_seconds: Histogram<f64>,
    commit_failures: Counter<u64>,
    model_seconds: Histogram<f64>,
    model_tokens: Histogram<u64>,
    model_failures: Counter<u64>,
    tool_seconds: Histogram<f64>,
    decisions: Counter<u64>,
    approvals: Counter<u64>,
    takeovers: Counter<u64>,
    leases_lost: Counter<u64>,
    request_seconds: Histogram<f64>,
    running: Gauge<u64>,
    connections: Gauge<u64>,
}

impl Metrics {
    /// Makes the instruments.
    ///
    /// # Errors
    /// Two instruments have one name.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_target_info()
            .scope_info_enabled(false)
            .build()
            .map_err(|error| MetricsError(error.to_string()))?;
        let provider = SdkMeterProvider::builder().with_reader(exporter).build();
        let meter = provider.meter("answerable");
        let seconds = |name: &'static str, about: &'static str| {
            meter
                .f64_histogram(name)
                .with_unit("s")
                .with_description(about)
                .with_boundaries(SECONDS.to_vec())
                .build()
        };
        let counter =
            |name: &'static str, about: &'static str| meter.u64_counter(name).with_description(about).build();
        let gauge =
            |name: &'static str, about: &'static str| meter.u64_gauge(name).with_description(about).build();
        Ok(Self {
            runs: counter("answerable.runs", "Runs accepted, and runs ended by reason"),
            steps: counter("answerable.steps", "Steps begun"),
            commit_seconds: seconds("answerable.commit.duration", "Time that the store takes for a commit"),
            commit_failures: counter(
                "answerable.commit.failures",
                "Commits that came to nothing and were sent again",
            ),
            model_seconds: seconds("gen_ai.client.operation.duration", "Time of model calls"),
            model_tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_description("Tokens of model calls")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            model_failures: counter("answerable.model.failures", "Attempts on models that came to nothing"),
            tool_seconds: seconds("answerable.tool.duration", "Time of tool calls, by how they ended"),
            decisions: counter("answerable.permission.decisions", "Decisions of the permission gate"),
            approvals: counter("answerable.approvals", "Approvals asked for and decided"),
            takeovers: counter("answerable.lease.takeovers", "Runs taken over from dead servers"),
            leases_lost: counter("answerable.lease.lost", "Leases lost or given up"),
            request_seconds: seconds("http.server.request.duration", "Time of requests to the API"),
            running: gauge("answerable.runs.running", "Runs that this process works on"),
            connections: gauge("answerable.db.connections", "Connections to the database"),
            registry,
            _provider: provider,
        })
    }

    /// All metrics in Prometheus' text form.
    ///
    /// # Errors
    /// They can't be encoded.
    pub fn text(&self, gauges: Gauges) -> Result<String, MetricsError> {
        self.running.record(gauges.running, &[]);
        self.connections.record(gauges.connections_in_use, &[KeyValue::new("state", "used")]);
        let idle = gauges.connections.saturating_sub(gauges.connections_in_use);
        self.connections.record(idle, &[KeyValue::new("state", "idle")]);
        let mut out = Vec::new();
        TextEncoder::new()
            .encode(&self.registry.gather(), &mut out)
            .map_err(|error| MetricsError(error.to_string()))?;
        String::from_utf8(out).map_err(|error| MetricsError(error.to_string()))
    }

    /// A request to the API was answered; `route` is the path's template.
    pub fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        let labels = [
            KeyValue::new("http.request.method", method.to_owned()),
            KeyValue::new("http.route", route.to_owned()),
            KeyValue::new("http.response.status_code", i64::from(status)),
        ];
        self.request_seconds.record(took.as_secs_f64(), &labels);
    }

    fn event(&self, kind: EventType, data: &Value) {
        let word = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or("none").to_owned();
        match kind {
            EventType::StepStarted => self.steps.add(1, &[]),
            EventType::RunStarted => self.runs.add(1, &[KeyValue::new("status", "started")]),
            EventType::RunFinished | EventType::RunFailed | EventType::RunCancelled => {
                let labels = [
                    KeyValue::new("status", word("status")),
                    KeyValue::new("stop_reason", word("stop_reason")),
                ];
                self.runs.add(1, &labels);
            }
            EventType::PermissionDecided => self.decisions.add(1, &[KeyValue::new("effect", word("effect"))]),
            EventType::ApprovalRequested => self.approvals.add(1, &[KeyValue::new("status", "requested")]),
            EventType::ApprovalDecided => self.approvals.add(1, &[KeyValue::new("status", word("status"))]),
            EventType::ModelFailed => self.model_failures.add(1, &[]),
            EventType::ToolCompleted => {
                let ms = data.get("duration_ms").and_then(Value::as_u64).unwrap_or(0);
                let labels = [
                    KeyValue::new("status", word("status")),
                    KeyValue::new("error_code", word("error_code")),
                ];
                self.tool_seconds.record(Duration::from_millis(ms).as_secs_f64(), &labels);
            }
            _ => {}
        }
    }

    fn model(&self, model: &StepModel) {
        if model.failure.is_some() {
            return;
        }
        let name = KeyValue::new("gen_ai.request.model", model.model.clone());
        self.model_seconds
            .record(Duration::from_millis(model.duration_ms).as_secs_f64(), std::slice::from_ref(&name));
        for (kind, tokens) in [("input", model.input_tokens), ("output", model.output_tokens)] {
            self.model_tokens.record(tokens, &[name.clone(), KeyValue::new("gen_ai.token.type", kind)]);
        }
    }
}

impl Observer for Metrics {
    fn committed(&self, records: &[Record], took: Duration) {
        self.commit_seconds.record(took.as_secs_f64(), &[]);
        for record in records {
            match record {
                Record::Event { kind, data, .. } => self.event(*kind, data),
                Record::StepModel { model, .. } => self.model(model),
                _ => {}
            }
        }
    }

    fn commit_failed(&self) {
        self.commit_failures.add(1, &[]);
    }

    fn taken_over(&self) {
        self.takeovers.add(1, &[]);
    }

    fn lease_lost(&self) {
        self.leases_lost.add(1, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_committed_is_counted() {
        let metrics = Metrics::new().expect("instruments");
        let event = |kind, data| Record::Event { kind, step: None, data };
        let records = [
            event(EventType::StepStarted, json!({})),
            event(EventType::RunFailed, json!({"status": "failed", "stop_reason": "max_steps"})),
            event(
                EventType::ToolCompleted,
                json!({"status": "failed", "error_code": "TIMEOUT", "duration_ms": 30}),
            ),
        ];
        metrics.committed(&records, Duration::from_millis(3));
        metrics.taken_over();
        let text = metrics.text(Gauges { running: 3, connections_in_use: 2, connections: 5 }).expect("text");
        for line in [
            "answerable_steps_total 1",
            r#"answerable_runs_total{status="failed",stop_reason="max_steps"} 1"#,
            "answerable_commit_duration_seconds_count 1",
            r#"answerable_tool_duration_seconds_count{error_code="TIMEOUT",status="failed"} 1"#,
            "answerable_lease_takeovers_total 1",
            "answerable_runs_running 3",
            r#"answerable_db_connections{state="idle"} 3"#,
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is missing in\n{text}");
        }
    }
}
