//! Too many requests at once: some are turned away before anything is done, and one tenant's crowd keeps no other out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, TestDatabase};
use futures::future::join_all;
use reqwest::Method;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::harness::{Client, Server, World, client_tool, until};
use crate::raw::Raw;

/// Whoever isn't kept out is answered within this; the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(10);

async fn world(settings: &[(&str, &str)]) -> World {
    let database = TestDatabase::create().await.expect("a database");
    let server = Server::start_with(&database.url, settings).await;
    World::on(server.into(), Some(database)).await
}

/// Holds a tenant so that whatever of its would write waits, until the connection is dropped.
async fn hold(world: &World, tenant: &str) -> PgConnection {
    let mut connection = PgConnection::connect(world.database_url()).await.expect("a connection");
    let id: Uuid = tenant.trim_start_matches("ten_").parse().expect("an id");
    sqlx::query("BEGIN").execute(&mut connection).await.expect("begun");
    sqlx::query("SELECT FROM tenants WHERE tenant_id = $1 FOR UPDATE")
        .bind(id)
        .execute(&mut connection)
        .await
        .expect("held");
    connection
}

/// Asks this and that as somebody who has nothing to do with the crowd, `times` times.
async fn is_served(client: &Client, times: usize) {
    for _ in 0..times {
        let began = Instant::now();
        client.post("/v1/threads", &json!({})).await.is(201);
        client.get("/v1/threads?limit=1").await.is(200);
        assert!(began.elapsed() < SOON, "it took {:?}", began.elapsed());
    }
}

/// So many threads are asked for at once; all answers.
async fn crowd(server: Arc<Server>, key: String, many: usize) -> Vec<String> {
    let ask = |_| async {
        let mut raw = Raw::to(&server).await;
        raw.send(format!(
            "POST /v1/threads HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
        ))
        .await;
        raw.rest().await
    };
    join_all((0..many).map(ask)).await
}

fn shed(metrics: &str, reason: &str) -> f64 {
    let name = format!("answerable_requests_shed_total{{reason=\"{reason}\"");
    let line = metrics.lines().find(|line| line.starts_with(&name)).unwrap_or_default();
    line.rsplit(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{reason}: {metrics}"))
}

async fn metrics(world: &World) -> String {
    world.server.stranger().get("/metrics").await.text
}

#[tokio::test]
async fn a_crowd_of_one_tenant_keeps_no_other_out() {
    for settings in [&[("ANSWERABLE_MAX_REQUESTS", "16")][..], &[]] {
        let world = world(settings).await;
        let (_, neighbour) = world.neighbour(&json!({})).await;
        let held = hold(&world, &world.tenant).await;
        let key = world.client.key().expect("a key").to_owned();
        let crowd = tokio::spawn(crowd(Arc::clone(&world.server), key, 1000));
        until("some of the crowd are turned away", async || {
            is_served(&neighbour, 1).await;
            shed(&metrics(&world).await, "requests_of_one") > 0.0
        })
        .await;
        is_served(&neighbour, 20).await;
        world.server.operator().get("/v1/tenants").await.is(200);
        for path in ["/healthz", "/readyz"] {
            world.server.stranger().get(path).await.is(200);
        }
        drop(held);
        let mut created = 0;
        for answer in crowd.await.expect("it ends") {
            if answer.starts_with("HTTP/1.1 201") {
                created += 1;
            } else {
                assert!(
                    answer.starts_with("HTTP/1.1 503") && answer.contains("\r\nretry-after: "),
                    "{answer}"
                );
            }
        }
        let made = "SELECT count(*) FROM threads WHERE tenant_id = $1";
        let made: Option<i64> = world.sql(made, world.tenant.trim_start_matches("ten_")).await;
        assert_eq!(made, Some(created), "what was turned away was not begun");
        assert!((1..1000).contains(&created), "{created} were created");
        is_served(&world.client, 1).await;
    }
}

#[tokio::test]
async fn who_waits_takes_no_place() {
    let world = world(&[("ANSWERABLE_MAX_REQUESTS", "8")]).await;
    world.model.script(
        "m",
        [ModelReply::calls([("ask_user", json!({"q": "which size?"}))]), ModelReply::text("M then.")],
    );
    let run = world.start(&world.agent(&[client_tool("ask_user")])).await;
    // It is settled when it waits for somebody, so these wait for one that doesn't yet begin.
    let later = crate::harness::seconds_from_now(3600.0);
    let body = json!({"agent": world.agent(&[]), "input": "go", "not_before": later});
    let waiting = world.client.post("/v1/runs", &body).await.is(201);
    let path = format!("/v1/runs/{}", waiting["id"].as_str().expect("an id"));
    let wait = |_| {
        let (client, path) = (world.client.clone(), format!("{path}/wait?timeout=60"));
        tokio::spawn(async move { client.get(&path).await })
    };
    // More than there are places.
    let waits: Vec<_> = (0..30).map(wait).collect();
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(world.client.stream(&run.path("/events"), None).await);
    }
    is_served(&world.client, 60).await;
    assert!(waits.iter().all(|wait| !wait.is_finished()), "none was turned away or has ended");
    world.client.post(&format!("{path}/cancel"), &json!({})).await.ok();
    for answer in join_all(waits).await {
        let answer = answer.expect("it ends").is(200);
        assert_eq!(answer["status"], "cancelled");
    }
    assert_eq!(shed(&metrics(&world).await, "requests_of_one"), 0.0);
}

/// A file of so many bytes in a workspace of the client's own; its path.
async fn file(world: &World, client: &Client, bytes: usize) -> String {
    world.model.script("m", [ModelReply::text("Done.")]);
    let body = json!({"agent": world.agent(&[]), "input": "go"});
    let run = client.post("/v1/runs", &body).await.is(201);
    let root = run["workspace_root"].as_str().expect("a workspace").trim_start_matches("workspace://");
    let path = format!("/v1/workspaces/{root}/files/large");
    client.ask(Method::PUT, &path).raw("application/octet-stream", vec![b'a'; bytes]).await.ok();
    path
}

#[tokio::test]
async fn large_answers_that_nobody_takes_are_few() {
    let world = world(&[]).await;
    let (_, neighbour) = world.neighbour(&json!({})).await;
    // More than a connection's buffers take.
    let own = file(&world, &world.client, 4 << 20).await;
    let theirs = file(&world, &neighbour, 300 * 1024).await;
    let key = world.client.key().expect("a key");
    let ask = format!("GET {own} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n");
    let (mut open, mut refused) = (Vec::new(), 0);
    while refused < 3 {
        let mut raw = Raw::reluctant(&world.server).await;
        raw.send(&ask).await;
        let answer = raw.until("\r\n\r\n").await;
        if answer.starts_with("HTTP/1.1 200") {
            assert!(answer.contains("content-length: 4194304\r\n"), "{answer}");
            open.push(raw);
            assert!(open.len() < 300, "none is refused");
        } else {
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\r\nretry-after: "), "{answer}");
            refused += 1;
        }
    }
    // Three quarters of all; more only if this took so long that the first ones were given up.
    assert!(open.len() >= 48, "{} were let in", open.len());
    assert_eq!(neighbour.get(&theirs).await.is(200).as_str().map(str::len), Some(300 * 1024));
    is_served(&world.client, 3).await;
    open.clear();
    until("there is room again", async || world.client.get(&own).await.status == 200).await;
}

#[tokio::test]
async fn a_tenant_has_its_part_of_the_streams() {
    let world = world(&[("ANSWERABLE_MAX_STREAMS", "8")]).await;
    let (_, neighbour) = world.neighbour(&json!({})).await;
    let later = crate::harness::seconds_from_now(3600.0);
    let body = json!({"agent": world.agent(&[]), "input": "go", "not_before": later});
    let events = |run: serde_json::Value| format!("/v1/runs/{}/events", run["id"].as_str().expect("an id"));
    let own = events(world.client.post("/v1/runs", &body).await.is(201));
    let theirs = events(neighbour.post("/v1/runs", &body).await.is(201));
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(world.client.stream(&own, None).await);
    }
    let ask = |client: &Client, path: &str| client.get(path).header("accept", "text/event-stream");
    ask(&world.client, &own).await.refused(429, "quota_exceeded");
    streams.push(neighbour.stream(&theirs, None).await);
    ask(&neighbour, &theirs).await.refused(429, "quota_exceeded");
    // What was read as a list is no stream.
    world.client.get(&own).await.ok();
    streams.clear();
    let nothing = "/v1/runs/run_00000000-0000-7000-8000-000000000000/events";
    until("there is room again", async || ask(&neighbour, nothing).await.status == 404).await;
    drop(world.client.stream(&own, None).await);
}
