//! The lines that calls go over: kept for the next call, and never read for longer than they may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use answerable_core::tool::Attempt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::world::{World, output};

/// The address of a server that does this with each of its connections, and how many it had.
async fn far<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let lines = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lines);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(serve(stream));
        }
    });
    (url, lines)
}

#[tokio::test]
async fn calls_of_a_host_share_their_lines() {
    let (url, lines) = far(|mut stream| async move {
        let mut buffer = [0; 8192];
        while matches!(stream.read(&mut buffer).await, Ok(1..)) {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
            if stream.write_all(answer).await.is_err() {
                break;
            }
        }
    })
    .await;
    let world = World::start().await;
    for n in 0..5 {
        let call = world.call(json!({}), json!({"url": url}), json!({"n": n}));
        assert_eq!(output(world.run(&call).await.0).content, "ok");
    }
    assert_eq!(lines.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_answer_without_an_end_is_given_up() {
    let world = World::start().await;
    for (begins, goes_on) in [
        ("HTTP/1.1 200 OK\r\n", "x-more: 0123456789012345678901234567890123456789\r\n"),
        ("HTTP/1.1 200 OK\r\nx-long: ", "0123456789012345678901234567890123456789"),
        ("", "HTTP/1.1 103 Early Hints\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;", "more=0123456789012345678901234567890;"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", "x-trailer: 0123456789012345678\r\n"),
        ("HTTP/1.1 429 Busy\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
    ] {
        let (url, _) = far(move |mut stream| async move {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(begins.as_bytes()).await;
            let much = goes_on.repeat(100);
            while stream.write_all(much.as_bytes()).await.is_ok() {}
        })
        .await;
        let began = Instant::now();
        let call = world.call(json!({"timeout_ms": 1500}), json!({"url": url}), json!({}));
        let attempt = world.run(&call).await.0;
        let is_known = if begins.contains("429") {
            matches!(attempt, Attempt::NotDone(..))
        } else {
            matches!(attempt, Attempt::Unclear(..))
        };
        assert!(is_known, "{begins:?}: {attempt:?}");
        assert!(began.elapsed() < Duration::from_secs(4), "{begins:?}: {:?}", began.elapsed());
    }
}
