//! One export request, over whichever wire: what the collector took, or why it took nothing.
//!
//! The exporters of opentelemetry-otlp hide what we must know: whether a request may be sent again as it is, whether a
//! collector took a part of it only. So the requests are its messages, and the sending is here.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};

use super::grpc::Grpc;
use super::http::Http;
use super::target::{Protocol, Target, TargetError};

/// Characters of what a collector says.
const LONGEST_WORDS: usize = 200;

/// A signal's request.
pub(crate) trait Export: prost::Message + 'static {
    /// What answers it.
    type Answer: prost::Message + Default + 'static;
    /// The path of its gRPC method.
    const METHOD: &'static str;
    /// What the collector says of a part that it didn't take.
    fn taken(answer: Self::Answer) -> Taken;
}

/// A request arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Spans or data points out of it that the collector refused for good.
    pub(crate) rejected: u64,
    /// What it says to that, or a warning; empty if all is well.
    pub(crate) message: String,
}

impl Taken {
    fn new(rejected: i64, message: String) -> Self {
        Self { rejected: u64::try_from(rejected).unwrap_or(0), message: shortened(&message) }
    }
}

/// A request did not arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// It may be taken another time.
    NotNow {
        /// What went wrong.
        why: String,
        /// The collector asks for this pause.
        after: Option<Duration>,
    },
    /// It never will be, as it is.
    Refused(String),
}

impl NotTaken {
    pub(crate) fn not_now(why: impl Into<String>) -> Self {
        Self::NotNow { why: why.into(), after: None }
    }

    /// What went wrong.
    pub(crate) fn why(self) -> String {
        match self {
            Self::NotNow { why, .. } | Self::Refused(why) => why,
        }
    }
}

impl Export for ExportTraceServiceRequest {
    type Answer = ExportTraceServiceResponse;
    const METHOD: &'static str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

    fn taken(answer: Self::Answer) -> Taken {
        let part = answer.partial_success.unwrap_or_default();
        Taken::new(part.rejected_spans, part.error_message)
    }
}

impl Export for ExportMetricsServiceRequest {
    type Answer = ExportMetricsServiceResponse;
    const METHOD: &'static str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

    fn taken(answer: Self::Answer) -> Taken {
        let part = answer.partial_success.unwrap_or_default();
        Taken::new(part.rejected_data_points, part.error_message)
    }
}

/// The line to a collector.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    line: Line,
    timeout: Duration,
}

#[derive(Debug, Clone)]
enum Line {
    Http(Http),
    Grpc(Grpc),
}

impl Wire {
    /// Connects with the first request. Needs a runtime.
    pub(crate) fn new(target: &Target) -> Result<Self, TargetError> {
        let line = match target.protocol {
            Protocol::Http => Line::Http(Http::new(target)?),
            Protocol::Grpc => Line::Grpc(Grpc::new(target)?),
        };
        Ok(Self { line, timeout: target.timeout })
    }

    /// Sends a request once.
    pub(crate) async fn send<E: Export>(&self, request: E) -> Result<Taken, NotTaken> {
        let sending = async {
            match &self.line {
                Line::Http(http) => http.send(&request).await,
                Line::Grpc(grpc) => grpc.send(request).await,
            }
        };
        match tokio::time::timeout(self.timeout, sending).await {
            Ok(sent) => sent,
            Err(_) => Err(NotTaken::not_now(format!("no answer within {} ms", self.timeout.as_millis()))),
        }
    }
}

/// What a collector says, as far as it is logged: one line.
pub(crate) fn shortened(words: &str) -> String {
    words.trim().chars().filter(|c| !c.is_control()).take(LONGEST_WORDS).collect()
}

/// An error with what caused it, in one line: most say little by themselves.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
