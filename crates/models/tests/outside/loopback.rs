//! A server on this machine that answers each request with just these bytes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is done on a connection, one after the other; then it is closed.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    /// Bytes are sent.
    Send(Vec<u8>),
    /// They are sent over and over, until the other side hangs up.
    Repeat(Vec<u8>, Duration),
    /// Nothing is said any more.
    Hold,
}

/// The server.
#[derive(Debug)]
pub(crate) struct Loopback {
    pub(crate) base_url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Loopback {
    /// Starts one that does the same on every connection.
    pub(crate) async fn start(deeds: Vec<Deed>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let seen = bodies.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, deeds.clone(), seen.clone()));
            }
        });
        Self { base_url, bodies }
    }

    /// The bodies that were sent.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.bodies.lock().expect("unpoisoned").clone()
    }
}

async fn serve(mut connection: TcpStream, deeds: Vec<Deed>, seen: Arc<Mutex<Vec<Value>>>) {
    let Some(body) = read_body(&mut connection).await else { return };
    seen.lock().expect("unpoisoned").push(body);
    for deed in deeds {
        match deed {
            Deed::Send(bytes) => {
                if connection.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Deed::Repeat(bytes, pause) => {
                while connection.write_all(&bytes).await.is_ok() {
                    tokio::time::sleep(pause).await;
                }
                return;
            }
            Deed::Hold => drop(connection.read(&mut [0; 1]).await),
        }
    }
    let _ = connection.shutdown().await;
}

async fn read_body(connection: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = connection.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
        let body = &bytes[end + 4..];
        if body.len() >= length.trim().parse().ok()? {
            return serde_json::from_slice(body).ok();
        }
    }
}

/// The head of an answer; without a length it ends with the connection.
pub(crate) fn head(content_type: &str, more: &str, length: Option<usize>) -> Vec<u8> {
    let length = length.map(|length| format!("content-length: {length}\r\n")).unwrap_or_default();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{length}{more}connection: close\r\n\r\n")
        .into_bytes()
}

/// An answer that is whole.
pub(crate) fn answer(content_type: &str, body: &str) -> Vec<Deed> {
    vec![Deed::Send([&head(content_type, "", Some(body.len())), body.as_bytes()].concat())]
}
