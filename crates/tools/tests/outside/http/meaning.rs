//! What an answer, or none, means: row by row of the contract's table.

use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::ToolExecutor;
use answerable_testkit::ToolAnswer;
use serde_json::json;

use super::world::World;

#[tokio::test]
async fn every_row_of_the_table() {
    use ErrorCode::{
        Conflict, InvalidArguments, NotFound, PermissionDenied, RateLimited, Timeout, Unavailable,
    };
    let world = World::start().await;
    for (status, code) in [
        (302, Unavailable),
        (400, InvalidArguments),
        (401, PermissionDenied),
        (403, PermissionDenied),
        (404, NotFound),
        (405, InvalidArguments),
        (409, Conflict),
        (410, NotFound),
        (412, Conflict),
        (422, InvalidArguments),
    ] {
        let attempt = world.answered(ToolAnswer::text("no such cart").with_status(status)).await;
        let Attempt::Refused(got, message) = attempt else { panic!("{status}: {attempt:?}") };
        assert_eq!((got, message.contains("no such cart")), (code, status >= 400), "{status}: {message}");
    }
    for (status, after, code, wanted) in [
        (429, None, RateLimited, None),
        (429, Some("2"), RateLimited, Some(2000)),
        (429, Some("soon"), RateLimited, None),
        (503, Some("0"), Unavailable, Some(0)),
        (503, Some("-1"), Unavailable, None),
    ] {
        let answer = ToolAnswer::status(status);
        let answer = if let Some(after) = after { answer.header("retry-after", after) } else { answer };
        let attempt = world.answered(answer).await;
        let Attempt::NotDone(got, _, ms) = attempt else { panic!("{status}: {attempt:?}") };
        assert_eq!((got, ms), (code, wanted), "{status} {after:?}");
    }
    for (answer, code) in [
        (ToolAnswer::text("Traceback: /srv/app.py").with_status(500), Unavailable),
        (ToolAnswer::status(503), Unavailable),
        (ToolAnswer::status(408), Timeout),
        (ToolAnswer::cut(), Unavailable),
    ] {
        let attempt = world.answered(answer).await;
        let Attempt::Unclear(got, message) = attempt else { panic!("{attempt:?}") };
        assert_eq!(got, code, "{message}");
        assert!(!message.contains("Traceback") && !message.contains("127.0.0.1"), "{message}");
    }
}

#[tokio::test]
async fn nobody_there_and_forbidden_addresses_are_no_effect() {
    let world = World::start().await;
    let nobody = world.call(json!({}), json!({"url": "http://127.0.0.1:9/"}), json!({}));
    assert!(matches!(world.run(&nobody).await.0, Attempt::NotDone(ErrorCode::Unavailable, _, None)));
    for url in
        ["http://169.254.169.254/latest", "http://10.0.0.1/", "http://localhost.:9@127.0.0.1/", "http://0:9/"]
    {
        let attempt = world.run(&world.call(json!({}), json!({"url": url}), json!({}))).await.0;
        let Attempt::Refused(ErrorCode::PermissionDenied, message) = attempt else { panic!("{attempt:?}") };
        assert!(!message.contains("169.254") && !message.contains("10.0"), "{message}");
    }
}

#[tokio::test]
async fn a_connection_that_never_comes_is_no_effect() {
    let world = World::start().await;
    // A listener whose queue is full answers no more handshakes.
    let listener = tokio::net::TcpSocket::new_v4().expect("a socket");
    listener.bind("127.0.0.1:0".parse().expect("an address")).expect("bound");
    let listener = listener.listen(1).expect("listening");
    let address = listener.local_addr().expect("an address");
    let fillers: Vec<_> = (0..8).map(|_| tokio::spawn(tokio::net::TcpStream::connect(address))).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let call =
        world.call(json!({"timeout_ms": 200}), json!({"url": format!("http://{address}/")}), json!({}));
    let attempt = world.run(&call).await.0;
    assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
    fillers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_timeout_covers_head_and_body() {
    let world = World::start().await;
    world.far.script("look", [ToolAnswer::text("late").delayed(Duration::from_secs(5))]);
    let call = world.call(json!({"timeout_ms": 150}), json!({}), json!({}));
    assert!(matches!(world.run(&call).await.0, Attempt::Unclear(ErrorCode::Timeout, _)));
    let slow = half_an_answer(false).await;
    let call = world.call(json!({"timeout_ms": 300}), json!({"url": slow}), json!({}));
    assert!(matches!(world.run(&call).await.0, Attempt::Unclear(ErrorCode::Timeout, _)));
}

#[tokio::test]
async fn a_line_cut_within_the_answer_is_unclear() {
    let world = World::start().await;
    let cut = half_an_answer(true).await;
    let call = world.call(json!({}), json!({"url": cut}), json!({}));
    assert!(matches!(world.run(&call).await.0, Attempt::Unclear(ErrorCode::Unavailable, _)));
}

#[tokio::test]
async fn a_dropped_call_hangs_up() {
    let world = World::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let call = world.call(json!({}), json!({"url": url}), json!({}));
    let tools = world.tools.clone();
    let task = tokio::spawn(async move { tools.run(&call).await });
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut buffer = vec![0; 4096];
    assert!(tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await.expect("a request") > 0);
    task.abort();
    let ended = tokio::time::timeout(Duration::from_secs(5), async {
        while !matches!(tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await, Ok(0) | Err(_)) {}
    });
    ended.await.expect("the connection ends");
}

/// The address of a server that promises 100 bytes and sends 4, then hangs up or says nothing more.
async fn half_an_answer(hangs_up: bool) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut buffer = vec![0; 4096];
        let _ = stream.read(&mut buffer).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\ncontent-type: text/plain\r\n\r\nhalf")
            .await;
        if !hangs_up {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    });
    format!("http://{address}/")
}
