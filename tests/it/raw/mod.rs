//! Bytes on a connection: what no client library sends.

mod echoes;
mod heads;
mod smuggling;
mod targets;

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::harness::{Server, World};

/// Longer than the server waits for anything that these tests don't send.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection.
pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) async fn to(server: &Server) -> Self {
        let address = server.url().trim_start_matches("http://");
        Self(TcpStream::connect(address).await.expect("a connection"))
    }

    /// One that takes little of what is sent to it as long as nobody reads.
    pub(crate) async fn reluctant(server: &Server) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("it may be small");
        let address = server.url().trim_start_matches("http://").parse().expect("an address");
        Self(socket.connect(address).await.expect("a connection"))
    }

    /// Sends bytes; the server may have ended the connection before it took all.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.0.write_all(bytes.as_ref()).await;
    }

    /// What comes until there are these words, or the end.
    pub(crate) async fn until(&mut self, words: &str) -> String {
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        let reading = async {
            loop {
                let count = self.0.read(&mut piece).await.unwrap_or(0);
                all.extend_from_slice(&piece[..count]);
                if count == 0 || String::from_utf8_lossy(&all).contains(words) {
                    return;
                }
            }
        };
        let ended = timeout(PATIENCE, reading).await;
        let text = String::from_utf8_lossy(&all).into_owned();
        assert!(ended.is_ok(), "neither {words:?} nor the end came: {text}");
        text
    }

    /// What comes next; nothing at the end.
    pub(crate) async fn next(&mut self) -> Vec<u8> {
        let mut piece = vec![0; 64 * 1024];
        let read = timeout(PATIENCE, self.0.read(&mut piece)).await.expect("bytes or the end");
        piece.truncate(read.unwrap_or(0));
        piece
    }

    /// All that comes until the server ends the connection.
    pub(crate) async fn rest(mut self) -> String {
        self.until("\u{0}no answer has this").await
    }
}

/// All that comes of these bytes, until the server ends the connection.
async fn answers(server: &Server, bytes: impl AsRef<[u8]>) -> String {
    let mut raw = Raw::to(server).await;
    raw.send(bytes).await;
    raw.rest().await
}

/// The statuses of all answers in it.
fn statuses(text: &str) -> Vec<u16> {
    let codes = text.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)?.parse().ok());
    codes.collect()
}

/// A thread of the tenant, and a request that deletes it: whatever reads it as one leaves a trace.
async fn bait(world: &World) -> (String, String) {
    let thread = world.client.post("/v1/threads", &serde_json::json!({})).await.is(201);
    let path = format!("/v1/threads/{}", thread["id"].as_str().expect("an id"));
    let key = world.client.key().expect("a key");
    let request = format!("DELETE {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n");
    (path, request)
}
