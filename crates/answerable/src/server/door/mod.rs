//! The door: connections of clients, each with limits, until the server is stopped.

mod bounds;
mod heads;
mod judge;
mod line;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use answerable_api::{BadHead, Peer};
use axum::Router;
use axum::response::Response;
use http::{HeaderValue, header};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use bounds::Addresses;
pub(super) use bounds::Bounds;
use heads::{Heads, LONGEST_HEAD, MOST_HEADERS, Verdict};
use line::{Line, Pace};

/// Time that a connection may be silent between an answer and the next request, its head included.
const IDLE: Duration = Duration::from_secs(60);
/// How slow a client may be otherwise. Bodies have a limit of their own, where they are read.
const PACE: Pace = Pace { head: Duration::from_secs(15), answer: Duration::from_secs(60) };
/// Bytes that are read of a connection, and kept for it, at once.
const BUFFER: usize = 2 * LONGEST_HEAD;
/// Pause after a connection could not be taken, as when file descriptors have run out.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers requests until `stopped`, then lets those that are under way end. Tells `shed` why somebody isn't let in, and when
/// all places are taken.
pub(super) async fn serve(
    listener: TcpListener,
    bounds: Bounds,
    shed: impl Fn(&'static str) + Send,
    app: Router,
    stopped: CancellationToken,
) {
    serve_at(listener, bounds, (PACE, IDLE), shed, app, stopped).await;
}

async fn serve_at(
    listener: TcpListener,
    bounds: Bounds,
    (pace, idle): (Pace, Duration),
    shed: impl Fn(&'static str) + Send,
    app: Router,
    stopped: CancellationToken,
) {
    let (connections, addresses) = (GracefulShutdown::new(), Addresses::default());
    let places = Arc::new(Semaphore::new(bounds.connections));
    let http = http(idle);
    loop {
        let (place, stream, peer) = tokio::select! {
            come = next(&listener, &places, &shed) => match come {
                Some(come) => come,
                None => continue,
            },
            () = stopped.cancelled() => break,
        };
        let Some(entered) = addresses.enter(peer.ip(), bounds.per_address) else {
            shed("connections_of_one");
            continue;
        };
        limit(&stream);
        // Where there are few places left, nobody keeps one for a request that may come later.
        let is_tight = places.available_permits() < bounds.connections / 8;
        let line = Line::new(stream, pace);
        let (heads, app) = (line.heads(), TowerToHyperService::new(app.clone()));
        let service = service_fn(move |request| {
            let (request, is_last) = seen(request, &heads, peer);
            let answering = app.call(request);
            async move { answering.await.map(|answer| ending(answer, is_last || is_tight)) }
        });
        let connection = connections.watch(http.serve_connection(TokioIo::new(line), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // The client's business: it left, or what it sent is no HTTP.
                tracing::debug!(%error, "a connection broke");
            }
            drop((place, entered));
        });
    }
    drop(listener);
    connections.shutdown().await;
}

fn http(idle: Duration) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_headers(MOST_HEADERS)
        .max_header_size(LONGEST_HEAD)
        .max_buf_size(BUFFER);
    http
}

/// The next connection, when there is a place for it. Who comes meanwhile waits in the kernel's queue: whether anybody does
/// isn't known, so what is counted is that all places were taken.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    shed: &(impl Fn(&'static str) + Send),
) -> Option<(OwnedSemaphorePermit, TcpStream, SocketAddr)> {
    if places.available_permits() == 0 {
        shed("connections");
    }
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((place, stream, peer)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be taken");
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

/// Notes in a request who sent it and what is wrong with its head; says whether its connection ends with the answer.
fn seen(mut request: Request<Incoming>, heads: &Mutex<Heads>, peer: SocketAddr) -> (Request<Incoming>, bool) {
    let verdict = heads.lock().unwrap_or_else(PoisonError::into_inner).next();
    // There is one for each request. Were there none, nobody knew what follows.
    let Verdict { fault, is_last } =
        verdict.unwrap_or(Verdict { fault: Some("The request's head was not understood."), is_last: true });
    if let Some(fault) = fault {
        request.extensions_mut().insert(BadHead(fault));
    }
    request.extensions_mut().insert(Peer(peer));
    (request, is_last)
}

fn ending(mut answer: Response, is_last: bool) -> Response {
    if is_last {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Small answers leave at once, and a peer that is heard of no more is given up.
fn limit(stream: &TcpStream) {
    // Neither is needed for a right answer, so a system that refuses them is no reason not to give one.
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = nix::sys::socket::setsockopt(stream, nix::sys::socket::sockopt::TcpUserTimeout, &UNHEARD);
}

/// Milliseconds that a peer may leave bytes untaken.
#[cfg(target_os = "linux")]
const UNHEARD: u32 = 60_000;
