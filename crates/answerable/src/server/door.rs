//! The door: connections of clients, each with limits, until the server is stopped.

use std::sync::Arc;
use std::time::Duration;

use answerable_api::Peer;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Connections at a time; who comes then waits in the kernel's queue.
const CONNECTIONS: usize = 10_000;
/// Time that a client has for the head of a request, counted from the end of the one before: an idle connection ends too.
const HEAD: Duration = Duration::from_secs(60);
/// Pause after a connection could not be taken, as when file descriptors have run out.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers requests until `stopped`, then lets those that are under way end.
pub(super) async fn serve(listener: TcpListener, app: Router, stopped: CancellationToken) {
    serve_within(HEAD, listener, app, stopped).await;
}

async fn serve_within(head: Duration, listener: TcpListener, app: Router, stopped: CancellationToken) {
    let (connections, places) = (GracefulShutdown::new(), Arc::new(Semaphore::new(CONNECTIONS)));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head);
    loop {
        let come = async { (Arc::clone(&places).acquire_owned().await, listener.accept().await) };
        let (place, (stream, peer)) = tokio::select! {
            come = come => match come {
                (place, Ok(connection)) => (place, connection),
                (_, Err(error)) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
            () = stopped.cancelled() => break,
        };
        limit(&stream);
        let app = TowerToHyperService::new(app.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            app.call(request)
        });
        let connection = connections.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // The client's business: it left, or what it sent is no HTTP.
                tracing::debug!(%error, "a connection broke");
            }
            drop(place);
        });
    }
    drop(listener);
    connections.shutdown().await;
}

/// Small answers leave at once, and a peer that takes nothing any more is given up.
fn limit(stream: &TcpStream) {
    // Neither is needed for a right answer, so a system that refuses them is no reason not to give one.
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = nix::sys::socket::setsockopt(stream, nix::sys::socket::sockopt::TcpUserTimeout, &UNHEARD);
}

/// Milliseconds that a peer may leave bytes untaken.
#[cfg(target_os = "linux")]
const UNHEARD: u32 = 60_000;

/// Lets this process have as many open files as the system allows it: each connection is one, and the usual first limit
/// is meant for other programs.
pub(super) fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) }
    });
    if let Err(error) = raised {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn open(head: Duration) -> (TcpStream, CancellationToken, tokio::task::JoinHandle<()>) {
        let app = Router::new().route("/", get(async || "hello")).route(
            "/slow",
            get(async || {
                tokio::time::sleep(Duration::from_millis(100)).await;
                "done"
            }),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stopped = CancellationToken::new();
        let serving = tokio::spawn(serve_within(head, listener, app, stopped.clone()));
        (TcpStream::connect(address).await.expect("connected"), stopped, serving)
    }

    #[tokio::test]
    async fn an_answer_under_way_leaves_before_the_end() {
        let (mut client, stopped, serving) = open(HEAD).await;
        client.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
        tokio::time::sleep(Duration::from_millis(30)).await;
        stopped.cancel();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("an answer, then the end");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
        serving.await.expect("it ends");
    }

    #[tokio::test]
    async fn an_idle_connection_does_not_keep_the_server() {
        let (mut client, stopped, serving) = open(HEAD).await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
        assert_ne!(client.read(&mut [0; 1024]).await.expect("an answer"), 0);
        stopped.cancel();
        serving.await.expect("it ends");
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_is_not_waited_for() {
        let (mut client, _stopped, _serving) = open(Duration::from_millis(50)).await;
        client.write_all(b"GET / HTTP/1.1\r\nX: ").await.expect("sent");
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(HEAD / 2, client.read_to_end(&mut rest)).await;
        ended.expect("in time").expect("the end");
    }
}
