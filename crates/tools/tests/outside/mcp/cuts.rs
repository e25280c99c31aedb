//! The line cut at every point: what is known of the call is right at each of them.

use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::McpPlace;
use answerable_testkit::McpAnswer;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::world::{World, output};

#[tokio::test]
async fn an_answer_in_json_is_one_when_all_of_it_has_come() {
    let world = World::start().await;
    let body = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"paid"}]}}"#;
    let (head, length) = ("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n", body.len());
    let whole = format!("{head}content-length: {length}\r\n\r\n{body}");
    for cut in (0..whole.len()).step_by(3).chain([whole.len() - 1]) {
        let attempt = cut_after(&world, &whole, cut).await;
        assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Unavailable, _)), "{cut}: {attempt:?}");
    }
    assert_eq!(output(cut_after(&world, &whole, whole.len()).await).content, "paid");
}

#[tokio::test]
async fn an_answer_in_a_stream_is_one_when_its_event_has_come() {
    let world = World::start().await;
    let event = "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"paid\"}]}}\n\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    let whole = format!("{head}{chunk}");
    // The last empty line, and the end of the chunk, are not needed.
    for cut in (0..whole.len() - 4).step_by(3) {
        let attempt = cut_after(&world, &whole, cut).await;
        assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Unavailable, _)), "{cut}: {attempt:?}");
    }
    assert_eq!(output(cut_after(&world, &whole, whole.len()).await).content, "paid");
}

#[tokio::test]
async fn a_line_cut_while_the_session_is_opened_is_no_effect() {
    let world = World::start().await;
    let greets = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s\r\ncontent-length: 66\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}";
    assert!(greets.ends_with("}}") && greets.split("\r\n\r\n").nth(1).map(str::len) == Some(66));
    for cut in (0..greets.len()).step_by(5) {
        let url = far_side(vec![(greets.to_owned(), cut)]).await;
        let attempt = call(&world, &url).await;
        assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{cut}: {attempt:?}");
    }
}

#[tokio::test]
async fn a_server_that_dies_between_two_calls_is_no_effect() {
    let world = World::start().await;
    let greets = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 66\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}";
    let ready = "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let url = far_side(vec![(greets.to_owned(), greets.len()), (ready.to_owned(), ready.len())]).await;
    // Its listener is gone by the time of the call, so no connection comes about.
    let attempt = call(&world, &url).await;
    assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
}

#[tokio::test]
async fn a_request_that_was_cut_on_its_way_is_unclear() {
    let world = World::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let greets = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 66\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}";
        for answer in [greets, "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"] {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            read_request(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.expect("written");
        }
        // The call: a little of it is read, then the line is cut.
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut few = [0; 16];
        let _ = stream.read(&mut few).await;
        drop(stream);
        tokio::time::sleep(Duration::from_secs(5)).await;
    });
    let attempt = call(&world, &url).await;
    assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Unavailable, _)), "{attempt:?}");
}

/// What comes of a call whose answer is cut after so many bytes, in a session that was opened before.
async fn cut_after(world: &World, answer: &str, bytes: usize) -> Attempt {
    let greets = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s\r\nconnection: close\r\ncontent-length: 66\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}";
    let ready = "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let url = far_side(vec![
        (greets.to_owned(), greets.len()),
        (ready.to_owned(), ready.len()),
        (answer.to_owned(), bytes),
    ])
    .await;
    call(world, &url).await
}

async fn call(world: &World, url: &str) -> Attempt {
    let place = McpPlace::Url { url: url.to_owned(), headers: Default::default() };
    world.put(1, "cut", place, 5000, url);
    world.run(&world.prepared(1, "cut", "pay", json!({"amount": 5}))).await.attempt
}

/// A server that answers one request a connection, each with so many bytes of an answer, and is gone then.
async fn far_side(answers: Vec<(String, usize)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let mut listener = Some(listener);
        let count = answers.len();
        for (n, (answer, bytes)) in answers.into_iter().enumerate() {
            let Some(open) = &listener else { return };
            let Ok((mut stream, _)) = open.accept().await else { return };
            if n + 1 == count {
                listener = None;
            }
            read_request(&mut stream).await;
            let _ = stream.write_all(&answer.as_bytes()[..bytes]).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

/// Reads a request to its end, so that closing the connection sends no reset.
async fn read_request(stream: &mut TcpStream) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if read == 0 { return } else { continue }
        };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
        if read == 0 || body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0) {
            return;
        }
    }
}

#[tokio::test]
async fn a_cut_ends_no_session_and_the_next_call_is_fine() {
    let world = World::start().await;
    let files = world.files();
    files.script("pay", [McpAnswer::cut(), McpAnswer::text("paid")]);
    assert!(matches!(world.call("pay", json!({})).await, Attempt::Unclear(ErrorCode::Unavailable, _)));
    assert_eq!(output(world.call("pay", json!({})).await).content, "paid");
    assert_eq!(files.requests("initialize").len(), 1);
    // A server that was started anew meanwhile.
    files.script("read", [McpAnswer::cut().and_forgets(), McpAnswer::text("three lines")]);
    assert!(matches!(world.call("read", json!({})).await, Attempt::Unclear(ErrorCode::Unavailable, _)));
    assert_eq!(output(world.call("read", json!({})).await).content, "three lines");
    assert_eq!(files.requests("initialize").len(), 2);
}
