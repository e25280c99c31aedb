//! Whoever holds something open and takes nothing: it costs little, is bounded, and keeps nobody else waiting.

use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, TestDatabase};
use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::harness::{Answer, Client, Server, World, seconds_from_now, until};
use crate::raw::Raw;

/// Whoever isn't held up is answered within this; the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(10);
/// Streams that nobody reads.
const STALLED: usize = 40;
/// Events of a long run, of about 2 KiB each.
const EVENTS: u64 = 10_000;

pub(crate) async fn world(settings: &[(&str, &str)]) -> World {
    let database = TestDatabase::create().await.expect("a database");
    let server = Server::start_with(&database.url, settings).await;
    World::on(server.into(), Some(database)).await
}

/// A run that does not begin for an hour.
pub(crate) async fn later(world: &World, client: &Client) -> Value {
    let body = json!({"agent": world.agent(&[]), "input": "go", "not_before": seconds_from_now(3600.0)});
    client.post("/v1/runs", &body).await.is(201)
}

pub(crate) fn path(run: &Value, rest: &str) -> String {
    format!("/v1/runs/{}{rest}", run["id"].as_str().expect("an id"))
}

/// Gives a run that has one event as many as a long one has.
async fn lengthen(world: &World, run: &Value) {
    let more = "WITH more AS (
            INSERT INTO events (tenant_id, run_id, seq, event_id, type, step, data, at)
            SELECT tenant_id, run_id, n, gen_random_uuid(), 'context.built', 1,
                json_build_object('text', repeat('x', 2000)), now()
            FROM runs, generate_series(2, 10000) n WHERE run_id = $1 RETURNING seq)
        SELECT count(*) FROM more";
    let made: Option<i64> = world.sql(more, run["id"].as_str().expect("an id")).await;
    assert_eq!(made.map(|made| made.unsigned_abs() + 1), Some(EVENTS));
}

/// Numbers of the events that come until there was the last one of a long run.
async fn rest(mut raw: Raw, first: String) -> Vec<u64> {
    let (mut numbers, mut text) = (Vec::new(), first);
    loop {
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let left = text.split_off(whole);
        numbers.extend(text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse::<u64>().ok()));
        if numbers.last() == Some(&EVENTS) {
            return numbers;
        }
        let more = raw.next().await;
        assert!(!more.is_empty(), "it ended after {:?}", numbers.last());
        text = left + &String::from_utf8_lossy(&more);
    }
}

#[tokio::test]
async fn streams_that_nobody_reads_hold_little_memory_and_miss_nothing_when_they_go_on() {
    let world = world(&[]).await;
    let run = later(&world, &world.client).await;
    lengthen(&world, &run).await;
    let key = world.client.key().expect("a key");
    let ask = format!(
        "GET {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nAccept: text/event-stream\r\n\r\n",
        path(&run, "/events")
    );
    // What a server needs for any stream at all is not counted.
    let whole = |mut raw: Raw| async {
        raw.send(&ask).await;
        let first = raw.until("event: run.queued").await;
        (raw, first)
    };
    let (raw, first) = whole(Raw::to(&world.server).await).await;
    let all: Vec<u64> = (1..=EVENTS).collect();
    assert_eq!(rest(raw, first).await, all);
    let before = world.server.memory();
    let _stalled =
        join_all((0..STALLED).map(|_| async { whole(Raw::reluctant(&world.server).await).await })).await;
    // Those may be given up before they are measured, if it takes long to open them all.
    let (raw, first) = whole(Raw::reluctant(&world.server).await).await;
    let (mut most, begun) = (0, Instant::now());
    while begun.elapsed() < Duration::from_secs(6) {
        most = most.max(world.server.memory().saturating_sub(before));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(most < 48 << 20, "{STALLED} streams took {} KiB each", most / 1024 / STALLED as u64);
    assert_eq!(rest(raw, first).await, all);
}

/// Waits for a run, again and again as long as there is no place.
pub(crate) fn wait(client: &Client, path: String) -> JoinHandle<Answer> {
    let client = client.clone();
    tokio::spawn(async move {
        let begun = Instant::now();
        loop {
            let answer = client.get(&path).await;
            if answer.status != 429 || begun.elapsed() > SOON {
                return answer;
            }
        }
    })
}

#[tokio::test]
async fn waits_have_their_part_of_the_places_and_what_was_accepted_is_answered_without() {
    let world = world(&[("ANSWERABLE_MAX_STREAMS", "8")]).await;
    let (_, neighbour) = world.neighbour(&json!({})).await;
    let run = later(&world, &world.client).await;
    let theirs = later(&world, &neighbour).await;
    let ended = ended(&world, &world.client).await;
    let long = path(&run, "/wait?timeout=60");
    let waits: Vec<_> = (0..6).map(|_| wait(&world.client, long.clone())).collect();
    let short = path(&run, "/wait?timeout=1");
    until("all have a place", async || world.client.get(&short).await.status == 429).await;
    world.client.get(&long).await.refused(429, "quota_exceeded");
    let stream = world.client.get(&path(&run, "/events")).header("accept", "text/event-stream");
    stream.await.refused(429, "quota_exceeded");
    // What needs no waiting needs no place.
    let nothing = "/v1/runs/run_00000000-0000-7000-8000-000000000000/wait";
    world.client.get(nothing).await.refused(404, "not_found");
    assert_eq!(world.client.get(&path(&run, "/wait?timeout=0")).await.is(200)["status"], "queued");
    assert_eq!(world.client.get(&path(&ended, "/wait")).await.is(200)["status"], "finished");
    // It was accepted: that is told, and told at once.
    let body = json!({"agent": world.agent(&[]), "input": "go", "not_before": seconds_from_now(3600.0)});
    let begun = Instant::now();
    let accept = async |nth| {
        let ask = world.client.post("/v1/runs", &body).once("it").header("prefer", "wait=60");
        let shown = ask.await.is(201);
        assert_eq!(shown["status"], "queued", "{nth}");
        shown
    };
    let accepted = accept("first").await;
    accept("again").await;
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    // Another tenant has a place.
    neighbour.get(&path(&theirs, "/wait?timeout=1")).await.is(200);
    assert!(waits.iter().all(|wait| !wait.is_finished()));
    world.client.post(&path(&run, "/cancel"), &json!({})).await.ok();
    for wait in waits {
        assert_eq!(wait.await.expect("it ends").is(200)["status"], "cancelled");
    }
    let short = path(&accepted, "/wait?timeout=1");
    until("there is room again", async || world.client.get(&short).await.status == 200).await;
}

/// A run that has ended.
async fn ended(world: &World, client: &Client) -> Value {
    world.model.script("m", [ModelReply::text("Done.")]);
    let body = json!({"agent": world.agent(&[]), "input": "go"});
    let run = client.post("/v1/runs", &body).header("prefer", "wait=60").await.is(201);
    assert_eq!(run["status"], "finished");
    run
}

#[tokio::test]
async fn one_tenants_replays_keep_no_other_from_its_traces() {
    let world = world(&[]).await;
    let (_, neighbour) = world.neighbour(&json!({})).await;
    let own = ended(&world, &world.client).await;
    let theirs = ended(&world, &neighbour).await;
    // What the tenant writes waits for this.
    let mut lock = PgConnection::connect(world.database_url()).await.expect("a connection");
    let mut held = lock.begin().await.expect("a transaction");
    let tenant: Uuid = world.tenant.trim_start_matches("ten_").parse().expect("an id");
    let taken = "SELECT FROM tenants WHERE tenant_id = $1 FOR UPDATE";
    sqlx::query(taken).bind(tenant).execute(&mut *held).await.expect("a lock");
    let replay = |_| {
        let (client, path) = (world.client.clone(), path(&own, "/replay"));
        tokio::spawn(async move { client.post(&path, &json!({"tools": "recorded"})).await })
    };
    let replays: Vec<_> = (0..30).map(replay).collect();
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let mut watcher = PgConnection::connect(world.database_url()).await.expect("a connection");
    until("some are under way", async || {
        let waiting: i64 = sqlx::query_scalar(waiting).fetch_one(&mut watcher).await.expect("a number");
        waiting >= 2
    })
    .await;
    for _ in 0..5 {
        let begun = Instant::now();
        neighbour.get(&path(&theirs, "/trace")).await.is(200);
        assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    }
    assert!(replays.iter().all(|replay| !replay.is_finished()), "all of them wait");
    held.rollback().await.expect("let go");
    for replay in replays {
        replay.await.expect("it ends").is(201);
    }
}
