//! A collector of spans over OTLP/HTTP that keeps what it was sent.

use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Known;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};

use crate::arrivals::Arrivals;
use crate::lock::locked;
use crate::loopback::Loopback;
use crate::request::RecordedRequest;

/// A collector on loopback.
#[derive(Debug)]
pub struct Collector {
    server: Loopback,
    desk: Arc<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    spans: Mutex<Vec<Value>>,
    /// Answered to everything instead of taking it.
    refuses: Mutex<Option<u16>>,
    arrivals: Arrivals,
}

impl Collector {
    /// Starts a collector.
    ///
    /// # Errors
    /// No free port.
    pub async fn start() -> io::Result<Self> {
        let desk = Arc::<Desk>::default();
        let router = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&desk));
        Ok(Self { server: Loopback::serve(router).await?, desk })
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.url()
    }

    /// From now on it answers everything with this status and takes nothing; `None`: it takes what comes.
    pub fn refuse(&self, status: Option<u16>) {
        *locked(&self.desk.refuses) = status;
    }

    /// Every span so far in OTLP's JSON form, repeated ones included, in order of arrival.
    #[must_use]
    pub fn spans(&self) -> Vec<Value> {
        locked(&self.desk.spans).clone()
    }

    /// Returns when `wanted` requests have come, refused ones included.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn asked(&self, wanted: usize) {
        self.desk.arrivals.reached(wanted, "requests to the collector").await;
    }
}

async fn take(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    let Some(request) = RecordedRequest::read(request).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let refused = *locked(&desk.refuses);
    if let Some(status) = refused {
        desk.arrivals.add();
        return StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE).into_response();
    }
    let Ok(sent) = ExportTraceServiceRequest::decode(request.body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let scopes = sent.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    locked(&desk.spans).extend(scopes.flat_map(|scope| scope.spans).map(|span| shown(&span)));
    desk.arrivals.add();
    let answer = ExportTraceServiceResponse::default().encode_to_vec();
    ([(header::CONTENT_TYPE, "application/x-protobuf")], answer).into_response()
}

/// A span as OTLP's JSON has it.
fn shown(span: &Span) -> Value {
    let mut shown = json!({
        "traceId": hex(&span.trace_id), "spanId": hex(&span.span_id), "name": span.name, "kind": span.kind,
        "startTimeUnixNano": span.start_time_unix_nano.to_string(),
        "endTimeUnixNano": span.end_time_unix_nano.to_string(),
        "attributes": span.attributes.iter().map(attribute).collect::<Vec<_>>(), "status": {},
    });
    if !span.parent_span_id.is_empty() {
        shown["parentSpanId"] = json!(hex(&span.parent_span_id));
    }
    if let Some(status) = span.status.as_ref().filter(|status| status.code != 0) {
        shown["status"] = json!({"code": status.code, "message": status.message});
    }
    if !span.links.is_empty() {
        let links = span.links.iter();
        shown["links"] =
            links.map(|link| json!({"traceId": hex(&link.trace_id), "spanId": hex(&link.span_id)})).collect();
    }
    shown
}

fn attribute(attribute: &KeyValue) -> Value {
    json!({"key": attribute.key, "value": attribute.value.as_ref().map(any)})
}

fn any(value: &AnyValue) -> Value {
    match &value.value {
        Some(Known::StringValue(text)) => json!({"stringValue": text}),
        Some(Known::BoolValue(flag)) => json!({"boolValue": flag}),
        Some(Known::IntValue(number)) => json!({"intValue": number.to_string()}),
        Some(Known::DoubleValue(number)) => json!({"doubleValue": number}),
        Some(Known::ArrayValue(array)) => {
            json!({"arrayValue": {"values": array.values.iter().map(any).collect::<Vec<_>>()}})
        }
        other => panic!("no attribute is {other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
