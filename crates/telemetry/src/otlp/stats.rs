//! How the export goes.

use answerable_ports::SpanBacklog;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Meter};

/// Counters and gauges of the export of spans.
#[derive(Debug)]
pub struct ExportStats {
    exported: Counter<u64>,
    dropped: Counter<u64>,
    failures: Counter<u64>,
    backlog: Gauge<u64>,
    backlog_age: Gauge<f64>,
}

/// Why something isn't exported and never will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// The collector doesn't want these spans.
    Refused,
    /// More commits waited than are kept.
    Backlog,
    /// Their runs' journals are gone, and the spans with them.
    Pruned,
}

impl Dropped {
    fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Backlog => "backlog",
            Self::Pruned => "pruned",
        }
    }
}

impl ExportStats {
    /// Makes the instruments.
    pub fn new(meter: &Meter) -> Self {
        let counter =
            |name: &'static str, about: &'static str| meter.u64_counter(name).with_description(about).build();
        let stats = Self {
            exported: counter("answerable.trace.exported", "Spans that the collector has"),
            dropped: counter(
                "answerable.trace.dropped",
                "Not exported and never to be: spans that the collector refused, commits over the backlog or whose journal is gone",
            ),
            failures: counter("answerable.trace.export.failures", "Rounds of export that came to nothing"),
            backlog: meter
                .u64_gauge("answerable.trace.backlog")
                .with_description("Commits whose spans wait to be exported, of all servers")
                .build(),
            backlog_age: meter
                .f64_gauge("answerable.trace.backlog.age")
                .with_unit("s")
                .with_description("Age of the oldest of them")
                .build(),
        };
        // They begin at zero, so that the first time is seen as a rise.
        stats.exported.add(0, &[]);
        stats.failures.add(0, &[]);
        for reason in [Dropped::Refused, Dropped::Backlog, Dropped::Pruned] {
            stats.dropped.add(0, &[KeyValue::new("reason", reason.word())]);
        }
        stats
    }

    pub(crate) fn exported(&self, spans: u64) {
        self.exported.add(spans, &[]);
    }

    pub(crate) fn dropped(&self, why: Dropped, count: u64) {
        if count > 0 {
            self.dropped.add(count, &[KeyValue::new("reason", why.word())]);
        }
    }

    pub(crate) fn failed(&self) {
        self.failures.add(1, &[]);
    }

    #[expect(clippy::cast_precision_loss, reason = "an age of that many milliseconds is none")]
    pub(crate) fn backlog(&self, backlog: SpanBacklog) {
        self.backlog.record(backlog.waiting, &[]);
        self.backlog_age.record(backlog.oldest_ms as f64 / 1000.0, &[]);
    }
}
