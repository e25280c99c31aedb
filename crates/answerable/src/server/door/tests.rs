use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::*;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const FEW: Bounds = Bounds { connections: 64, per_address: 64, streams: 8 };
/// Shorter than any patience here.
const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(30);

async fn open(
    bounds: Bounds,
    head: Duration,
    idle: Duration,
) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let (address, stopped, serving, _) = open_and_see(bounds, head, idle).await;
    (address, stopped, serving)
}

/// The same, and what tells that `/slow` is being answered.
async fn open_and_see(
    bounds: Bounds,
    head: Duration,
    idle: Duration,
) -> (SocketAddr, CancellationToken, JoinHandle<()>, Arc<Notify>) {
    let began = Arc::new(Notify::new());
    let begins = Arc::clone(&began);
    let slow = async move || {
        begins.notify_one();
        tokio::time::sleep(2 * SHORT).await;
        "done"
    };
    let app = Router::new().route("/", get(async || "hello")).route("/slow", get(slow));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let stopped = CancellationToken::new();
    let pace = (Pace { head, ..PACE }, idle);
    let serving = tokio::spawn(serve_at(listener, bounds, pace, |_| (), app, stopped.clone()));
    (address, stopped, serving, began)
}

async fn connected(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("connected")
}

/// All that comes until the connection ends.
async fn until_the_end(client: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is cut has ended as well.
    let _ = tokio::time::timeout(LONG, client.read_to_end(&mut bytes)).await.expect("it ends in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn an_answer_under_way_leaves_before_the_end() {
    let (address, stopped, serving, began) = open_and_see(FEW, LONG, LONG).await;
    let mut client = connected(address).await;
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
    tokio::time::timeout(LONG, began.notified()).await.expect("it is being answered");
    stopped.cancel();
    let answer = until_the_end(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    serving.await.expect("it ends");
}

#[tokio::test]
async fn an_idle_connection_does_not_keep_the_server() {
    let (address, stopped, serving) = open(FEW, LONG, LONG).await;
    let mut client = connected(address).await;
    client.write_all(GET).await.expect("sent");
    assert_ne!(client.read(&mut [0; 1024]).await.expect("an answer"), 0);
    stopped.cancel();
    serving.await.expect("it ends");
}

#[tokio::test]
async fn heads_that_do_not_come_and_idle_connections_are_not_waited_for() {
    let (address, _stopped, _serving) = open(FEW, SHORT, LONG).await;
    for begun in [&b""[..], b"GET / HTTP/1.1\r\nX: ", b"\r\n\r\n"] {
        let mut client = connected(address).await;
        client.write_all(begun).await.expect("sent");
        until_the_end(&mut client).await;
    }
    let (address, _stopped, _serving) = open(FEW, LONG, SHORT).await;
    let mut client = connected(address).await;
    client.write_all(GET).await.expect("sent");
    assert!(until_the_end(&mut client).await.ends_with("hello"));
}

#[tokio::test]
async fn an_answer_that_takes_long_is_no_idle_connection() {
    let (address, _stopped, _serving) = open(FEW, SHORT, SHORT).await;
    let mut client = connected(address).await;
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
    assert!(until_the_end(&mut client).await.ends_with("done"));
}

#[tokio::test]
async fn huge_heads_are_told_so() {
    let (address, _stopped, _serving) = open(FEW, LONG, LONG).await;
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(LONGEST_HEAD));
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: a\r\n".repeat(MOST_HEADERS));
    for head in [long, many] {
        let mut client = connected(address).await;
        // It may end before all is sent.
        let _ = client.write_all(head.as_bytes()).await;
        let answer = until_the_end(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    }
}

#[tokio::test]
async fn when_it_gets_tight_nobody_keeps_a_connection() {
    let (address, _stopped, _serving) = open(Bounds { connections: 8, ..FEW }, LONG, LONG).await;
    let mut idle = Vec::new();
    for _ in 0..7 {
        let mut client = connected(address).await;
        client.write_all(GET).await.expect("sent");
        assert_ne!(client.read(&mut [0; 1024]).await.expect("an answer"), 0);
        idle.push(client);
    }
    for _ in 0..3 {
        let mut client = connected(address).await;
        client.write_all(GET).await.expect("sent");
        let answer = until_the_end(&mut client).await;
        assert!(answer.contains("connection: close") && answer.ends_with("hello"), "{answer}");
    }
}

#[tokio::test]
async fn one_address_has_its_part() {
    let (address, _stopped, _serving) = open(Bounds { per_address: 2, ..FEW }, LONG, LONG).await;
    let (one, mut two) = (connected(address).await, connected(address).await);
    // Both are taken by now.
    two.write_all(GET).await.expect("sent");
    assert_ne!(two.read(&mut [0; 1024]).await.expect("an answer"), 0);
    let mut three = connected(address).await;
    assert_eq!(until_the_end(&mut three).await, "");
    drop(one);
    let answered = async || {
        let mut again = connected(address).await;
        again.write_all(GET).await.is_ok() && again.read(&mut [0; 1024]).await.is_ok_and(|bytes| bytes > 0)
    };
    let let_in = async {
        while !answered().await {
            tokio::time::sleep(SHORT / 5).await;
        }
    };
    tokio::time::timeout(LONG, let_in).await.expect("its place is free again");
}

#[tokio::test]
async fn who_is_not_let_in_is_counted_and_how_often_all_places_were_taken() {
    for (bounds, why) in [
        (Bounds { per_address: 1, ..FEW }, "connections_of_one"),
        (Bounds { connections: 1, ..FEW }, "connections"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let app = Router::new().route("/", get(async || "hello"));
        let shed = move |why| tell.send(why).expect("somebody listens");
        tokio::spawn(serve_at(listener, bounds, (PACE, LONG), shed, app, CancellationToken::new()));
        let mut one = connected(address).await;
        one.write_all(GET).await.expect("sent");
        assert_ne!(one.read(&mut [0; 1024]).await.expect("an answer"), 0);
        let _two = connected(address).await;
        let first = tokio::time::timeout(LONG, told.recv()).await.expect("told in time");
        assert_eq!((first, told.try_recv().ok()), (Some(why), None));
    }
}
