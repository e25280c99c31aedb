//! All that `/metrics` can tell.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use answerable_core::run::{ApprovalKind, EventType, Record};
use answerable_core::trace::Span;
use answerable_ports::{Committed, Gauges, Observer as _, SpanBacklog, Started, Waiting};
use serde_json::{Value, json};

use crate::Metrics;
use crate::otlp::ExportStats;

/// Families by name, with the labels that they have.
pub(super) fn told() -> BTreeMap<String, BTreeSet<String>> {
    let metrics = Metrics::new(None).expect("instruments");
    let records = [
        event(EventType::RunStarted, json!({})),
        event(EventType::RunFailed, json!({"status": "failed", "stop_reason": "model_error"})),
        event(EventType::ApprovalRequested, json!({})),
        event(EventType::ToolCompleted, json!({"status": "succeeded"})),
    ];
    let second = Duration::from_secs(1);
    metrics.committed(&Committed {
        records: &records,
        spans: &[spans()],
        took: second,
        started: Some(Started { after_accepted: second, after_claimed: second }),
        step_took: Some(second),
    });
    let waiting = Waiting { count: 1, longest: second };
    metrics.counted(Gauges {
        queue: waiting,
        approvals: [ApprovalKind::ToolCall, ApprovalKind::UncertainEffect, ApprovalKind::Budget]
            .map(|kind| (kind, waiting)),
        uncertain: waiting,
        deliveries: waiting,
    });
    metrics.answered("GET", "/v1/runs", 200, second);
    ExportStats::new(&metrics.meter()).backlog(SpanBacklog { waiting: 1, oldest_ms: 1 });
    read(&metrics.text().expect("text"))
}

fn event(kind: EventType, data: Value) -> Record {
    Record::Event { kind, step: None, data }
}

fn spans() -> Vec<Span> {
    let span = |kind: &str, error: Option<&str>, attributes: &Value| -> Span {
        let span = json!({"kind": kind, "id": "00000000000000aa", "began": 0, "ended": 1, "error": error,
            "attributes": attributes});
        serde_json::from_value(span).expect("a span")
    };
    let asked = json!({"gen_ai.provider.name": "openai", "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 1, "answerable.cost_microusd": 1});
    vec![span("model", None, &asked), span("model", Some("429"), &asked), span("agent", None, &json!({}))]
}

fn read(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut families: BTreeMap<String, BTreeSet<String>> =
        types.map(|(name, _)| (name.to_owned(), BTreeSet::new())).collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = line.split_once('{').unwrap_or((line, ""));
        let parts = ["", "_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
        let names: Vec<String> = parts.map(str::to_owned).collect();
        let labels = labels.split('"').step_by(2).filter_map(|part| part.strip_suffix('='));
        let labels: Vec<String> = labels.map(|label| label.trim_start_matches(',').to_owned()).collect();
        if let Some(family) = names.iter().find(|name| families.contains_key(*name)) {
            families.get_mut(family).expect("it is there").extend(labels);
        }
    }
    families
}
