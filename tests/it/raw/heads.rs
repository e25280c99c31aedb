//! Other versions of the protocol, other protocols, and heads of every size.

use super::{Raw, answers, statuses};
use crate::harness::World;

#[tokio::test]
async fn other_versions_of_the_protocol() {
    let world = World::shared().await;
    let table: [(&str, &[u16]); 8] = [
        ("GET /healthz\r\n\r\n", &[400]),
        ("GET /healthz HTTP/0.9\r\n\r\n", &[400]),
        ("GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n", &[400]),
        ("GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n", &[400]),
        ("GET /healthz http/1.1\r\nHost: x\r\n\r\n", &[400]),
        ("GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n", &[400]),
        ("GET /healthz HTTP/1.1 \r\nHost: x\r\n\r\n", &[400]),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[]),
    ];
    for (bytes, wanted) in table {
        let answer = answers(&world.server, bytes).await;
        assert_eq!(statuses(&answer), wanted, "{bytes:?} {answer}");
    }
    // The older one has no Host, and a connection for one request.
    let old = "GET /healthz HTTP/1.0\r\n\r\n".repeat(2);
    let answer = answers(&world.server, old).await;
    assert_eq!(answer.matches("200 OK").count(), 1, "{answer}");
}

#[tokio::test]
async fn nobody_gets_another_protocol() {
    let world = World::shared().await;
    for upgrade in [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ] {
        let mut raw = Raw::to(&world.server).await;
        raw.send(format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n\r\n")).await;
        raw.until("\"ok\"").await;
        // It is the same connection, and speaks as before.
        raw.send("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        let answer = raw.rest().await;
        assert_eq!(statuses(&answer), [200], "{answer}");
        assert!(!answer.contains("upgrade"), "{answer}");
    }
}

#[tokio::test]
async fn huge_heads_are_refused_with_words_that_fit() {
    let world = World::shared().await;
    let key = world.client.key().expect("a key");
    let get = |path: &str, more: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n{more}\r\n"
        )
    };
    let fits = get("/v1/threads", &format!("X: {}\r\n", "a".repeat(24 * 1024)));
    assert_eq!(statuses(&answers(&world.server, fits).await), [200]);
    let target = get(&format!("/v1/threads?cursor={}", "a".repeat(20 * 1024)), "");
    let answer = answers(&world.server, target).await;
    assert_eq!(statuses(&answer), [414], "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");
    for more in [format!("X: {}\r\n", "a".repeat(32 * 1024)), "X: a\r\n".repeat(101)] {
        let answer = answers(&world.server, get("/v1/threads", &more)).await;
        assert!(answer.is_empty() || statuses(&answer) == [431], "{answer}");
    }
}

#[tokio::test]
async fn who_waits_for_leave_to_send_a_body_gets_it_if_the_body_is_wanted() {
    let world = World::shared().await;
    let key = world.client.key().expect("a key");
    let head = |length: usize, key: &str| {
        format!(
            "POST /v1/threads HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        )
    };
    let mut raw = Raw::to(&world.server).await;
    raw.send(head(2, key)).await;
    raw.until("100 Continue\r\n\r\n").await;
    raw.send("{}").await;
    assert_eq!(statuses(&raw.rest().await), [201]);
    for (length, key, status) in [(2, "wrong", 401), (5 << 20, key, 413)] {
        let answer = answers(&world.server, head(length, key)).await;
        assert_eq!(statuses(&answer), [status], "{answer}");
    }
}
