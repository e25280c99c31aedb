//! A thousand open streams cost no connection to the database, keep nobody waiting, and all hear what happens.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{World, seconds_from_now, until};
use crate::raw::Raw;

const STREAMS: usize = 1000;
/// Opened at a time.
const AT_ONCE: usize = 100;
/// Bytes of memory that one may cost.
const MEMORY: u64 = 128 * 1024;

/// Connections to the database in use, as the server tells.
async fn connections(world: &World) -> usize {
    let metrics = world.server.stranger().get("/metrics").await.text;
    let line = metrics
        .lines()
        .find(|line| line.starts_with("answerable_db_connections{") && line.contains("\"used\""));
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("{metrics}"))
}

#[tokio::test]
async fn a_thousand_streams_are_open_and_all_hear_the_end() {
    let world = World::alone().await;
    let later = seconds_from_now(3600.0);
    let body = json!({"agent": world.agent(&[]), "input": "go", "not_before": later});
    let run = world.client.post("/v1/runs", &body).await.is(201);
    let path = format!("/v1/runs/{}", run["id"].as_str().expect("an id"));
    let key = world.client.key().expect("a key");
    let ask = format!(
        "GET {path}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nAccept: text/event-stream\r\n\r\n"
    );
    let open = || async {
        let mut raw = Raw::to(&world.server).await;
        raw.send(&ask).await;
        let begun = raw.until("event: run.queued").await;
        assert!(begun.starts_with("HTTP/1.1 200") && begun.contains("event: run.queued"), "{begun}");
        raw
    };
    // What the first ones need is there for all.
    let mut streams = futures::future::join_all((0..AT_ONCE).map(|_| open())).await;
    let before = world.server.memory();
    while streams.len() < STREAMS {
        streams.extend(futures::future::join_all((0..AT_ONCE).map(|_| open())).await);
    }
    // Now and then one looks whether something happened.
    until("nothing holds a connection to the database", async || connections(&world).await <= 2).await;
    let (after, many) = (world.server.memory(), u64::try_from(STREAMS - AT_ONCE).expect("a number"));
    let each = after.saturating_sub(before) / many;
    assert!(each < MEMORY, "a stream costs {each} bytes: {before} before, {after} after");
    let began = Instant::now();
    for _ in 0..20 {
        world.client.get("/v1/threads").await.ok();
    }
    assert!(began.elapsed() < Duration::from_secs(5), "twenty requests took {:?}", began.elapsed());
    world.client.post(&format!("{path}/cancel"), &json!({})).await.ok();
    let heard = futures::future::join_all(streams.into_iter().map(|mut raw| async move {
        raw.until("event: run.cancelled").await.contains("event: run.cancelled")
    }));
    assert_eq!(heard.await.into_iter().filter(|heard| *heard).count(), STREAMS);
}
