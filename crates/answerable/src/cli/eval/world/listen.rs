//! The listener: connections on loopback that can break off.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use futures::stream;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{Stage, model, tool};

/// The largest body that is taken, in bytes.
const LARGEST_BODY: usize = 64 << 20;

/// A request that came whole.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Asked {
    /// A header's text; empty, if there is none.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// The line breaks before an answer.
#[derive(Debug, thiserror::Error)]
#[error("the line is cut")]
pub(super) struct Cut;

/// Takes connections on a free port until the task is ended.
pub(super) async fn open(stage: Arc<Stage>) -> std::io::Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let listening = tokio::spawn(async move {
        loop {
            // What can't be taken now may be in a moment; the server tries again as well.
            let Ok((line, _)) = listener.accept().await else { continue };
            tokio::spawn(talk(line, Arc::clone(&stage)));
        }
    });
    Ok((address, listening))
}

async fn talk(line: TcpStream, stage: Arc<Stage>) {
    // Small answers leave at once; a failure costs time only.
    let _ = line.set_nodelay(true);
    let service = service_fn(move |request| answer(Arc::clone(&stage), request));
    // It breaks where the case cuts it, or where the server leaves.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(line), service).await;
}

async fn answer(stage: Arc<Stage>, request: axum::http::Request<Incoming>) -> Result<Response, Cut> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(Body::new(body), LARGEST_BODY).await.map_err(|_| Cut)?;
    let asked = Asked { uri: parts.uri, headers: parts.headers, body };
    let path = asked.uri.path().to_owned();
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match segments.as_slice() {
        ["model", provider, "chat", "completions"] => model::answer(&stage, provider, &asked).await,
        ["tool", name] => tool::answer(&stage, name, &asked).await,
        _ => Ok(plain(404, &Map::new(), "text/plain", "nobody is here".to_owned(), None)),
    }
}

/// An answer of the case's making; it may break off after so many bytes.
pub(super) fn plain(
    status: u16,
    headers: &Map<String, Value>,
    content_type: &'static str,
    body: String,
    cut_after: Option<usize>,
) -> Response {
    let mut response = Response::new(match cut_after {
        None => Body::from(body),
        Some(bytes) => broken(&body, bytes),
    });
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in headers {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(text)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// The first bytes of a body, then a broken line.
fn broken(whole: &str, bytes: usize) -> Body {
    let head = Bytes::copy_from_slice(whole.as_bytes().get(..bytes).unwrap_or(whole.as_bytes()));
    Body::from_stream(stream::unfold(Some(head), async |state| match state {
        Some(head) if head.is_empty() => {
            // What was sent before goes out while this waits for its turn.
            tokio::task::yield_now().await;
            Some((Err(Cut), None))
        }
        Some(head) => Some((Ok(head), Some(Bytes::new()))),
        None => None,
    }))
}
