//! Runs that are started again and again: what schedules may be, what becomes of each due time, and that it does so once.

mod crashes;
mod due;
mod made;
mod makers;

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::harness::{Client, With, World};

/// Longest time that something may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A body for a schedule that is due once a year, with changes; null leaves a field of its run out.
fn body(world: &World, changes: Value) -> Value {
    let run = json!({"agent": world.agent(&[]), "input": "go"});
    let mut body = json!({"name": "report", "cron": "0 0 1 1 *", "run": run}).with(changes);
    if let Some(run) = body["run"].as_object_mut() {
        run.retain(|_, value| !value.is_null());
    }
    body
}

/// A provider that always has an answer.
async fn answers(world: &World) {
    let words = json!({"kind": "scripted", "script": [{"final": "ok"}]});
    world.client.put("/v1/providers/main", &words).await.ok();
}

/// A schedule, by its id.
async fn made(world: &World, changes: Value) -> String {
    let made = world.client.post("/v1/schedules", &body(world, changes)).await.is(201);
    made["id"].as_str().expect("an id").to_owned()
}

fn path(schedule: &str) -> String {
    format!("/v1/schedules/{schedule}")
}

async fn database(world: &World) -> PgConnection {
    PgConnection::connect(world.database_url()).await.expect("a connection")
}

/// Lets a schedule have been due so many seconds ago; gives the moment.
async fn due_since(world: &World, schedule: &str, seconds: f64) -> DateTime<Utc> {
    let id: Uuid = schedule.trim_start_matches("sch_").parse().expect("a schedule's id");
    let query = "UPDATE schedules SET next_at = date_trunc('milliseconds', clock_timestamp()) - make_interval(secs => $2)
                 WHERE schedule_id = $1 RETURNING next_at";
    let mut database = database(world).await;
    let at = sqlx::query_scalar(query).bind(id).bind(seconds).fetch_one(&mut database).await;
    at.expect("a schedule")
}

/// What became of a schedule, as soon as that are so many, newest first. A server that is away meanwhile is waited for.
async fn firings(client: &Client, schedule: &str, many: usize) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = client.get(&format!("{}/firings?limit=200", path(schedule))).try_send().await;
        let found =
            answer.ok().filter(|answer| answer.status != 503).map(|answer| answer.ok()["data"].take());
        if let Some(Value::Array(found)) = &found
            && found.len() >= many
        {
            assert_eq!(found.len(), many, "{found:#?}");
            return found.clone();
        }
        assert!(Instant::now() < deadline, "waiting for {many}: {found:#?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// What a due time came to that is let come now.
async fn fired(world: &World, schedule: &str) -> Value {
    let before = world.client.get(&format!("{}/firings?limit=200", path(schedule))).await.ok();
    let many = before["data"].as_array().expect("a list").len() + 1;
    let due = due_since(world, schedule, 0.0).await;
    let newest = firings(&world.client, schedule, many).await.swap_remove(0);
    assert_eq!(time(&newest["due_at"]), due);
    world.client.get(&path(schedule)).await.fits(&json!({"last": newest.clone()}));
    newest
}

fn time(shown: &Value) -> DateTime<Utc> {
    shown.as_str().expect("a time").parse().expect("a time")
}
