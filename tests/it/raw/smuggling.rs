//! Whoever stands before the server may read a request otherwise than it does. What can be read in two ways is refused, and
//! nothing behind it is a request.

use super::{answers, bait, statuses};
use crate::harness::World;

/// Heads, without the empty line at their end, that can be read in two ways or not at all.
const AMBIGUOUS: [&str; 33] = [
    // Two lengths.
    "Host: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked",
    "Host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 0",
    "Host: x\r\nContent-Length: 0\r\nContent-Length: 5",
    "Host: x\r\nContent-Length: 0\r\nContent-Length: 0",
    "Host: x\r\nContent-Length: 0, 5",
    "Host: x\r\nContent-Length: 0, 0",
    "Host: x\r\nContent-Length: -1",
    "Host: x\r\nContent-Length: +0",
    "Host: x\r\nContent-Length: 0x0",
    "Host: x\r\nContent-Length: 0 0",
    "Host: x\r\nContent-Length: ",
    "Host: x\r\nContent-Length: 18446744073709551616",
    // Codings that not everybody understands.
    "Host: x\r\nTransfer-Encoding: xchunked",
    "Host: x\r\nTransfer-Encoding: chunked, identity",
    "Host: x\r\nTransfer-Encoding: identity, chunked",
    "Host: x\r\nTransfer-Encoding: gzip, chunked",
    "Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Host: x\r\nTransfer-Encoding: \x0bchunked",
    "Host: x\r\nTransfer-Encoding: \"chunked\"",
    "Host: x\r\nTransfer-Encoding:",
    // Names and lines that not everybody reads.
    "Host: x\r\nTransfer-Encoding : chunked",
    "Host: x\r\n Transfer-Encoding: chunked",
    "Host: x\r\nX: a\r\n folded: chunked",
    "Host: x\r\nTransfer-Encoding\r\n : chunked",
    "Host: x\r\nX: a\nTransfer-Encoding: chunked",
    "Host: x\r\nX: a\rTransfer-Encoding: chunked",
    "Host: x\r\nX: a\0b",
    "Host: x\r\nX\0: a",
    "Host: x\r\n: a",
    "Host: x\r\nno colon",
    // Two hosts, or none.
    "Host: x\r\nHost: y",
    "Host: x, y",
    "Accept: */*",
];

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_refused_and_ends_the_connection() {
    let world = World::shared().await;
    let (path, bait) = bait(&world).await;
    let key = world.client.key().expect("a key");
    for head in AMBIGUOUS {
        let bytes = format!(
            "POST /v1/threads HTTP/1.1\r\nAuthorization: Bearer {key}\r\n{head}\r\n\r\n0\r\n\r\n{bait}"
        );
        let answer = answers(&world.server, bytes).await;
        assert_eq!(statuses(&answer), [400], "{head:?} {answer}");
    }
    world.client.get(&path).await.ok();
    let threads = world.client.get("/v1/threads").await.ok();
    assert_eq!(threads["data"].as_array().map(Vec::len), Some(1), "and no thread was made");
}

#[tokio::test]
async fn a_refused_head_is_told_why_as_all_problems_are() {
    let world = World::shared().await;
    let answer = answers(
        &world.server,
        "POST /v1/threads HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    );
    let answer = answer.await;
    for words in
        ["application/problem+json", "connection: close", "x-request-id: req_", "not both", "\"status\":400"]
    {
        assert!(answer.contains(words), "{words}: {answer}");
    }
}

#[tokio::test]
async fn bodies_in_chunks_that_are_not_as_they_should_be_end_the_connection() {
    let world = World::shared().await;
    let (path, bait) = bait(&world).await;
    let key = world.client.key().expect("a key");
    let head = format!(
        "POST /v1/threads HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    );
    let flood = "a".repeat(64 * 1024);
    let bodies = [
        "FFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n".to_owned(),
        "-2\r\n{}\r\n0\r\n\r\n".to_owned(),
        "0x2\r\n{}\r\n0\r\n\r\n".to_owned(),
        "2 2\r\n{}\r\n0\r\n\r\n".to_owned(),
        "\r\n{}\r\n0\r\n\r\n".to_owned(),
        "2\n{}\r\n0\r\n\r\n".to_owned(),
        "2;a\nb\r\n{}\r\n0\r\n\r\n".to_owned(),
        "2\r\n{}0\r\n\r\n".to_owned(),
        "2\r\n{}xx0\r\n\r\n".to_owned(),
        format!("2;{flood}\r\n{{}}\r\n0\r\n\r\n"),
        format!("2\r\n{{}}\r\n0\r\nX: {flood}\r\n\r\n"),
    ];
    for body in bodies {
        let answer = answers(&world.server, format!("{head}{body}{bait}")).await;
        let found = statuses(&answer);
        let cut = &body[..body.len().min(40)];
        assert!(found.is_empty() || found == [400], "{cut:?} {answer}");
    }
    world.client.get(&path).await.ok();
    // One that is as it should be is taken, and still nothing behind it is.
    for body in ["2\r\n{}\r\n0\r\n\r\n", "1;a=b\r\n{\r\n1\r\n}\r\n0\r\nX: trailer\r\n\r\n"] {
        let answer = answers(&world.server, format!("{head}{body}{bait}")).await;
        assert_eq!(statuses(&answer), [201], "{body:?} {answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    world.client.get(&path).await.ok();
}

#[tokio::test]
async fn the_body_of_a_refused_request_is_no_request() {
    let world = World::shared().await;
    let (path, bait) = bait(&world).await;
    let refused = [
        ("POST /v1/threads HTTP/1.1\r\nHost: x\r\n", 401),
        ("POST /v1/nothing HTTP/1.1\r\nHost: x\r\n", 404),
        ("PUT /v1/threads HTTP/1.1\r\nHost: x\r\n", 405),
        ("GET /healthz HTTP/1.1\r\nHost: x\r\n", 200),
        (
            "POST /v1/threads HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\nExpect: 100-continue\r\n",
            401,
        ),
    ];
    for (head, status) in refused {
        // All of the body at once, and all but its end.
        for missing in [0, 1] {
            let length = bait.len() + missing;
            let bytes = format!("{head}Content-Length: {length}\r\n\r\n{bait}");
            let mut raw = super::Raw::to(&world.server).await;
            raw.send(bytes).await;
            raw.send("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".repeat(2)).await;
            let answer = raw.rest().await;
            let found = statuses(&answer);
            assert_eq!(found.first(), Some(&status), "{head} {answer}");
            assert!(!found.contains(&204), "{head} {answer}");
        }
    }
    world.client.get(&path).await.ok();
}

#[tokio::test]
async fn requests_one_behind_the_other_are_answered_each() {
    let world = World::shared().await;
    let key = world.client.key().expect("a key");
    let post = format!(
        "POST /v1/threads HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: 2\r\n\r\n{{}}"
    );
    let last = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = answers(&world.server, format!("{post}\r\n{post}{post}{last}")).await;
    assert_eq!(statuses(&answer), [201, 201, 201, 200], "{answer}");
}
