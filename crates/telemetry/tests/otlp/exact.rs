//! What arrives is what was stored, over both wires, and the same when it is sent again.

use answerable_telemetry::otlp::Target;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use crate::outbox::batch;
use crate::receiver::Got;
use crate::world::{PACE, World, target};

const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// The one request with commits 1 to 3.
async fn sent(grpc: bool, change: impl FnOnce(&mut Target)) -> Got {
    let world = World::new(grpc, (1..=3).map(batch).collect()).await;
    let mut target = target(&world.receiver, grpc);
    change(&mut target);
    let task = world.export(&target, PACE);
    world.outbox.until(0).await;
    world.stop.cancel();
    task.await.expect("it ends");
    assert_eq!(world.measured("answerable_trace_exported_total"), Some(6.0));
    let mut got = world.receiver.got();
    assert_eq!(got.len(), 1, "three commits are one request");
    got.remove(0)
}

fn decoded(got: &Got) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest::decode(got.body.clone()).expect("a request")
}

fn text(value: &str) -> Option<Value> {
    Some(Value::StringValue(value.into()))
}

fn attribute(span: &Span, name: &str) -> Option<Value> {
    let found = span.attributes.iter().find(|pair| pair.key == name)?;
    found.value.clone()?.value
}

fn exact(request: &ExportTraceServiceRequest) {
    let [of_resource] = request.resource_spans.as_slice() else { panic!("one resource") };
    let resource = of_resource.resource.as_ref().expect("a resource");
    let pairs: Vec<(&str, Option<Value>)> =
        resource.attributes.iter().map(|p| (p.key.as_str(), p.value.clone().and_then(|v| v.value))).collect();
    let version = env!("CARGO_PKG_VERSION");
    let expected =
        [("service.name", text("desk")), ("service.version", text(version)), ("team", text("shop"))];
    assert_eq!(pairs, expected, "and nothing that tells which server it was");
    let [of_scope] = of_resource.scope_spans.as_slice() else { panic!("one scope") };
    let scope = of_scope.scope.as_ref().expect("a scope");
    assert_eq!((scope.name.as_str(), scope.version.as_str()), ("answerable", version));
    // Traces beside one another, and in them the commits in their order.
    let ids: Vec<u8> = of_scope.spans.iter().map(|span| span.span_id[7]).collect();
    assert_eq!(ids, [0x31, 0x32, 0x11, 0x12, 0x21, 0x22]);
    let span = &of_scope.spans[2];
    assert_eq!((span.name.as_str(), span.kind), ("model.call", 3));
    assert_eq!(span.trace_id, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(span.parent_span_id, [0, 0, 0, 0, 0, 0, 0, 0xff]);
    assert_eq!(span.start_time_unix_nano, 1_700_000_000_001_002_000);
    assert_eq!(span.end_time_unix_nano, 1_700_000_001_001_002_000);
    assert_eq!(attribute(span, "gen_ai.usage.input_tokens"), Some(Value::IntValue(1)));
    assert_eq!(attribute(span, "answerable.cost_usd"), Some(Value::DoubleValue(0.25)));
    assert_eq!(attribute(span, "answerable.cached"), Some(Value::BoolValue(false)));
    let reasons = ArrayValue { values: vec![AnyValue { value: text("stop") }] };
    assert_eq!(attribute(span, "gen_ai.response.finish_reasons"), Some(Value::ArrayValue(reasons)));
    assert_eq!(span.attributes.len(), 5);
    assert_eq!((of_scope.spans[3].name.as_str(), of_scope.spans[3].kind), ("tool.call", 1));
}

#[tokio::test]
async fn over_http() {
    let got = sent(false, |_| ()).await;
    exact(&decoded(&got));
    assert_eq!(got.path, "/v1/traces");
    assert_eq!(got.headers["content-type"], "application/x-protobuf");
    assert_eq!(
        (&got.headers["x-key"], got.headers.get("content-encoding")),
        (&"hush".parse().expect("v"), None)
    );
}

#[tokio::test]
async fn over_grpc() {
    let got = sent(true, |_| ()).await;
    exact(&decoded(&got));
    assert_eq!(got.path, GRPC_PATH);
    assert_eq!(
        (&got.headers["content-type"], &got.headers["te"]),
        (&"application/grpc".parse().expect("v"), &"trailers".parse().expect("v"))
    );
    assert_eq!(got.headers["x-key"], "hush");
    let agent = got.headers["user-agent"].to_str().expect("text");
    assert!(agent.starts_with("answerable/"), "{agent}");
}

#[tokio::test]
async fn zipped_over_both() {
    let http = sent(false, |target| target.gzip = true).await;
    exact(&decoded(&http));
    assert_eq!(http.headers["content-encoding"], "gzip");
    let grpc = sent(true, |target| target.gzip = true).await;
    exact(&decoded(&grpc));
    assert_eq!(grpc.headers["grpc-encoding"], "gzip");
}

#[tokio::test]
async fn both_wires_and_each_sending_have_the_same_bytes() {
    let first = sent(false, |_| ()).await;
    let again = sent(false, |_| ()).await;
    let other = sent(true, |_| ()).await;
    assert_eq!(first.body, again.body);
    assert_eq!(first.body, other.body);
}
