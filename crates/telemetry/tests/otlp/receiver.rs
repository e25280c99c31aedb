//! A collector in the test's process: it keeps each request, and answers as it is told.

use std::convert::Infallible;
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use flate2::read::GzDecoder;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A request as it came, its body unzipped and without gRPC's frame.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// It was taken.
    pub(crate) taken: bool,
}

/// What is answered.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Ok,
    Partly(i64, &'static str),
    /// An HTTP status with `Retry-After`, or a gRPC code.
    Status(u16, Option<&'static str>),
    /// Never.
    Nothing,
}

type Rule = Arc<dyn Fn(&[Span]) -> Answer + Send + Sync>;

pub(crate) struct Receiver {
    pub(crate) url: String,
    got: Arc<Mutex<Vec<Got>>>,
    count: watch::Receiver<usize>,
    rule: Arc<Mutex<Rule>>,
}

impl Receiver {
    /// One that speaks HTTP/1.1, or gRPC.
    pub(crate) async fn start(grpc: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (told, count) = watch::channel(0);
        let ok: Rule = Arc::new(|_| Answer::Ok);
        let receiver = Self { url, got: Arc::default(), count, rule: Arc::new(Mutex::new(ok)) };
        let (got, rule) = (Arc::clone(&receiver.got), Arc::clone(&receiver.rule));
        let service = Service { grpc, got, rule, told };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (service, io) = (service.clone(), TokioIo::new(stream));
                tokio::spawn(async move {
                    let answer = service_fn(move |request| service.clone().answer(request));
                    // A client that goes away is none of the test's concern.
                    let _ = match grpc {
                        true => {
                            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                                .serve_connection(io, answer)
                                .await
                        }
                        false => {
                            hyper::server::conn::http1::Builder::new().serve_connection(io, answer).await
                        }
                    };
                });
            }
        });
        receiver
    }

    /// From now on it answers like this.
    pub(crate) fn answers(&self, rule: impl Fn(&[Span]) -> Answer + Send + Sync + 'static) {
        *self.rule.lock().expect("a lock") = Arc::new(rule);
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().expect("a lock").clone()
    }

    /// The spans of the requests that were taken.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.got().iter().filter(|got| got.taken).flat_map(|got| spans_of(&got.body)).collect()
    }

    /// Waits until there are `count` requests.
    pub(crate) async fn until(&self, count: usize) {
        let mut seen = self.count.clone();
        let waited =
            tokio::time::timeout(Duration::from_secs(20), seen.wait_for(|seen| *seen >= count)).await;
        waited.expect("the requests come in time").expect("the receiver lives");
    }
}

pub(crate) fn spans_of(body: &Bytes) -> Vec<Span> {
    let request = ExportTraceServiceRequest::decode(body.clone()).expect("a request");
    request.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
}

#[derive(Clone)]
struct Service {
    grpc: bool,
    got: Arc<Mutex<Vec<Got>>>,
    rule: Arc<Mutex<Rule>>,
    told: watch::Sender<usize>,
}

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

impl Service {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        let body = if self.grpc { unframed(&body) } else { unzipped(&parts.headers, body) };
        let path = parts.uri.path().to_owned();
        let is_spans = path.ends_with("traces") || path.contains("TraceService");
        let spans = if is_spans { spans_of(&body) } else { Vec::new() };
        let rule = Arc::clone(&self.rule.lock().expect("a lock"));
        let answer = rule(&spans);
        let taken = matches!(answer, Answer::Ok | Answer::Partly(..));
        self.got.lock().expect("a lock").push(Got { path, headers: parts.headers, body, taken });
        self.told.send_modify(|count| *count += 1);
        Ok(match answer {
            Answer::Nothing => std::future::pending().await,
            answer if self.grpc => over_grpc(&answer),
            answer => over_http(&answer),
        })
    }
}

fn unzipped(headers: &HeaderMap, body: Bytes) -> Bytes {
    match headers.get("content-encoding") {
        None => body,
        Some(encoding) => {
            assert_eq!(encoding, "gzip");
            unzip(&body)
        }
    }
}

fn unzip(body: &[u8]) -> Bytes {
    let mut plain = Vec::new();
    GzDecoder::new(body).read_to_end(&mut plain).expect("gzip");
    plain.into()
}

/// A message of gRPC: whether it is zipped, its length, and it.
fn unframed(body: &Bytes) -> Bytes {
    match body[0] {
        0 => body.slice(5..),
        _ => unzip(&body[5..]),
    }
}

fn response(answer: &Answer) -> Vec<u8> {
    let partial_success = match answer {
        Answer::Partly(rejected_spans, said) => {
            Some(ExportTracePartialSuccess { rejected_spans: *rejected_spans, error_message: (*said).into() })
        }
        _ => None,
    };
    ExportTraceServiceResponse { partial_success }.encode_to_vec()
}

fn over_http(answer: &Answer) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(response(answer))).boxed());
    if let Answer::Status(status, retry_after) = answer {
        *response.status_mut() = StatusCode::from_u16(*status).expect("a status");
        *response.body_mut() = Full::new(Bytes::from_static(b"not like this\n")).boxed();
        if let Some(after) = retry_after {
            response.headers_mut().insert("retry-after", after.parse().expect("a header"));
        }
    }
    response
}

fn over_grpc(answer: &Answer) -> Response<Body> {
    let mut frames: Vec<Result<Frame<Bytes>, Infallible>> = Vec::new();
    let mut trailers = HeaderMap::new();
    if let Answer::Status(code, _) = answer {
        trailers.insert("grpc-status", code.to_string().parse().expect("a header"));
        trailers.insert("grpc-message", "not like this".parse().expect("a header"));
    } else {
        let message = response(answer);
        let mut framed = BytesMut::new();
        framed.put_u8(0);
        framed.put_u32(u32::try_from(message.len()).expect("a short one"));
        framed.extend_from_slice(&message);
        frames.push(Ok(Frame::data(framed.freeze())));
        trailers.insert("grpc-status", "0".parse().expect("a header"));
    }
    frames.push(Ok(Frame::trailers(trailers)));
    let mut response = Response::new(StreamBody::new(futures::stream::iter(frames)).boxed());
    response.headers_mut().insert("content-type", "application/grpc".parse().expect("a header"));
    response
}
