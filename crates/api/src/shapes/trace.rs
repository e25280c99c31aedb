//! A run's trace in the JSON form of OTLP, which collectors and viewers read as it is.

use answerable_core::trace::{Span, SpanLink};
use answerable_store::RunTrace;
use serde_json::{Map, Value, json};

/// `ResourceSpans` of one run.
pub(crate) fn otlp(trace: &RunTrace) -> Value {
    let mut resource = Map::from_iter([("service.name".to_owned(), json!("answerable"))]);
    if trace.omitted > 0 {
        resource.insert("answerable.omitted_spans".into(), trace.omitted.into());
    }
    let spans: Vec<Value> = trace.spans.iter().map(|span| of_span(&trace.trace_id, span)).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes(&resource)},
        "scopeSpans": [{
            "scope": {"name": "answerable", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
        }],
    }]})
}

fn of_span(trace_id: &str, span: &Span) -> Value {
    // CLIENT and INTERNAL.
    let kind = if span.kind.is_client() { 3 } else { 1 };
    // A 64-bit integer is a string in OTLP's JSON.
    let mut shown = json!({
        "traceId": trace_id, "spanId": span.id.as_str(), "name": span.kind.name(), "kind": kind,
        "startTimeUnixNano": span.began_nanos().to_string(), "endTimeUnixNano": span.ended_nanos().to_string(),
        "attributes": attributes(&span.attributes), "status": {},
    });
    if let Some(parent) = &span.parent {
        shown["parentSpanId"] = json!(parent.as_str());
    }
    if let Some(error) = &span.error {
        shown["status"] = json!({"code": 2, "message": error});
    }
    if !span.links.is_empty() {
        let link = |link: &SpanLink| json!({"traceId": link.trace_id, "spanId": link.span_id.as_str()});
        shown["links"] = span.links.iter().map(link).collect();
    }
    shown
}

fn attributes(attributes: &Map<String, Value>) -> Vec<Value> {
    attributes.iter().map(|(key, value)| json!({"key": key, "value": any_value(value)})).collect()
}

fn any_value(value: &Value) -> Value {
    match value {
        Value::String(text) => json!({"stringValue": text}),
        Value::Bool(flag) => json!({"boolValue": flag}),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => json!({"intValue": integer.to_string()}),
            None => json!({"doubleValue": number.as_f64()}),
        },
        Value::Array(items) => {
            json!({"arrayValue": {"values": items.iter().map(any_value).collect::<Vec<_>>()}})
        }
        // No attribute is one of these.
        Value::Null | Value::Object(_) => json!({"stringValue": value.to_string()}),
    }
}

#[cfg(test)]
mod tests {
    use answerable_core::trace::{SpanId, SpanKind};

    use super::*;

    #[test]
    fn a_span_in_the_form_of_otlp() {
        let id = |digit: &str| SpanId::parse(&digit.repeat(16)).expect("an id");
        let attributes = json!({"a": "text", "b": 3, "c": 0.5, "d": true, "e": ["x"]});
        let span = Span {
            kind: SpanKind::Model,
            id: id("2"),
            parent: Some(id("3")),
            began: 1_700_000_000_001,
            ended: 1_700_000_000_002,
            error: Some("503".into()),
            attributes: attributes.as_object().cloned().unwrap_or_default(),
            links: vec![SpanLink { trace_id: "4".repeat(32), span_id: id("5") }],
        };
        let shown = otlp(&RunTrace { trace_id: "1".repeat(32), spans: vec![span], omitted: 2 });
        let one = &shown["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(
            *one,
            json!({
                "traceId": "1".repeat(32), "spanId": "2".repeat(16), "parentSpanId": "3".repeat(16),
                "name": "model.call", "kind": 3,
                "startTimeUnixNano": "1700000000001002000", "endTimeUnixNano": "1700000000002002000",
                "attributes": [
                    {"key": "a", "value": {"stringValue": "text"}}, {"key": "b", "value": {"intValue": "3"}},
                    {"key": "c", "value": {"doubleValue": 0.5}}, {"key": "d", "value": {"boolValue": true}},
                    {"key": "e", "value": {"arrayValue": {"values": [{"stringValue": "x"}]}}},
                ],
                "status": {"code": 2, "message": "503"},
                "links": [{"traceId": "4".repeat(32), "spanId": "5".repeat(16)}],
            })
        );
        let resource = &shown["resourceSpans"][0]["resource"]["attributes"];
        assert!(resource.to_string().contains(r#"{"intValue":"2"}"#), "{resource}");
    }
}
