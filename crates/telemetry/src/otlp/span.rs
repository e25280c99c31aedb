//! A span as it goes over the wire: the same bytes whoever sends it, and however often.

use answerable_core::trace::{Span, SpanKind, SpanLink};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind as ProtoKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span as ProtoSpan, SpanFlags, Status,
};

use super::value;

/// Bit 0 of W3C's flags: every span is kept.
const SAMPLED: u32 = 1;

/// Everything in one request, as the work of one service.
pub(crate) fn request(resource: Resource, spans: Vec<ProtoSpan>) -> ExportTraceServiceRequest {
    let scope = InstrumentationScope {
        name: "answerable".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans,
            ..ResourceSpans::default()
        }],
    }
}

/// A span of the trace `trace_id`.
pub(crate) fn span(trace_id: &str, span: &Span) -> ProtoSpan {
    // A run's caller is somebody else; whatever else has a parent is part of its run.
    let of_a_caller = span.kind == SpanKind::Agent && span.parent.is_some();
    let kind = if span.kind.is_client() { ProtoKind::Client } else { ProtoKind::Internal };
    ProtoSpan {
        trace_id: bytes(trace_id),
        span_id: bytes(span.id.as_str()),
        parent_span_id: span.parent.as_ref().map(|parent| bytes(parent.as_str())).unwrap_or_default(),
        flags: SAMPLED | remote(of_a_caller),
        name: span.kind.name().into(),
        kind: kind.into(),
        start_time_unix_nano: span.began_nanos(),
        end_time_unix_nano: span.ended_nanos(),
        attributes: value::attributes(&span.attributes),
        links: span.links.iter().map(link).collect(),
        status: span
            .error
            .as_ref()
            .map(|word| Status { message: word.clone(), code: StatusCode::Error.into() }),
        ..ProtoSpan::default()
    }
}

fn link(link: &SpanLink) -> Link {
    Link {
        trace_id: bytes(&link.trace_id),
        span_id: bytes(link.span_id.as_str()),
        flags: remote(true),
        ..Link::default()
    }
}

/// The flags that say whether a context came from another service.
fn remote(is_remote: bool) -> u32 {
    let known = SpanFlags::ContextHasIsRemoteMask as u32;
    if is_remote { known | SpanFlags::ContextIsRemoteMask as u32 } else { known }
}

/// The bytes of an id in hex; none where it isn't one, which no collector takes.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let pairs = digits.unwrap_or_default();
    pairs.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use answerable_core::trace::SpanId;
    use prost::Message as _;
    use serde_json::json;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn a_span(kind: SpanKind, parent: Option<&str>, error: Option<&str>) -> Span {
        let stored = json!({
            "kind": kind, "id": "00f067aa0ba902b7", "parent": parent, "began": 1_700_000_000_123_i64,
            "ended": 1_700_000_000_456_i64, "error": error,
            "attributes": {"gen_ai.usage.input_tokens": 12, "gen_ai.request.model": "m", "answerable.cost": 0.5},
            "links": [{"trace_id": "1234567890abcdef1234567890abcdef", "span_id": "fedcba0987654321"}]
        });
        serde_json::from_value(stored).expect("a span")
    }

    #[test]
    fn everything_of_a_span_is_in_it() {
        let sent = span(TRACE, &a_span(SpanKind::Model, Some("1111111111111111"), Some("timeout")));
        assert_eq!(
            sent.trace_id,
            [0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c]
        );
        assert_eq!(sent.span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert_eq!(sent.parent_span_id, [0x11; 8]);
        assert_eq!((sent.name.as_str(), sent.kind()), ("model.call", ProtoKind::Client));
        assert_eq!(
            (sent.start_time_unix_nano, sent.end_time_unix_nano),
            (1_700_000_000_123_002_000, 1_700_000_000_456_002_000)
        );
        let status = sent.status.expect("a status");
        assert_eq!((status.code(), status.message.as_str()), (StatusCode::Error, "timeout"));
        let names: Vec<&str> = sent.attributes.iter().map(|pair| pair.key.as_str()).collect();
        assert_eq!(names, ["answerable.cost", "gen_ai.request.model", "gen_ai.usage.input_tokens"]);
        assert_eq!(sent.links[0].span_id, [0xfe, 0xdc, 0xba, 0x09, 0x87, 0x65, 0x43, 0x21]);
        assert_eq!((sent.links[0].trace_id.len(), sent.links[0].flags), (16, 0x300));
    }

    #[test]
    fn only_a_runs_caller_is_elsewhere() {
        for (kind, parent, flags, proto) in [
            (SpanKind::Agent, None, 0x101, ProtoKind::Internal),
            (SpanKind::Agent, Some("1111111111111111"), 0x301, ProtoKind::Internal),
            (SpanKind::Tool, Some("1111111111111111"), 0x101, ProtoKind::Internal),
            (SpanKind::Model, Some("1111111111111111"), 0x101, ProtoKind::Client),
        ] {
            let sent = span(TRACE, &a_span(kind, parent, None));
            assert_eq!((sent.flags, sent.kind(), sent.status), (flags, proto, None), "{kind:?}");
            assert_eq!(sent.parent_span_id.is_empty(), parent.is_none());
        }
    }

    #[test]
    fn a_span_that_was_stored_and_read_again_has_the_same_bytes() {
        let first = a_span(SpanKind::Tool, Some("1111111111111111"), Some("denied"));
        let stored = serde_json::to_string(&first).expect("stored");
        let again: Span = serde_json::from_str(&stored).expect("read");
        assert_eq!(span(TRACE, &first).encode_to_vec(), span(TRACE, &again).encode_to_vec());
    }

    #[test]
    fn what_is_no_id_has_no_bytes() {
        for text in ["", "xyz0", "é0"] {
            assert_eq!(bytes(text), [0_u8; 0], "{text}");
        }
        assert_eq!(bytes(SpanId::of(&["a"]).as_str()).len(), 8);
    }
}
