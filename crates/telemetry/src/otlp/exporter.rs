//! Sends batches of spans in requests.

use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span as ProtoSpan;
use prost::Message as _;

use answerable_ports::SpanBatch;

use super::service::Service;
use super::span;
use super::target::{Target, TargetError};
use super::wire::{NotTaken, Taken, Wire};

/// The spans of one commit, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    /// Its number in the outbox.
    pub(crate) number: i64,
    /// What is sent.
    pub(crate) spans: Vec<ProtoSpan>,
    /// Their length in a request, more or less.
    pub(crate) bytes: usize,
}

impl Parcel {
    pub(crate) fn of(batch: &SpanBatch) -> Self {
        let spans: Vec<ProtoSpan> =
            batch.spans.iter().map(|span| span::span(&batch.trace_id, span)).collect();
        let bytes = spans.iter().map(ProtoSpan::encoded_len).sum();
        Self { number: batch.number, spans, bytes }
    }

    /// How many spans there are in all.
    pub(crate) fn spans_of(parcels: &[Self]) -> u64 {
        parcels.iter().map(|parcel| u64::try_from(parcel.spans.len()).unwrap_or(u64::MAX)).sum()
    }
}

/// What takes parcels, all of them in one request.
pub(crate) trait Sink: Send + Sync {
    fn send(&self, parcels: &[Parcel]) -> impl Future<Output = Result<Taken, NotTaken>> + Send;
}

/// Exports spans to a collector.
#[derive(Debug, Clone)]
pub struct SpanExporter {
    wire: Wire,
    resource: Resource,
    shown: String,
}

impl SpanExporter {
    /// An exporter for spans of `service`. It connects with the first request. To be made within a runtime, after the
    /// process has chosen its cryptography.
    ///
    /// # Errors
    /// The target can't be spoken to as it is described.
    pub fn new(target: &Target, service: &Service) -> Result<Self, TargetError> {
        Ok(Self { wire: Wire::new(target)?, resource: service.of_spans(), shown: target.shown() })
    }

    /// Where it sends to, for logs.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }
}

impl Sink for SpanExporter {
    async fn send(&self, parcels: &[Parcel]) -> Result<Taken, NotTaken> {
        let spans = parcels.iter().flat_map(|parcel| parcel.spans.iter().cloned()).collect();
        self.wire.send(span::request(self.resource.clone(), spans)).await
    }
}
