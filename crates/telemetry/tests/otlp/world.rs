//! An outbox, a receiver, and the task between them.

use std::sync::Arc;
use std::time::Duration;

use answerable_ports::SpanBatch;
use answerable_telemetry::Metrics;
use answerable_telemetry::otlp::{self, ExportStats, Pace, Protocol, Service, SpanExporter, Target};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::outbox::Outbox;
use crate::receiver::Receiver;

pub(crate) struct World {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) receiver: Receiver,
    pub(crate) metrics: Metrics,
    pub(crate) stop: CancellationToken,
}

/// Few at a time, and often.
pub(crate) const PACE: Pace = Pace { every: Duration::from_millis(20), batch: 8, backlog: 1000 };

pub(crate) fn target(receiver: &Receiver, grpc: bool) -> Target {
    // Fails where it is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let path = if grpc { "" } else { "/v1/traces" };
    Target {
        endpoint: format!("{}{path}", receiver.url).parse().expect("a URL"),
        protocol: if grpc { Protocol::Grpc } else { Protocol::Http },
        headers: vec![(http::HeaderName::from_static("x-key"), "hush".into())],
        timeout: Duration::from_millis(500),
        gzip: false,
        certificate: None,
    }
}

pub(crate) fn service() -> Service {
    Service::new(Some("desk".into()), [("team".to_owned(), "shop".to_owned())])
}

impl World {
    pub(crate) async fn new(grpc: bool, batches: Vec<SpanBatch>) -> Self {
        Self {
            outbox: Outbox::of(batches),
            receiver: Receiver::start(grpc).await,
            metrics: Metrics::new(None).expect("instruments"),
            stop: CancellationToken::new(),
        }
    }

    /// Starts the task.
    pub(crate) fn export(&self, target: &Target, pace: Pace) -> JoinHandle<()> {
        let exporter = SpanExporter::new(target, &service()).expect("an exporter");
        let stats = Arc::new(ExportStats::new(&self.metrics.meter()));
        tokio::spawn(otlp::run(self.outbox.clone(), exporter, pace, self.stop.clone(), stats))
    }

    /// The value of a metric, as it is read out.
    pub(crate) fn measured(&self, line: &str) -> Option<f64> {
        let text = self.metrics.text().expect("text");
        let found = text.lines().find_map(|known| known.strip_prefix(line)?.strip_prefix(' '));
        found.and_then(|value| value.parse().ok())
    }
}
