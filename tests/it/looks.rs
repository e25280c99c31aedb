//! Who waits for a run looks at it: few at a time, and no longer than they wait, also where the database takes its time.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinHandle;

use crate::harness::{Answer, SOON, World, seconds_from_now, until};
use crate::stalled::{later, path, wait, world};

/// Holds up whatever looks, as if the database took its time, until the connection is dropped.
async fn hold(world: &World) -> PgConnection {
    let mut connection = connect(world).await;
    for statement in ["BEGIN", "LOCK TABLE approvals IN ACCESS EXCLUSIVE MODE"] {
        sqlx::query(statement).execute(&mut connection).await.expect("it is held");
    }
    connection
}

async fn connect(world: &World) -> PgConnection {
    PgConnection::connect(world.database_url()).await.expect("a connection")
}

/// Looks of waits that the database has not answered.
async fn looks(connection: &mut PgConnection) -> i64 {
    let looks = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%parked!%'";
    sqlx::query_scalar(looks).fetch_one(connection).await.expect("a number")
}

#[tokio::test]
async fn few_of_many_waits_look_at_a_time() {
    let world = world(&[]).await;
    let run = later(&world, &world.client).await;
    let waits: Vec<_> = (0..40).map(|_| wait(&world.client, path(&run, "/wait?timeout=60"))).collect();
    let mut watcher = connect(&world).await;
    let accepted = accepted(&world, &mut watcher, 3).await;
    let held = hold(&world).await;
    until("some look", async || looks(&mut watcher).await >= 3).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        let looks = looks(&mut watcher).await;
        assert!(looks <= 8, "{looks} look at once");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Nobody waits for the database longer than that: what was accepted is told, and what can't be seen is refused.
    let (told, refused) = tokio::join!(accepted, world.client.get(&path(&run, "/wait?timeout=1")));
    assert_eq!(told.expect("it ends").is(201)["status"], "queued");
    refused.refused(503, "unavailable");
    assert!(begun.elapsed() < Duration::from_secs(25), "it took {:?}", begun.elapsed());
    assert!(looks(&mut watcher).await <= 8);
    drop(held);
    world.client.post(&path(&run, "/cancel"), &json!({})).await.ok();
    for wait in waits {
        assert_eq!(wait.await.expect("it ends").is(200)["status"], "cancelled");
    }
}

#[tokio::test]
async fn looks_that_nobody_waits_for_any_more_count_until_the_database_has_answered() {
    let world = world(&[]).await;
    let path = path(&later(&world, &world.client).await, "/wait?timeout=0");
    let (held, mut watcher) = (hold(&world).await, connect(&world).await);
    for round in 1..=3 {
        for answer in join_all((0..12).map(|_| wait(&world.client, path.clone()))).await {
            answer.expect("it ends").refused(503, "unavailable");
        }
        let looks = looks(&mut watcher).await;
        assert!((1..=8).contains(&looks), "round {round}: {looks} look");
    }
    drop(held);
    assert_eq!(world.client.get(&path).await.is(200)["status"], "queued");
}

/// The answer of a run that was accepted by now, and is waited for so many seconds.
async fn accepted(world: &World, watcher: &mut PgConnection, seconds: u64) -> JoinHandle<Answer> {
    let body = json!({"agent": world.agent(&[]), "input": "go", "not_before": seconds_from_now(3600.0),
        "metadata": {"which": "accepted"}});
    let (client, prefer) = (world.client.clone(), format!("wait={seconds}"));
    let answer = tokio::spawn(async move { client.post("/v1/runs", &body).header("prefer", &prefer).await });
    until("it is accepted", async || {
        let runs = "SELECT count(*) FROM runs WHERE metadata ->> 'which' = 'accepted'";
        let runs: i64 = sqlx::query_scalar(runs).fetch_one(&mut *watcher).await.expect("a number");
        runs == 1
    })
    .await;
    answer
}

#[tokio::test]
async fn who_looks_hears_that_it_may_be_here_no_longer() {
    let world = world(&[]).await;
    let run = later(&world, &world.client).await;
    let (operator, keys) = (world.server.operator(), format!("/v1/tenants/{}/keys", world.tenant));
    let made = operator.post(&keys, &json!({"name": "k", "scopes": ["runs:read"]})).await.is(201);
    let client = world.client.with_key(made["secret"].as_str().expect("a secret"));
    let waiting = wait(&client, path(&run, "/wait?timeout=60"));
    let mut watcher = connect(&world).await;
    let held = hold(&world).await;
    until("it looks", async || looks(&mut watcher).await > 0).await;
    operator.delete(&format!("{keys}/{}", made["id"].as_str().expect("an id"))).await.is(204);
    let answer = tokio::time::timeout(SOON, waiting).await.expect("it is told").expect("an answer");
    answer.refused(401, "unauthorized");
    drop(held);
}

#[tokio::test]
async fn who_looks_is_answered_before_the_server_is_gone() {
    let world = world(&[]).await;
    let run = later(&world, &world.client).await;
    let mut watcher = connect(&world).await;
    let accepted = accepted(&world, &mut watcher, 60).await;
    let waiting = wait(&world.client, path(&run, "/wait?timeout=60"));
    let held = hold(&world).await;
    until("both look", async || looks(&mut watcher).await >= 2).await;
    let (told, refused, ()) = tokio::join!(accepted, waiting, world.server.stop());
    assert_eq!(told.expect("an answer").is(201)["status"], "queued");
    refused.expect("an answer").refused(503, "unavailable");
    drop(held);
}
