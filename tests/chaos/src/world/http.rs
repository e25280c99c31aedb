//! HTTP on loopback whose answers may be cuts of the line.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tower::Service;

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Marks a response that never leaves: the line is cut instead.
#[derive(Clone, Copy, Debug)]
struct Cut;

/// The line was cut.
#[derive(Debug, thiserror::Error)]
#[error("the line was cut")]
pub(super) struct LineCut;

/// A response that cuts the line before anything is said.
pub(super) fn cut() -> Response {
    let mut response = ().into_response();
    response.extensions_mut().insert(Cut);
    response
}

/// Serves connections until the task ends.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => drop(tokio::spawn(connection(stream, peer, router.clone()))),
            // Out of descriptors, or the peer is gone already: others are still served.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
}

/// A peer that goes away takes its handler with it: the future is dropped.
async fn connection(stream: TcpStream, peer: SocketAddr, router: Router) {
    // Small answers are sent as they are; a failure costs time only.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut router = router.clone();
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            let answered: Result<Response, Infallible> = router.call(request).await;
            let Ok(response) = answered;
            if response.extensions().get::<Cut>().is_some() { Err(LineCut) } else { Ok(response) }
        }
    });
    // Errors are the peer's business, or were made on purpose.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
