//! Metrics are pushed beside being read out.

use std::time::Duration;

use answerable_core::run::ApprovalKind;
use answerable_ports::{Gauges, Waiting};
use answerable_telemetry::Metrics;
use answerable_telemetry::otlp::PushedMetrics;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;

use crate::receiver::{Answer, Got, Receiver};
use crate::world::{service, target};

fn pushed(receiver: &Receiver, grpc: bool, every: Duration) -> Metrics {
    let mut target = target(receiver, grpc);
    if !grpc {
        target.endpoint.set_path("/v1/metrics");
    }
    let push = PushedMetrics::new(&target, &service(), "srv-1", every).expect("a target");
    Metrics::new(Some(push)).expect("instruments")
}

fn gauges() -> Gauges {
    let waiting = Waiting { count: 3, longest: Duration::from_secs(9) };
    let approvals = [ApprovalKind::ToolCall, ApprovalKind::UncertainEffect, ApprovalKind::Budget];
    let approvals = approvals.map(|kind| (kind, waiting));
    Gauges { queue: waiting, approvals, uncertain: waiting, deliveries: waiting }
}

fn decoded(got: &Got) -> ExportMetricsServiceRequest {
    ExportMetricsServiceRequest::decode(got.body.clone()).expect("metrics")
}

#[tokio::test(flavor = "multi_thread")]
async fn they_arrive_over_both_wires_and_can_still_be_read_out() {
    for grpc in [false, true] {
        let receiver = Receiver::start(grpc).await;
        let metrics = pushed(&receiver, grpc, Duration::from_millis(30));
        metrics.answered("GET", "/v1/runs", 200, Duration::from_millis(3));
        metrics.counted(gauges());
        receiver.until(2).await;
        let request = decoded(receiver.got().last().expect("a request"));
        let of_resource = &request.resource_metrics[0];
        let mut pairs: Vec<(String, Option<Value>)> =
            (of_resource.resource.clone().expect("a resource").attributes)
                .into_iter()
                .map(|pair| (pair.key, pair.value.and_then(|value| value.value)))
                .collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        let text = |name: &str, value: &str| (name.to_owned(), Some(Value::StringValue(value.into())));
        let version = env!("CARGO_PKG_VERSION");
        let expected = [
            text("service.instance.id", "srv-1"),
            text("service.name", "desk"),
            text("service.version", version),
            text("team", "shop"),
        ];
        assert_eq!(pairs, expected);
        let names: Vec<&str> = of_resource
            .scope_metrics
            .iter()
            .flat_map(|of| &of.metrics)
            .map(|metric| metric.name.as_str())
            .collect();
        // Counted, measured, and asked for at that moment.
        for name in ["answerable.queue.depth", "http.server.request.duration", "answerable.runs.running"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        let read = metrics.text().expect("text");
        assert!(read.contains("http_server_request_duration_seconds_count"), "{read}");
        assert!(!read.contains("target_info"), "{read}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_counts_leave_at_the_end_and_a_dead_collector_holds_nobody_up() {
    let receiver = Receiver::start(true).await;
    let metrics = pushed(&receiver, true, Duration::from_secs(3600));
    metrics.answered("GET", "/v1/runs", 200, Duration::from_millis(3));
    tokio::task::spawn_blocking(move || metrics.close()).await.expect("it ends");
    assert_eq!(receiver.got().len(), 1);
    let metrics = pushed(&receiver, true, Duration::from_secs(3600));
    receiver.answers(|_| Answer::Nothing);
    metrics.answered("GET", "/v1/runs", 200, Duration::from_millis(3));
    tokio::task::spawn_blocking(move || metrics.close()).await.expect("it ends");
    assert_eq!(receiver.got().len(), 2);
}
