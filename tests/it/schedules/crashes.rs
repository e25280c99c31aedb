//! One run for each due time, however many servers there are and whenever they die.

use std::collections::BTreeSet;

use serde_json::json;
use sqlx::PgConnection;

use super::{answers, database, fired, firings, made, path};
use crate::harness::{Client, Fits, World, until};

async fn count(database: &mut PgConnection, of: &'static str) -> i64 {
    sqlx::query_scalar(of).fetch_one(database).await.expect("a count")
}

const FIRINGS: &str = "SELECT count(*) FROM schedule_firings";

/// So many schedules, all due at once.
async fn many_due(world: &World, many: usize) -> Vec<String> {
    let one = made(world, json!({"cron": "@yearly", "skip_if_running": false})).await;
    let mut database = database(world).await;
    sqlx::query(
        "INSERT INTO schedules (tenant_id, schedule_id, name, cron, timezone, run, skip_if_running, metadata, created_by,
             updated_by, asker, creators, as_admin, created_at, updated_at, next_at, dealt_until)
         SELECT tenant_id, uuid_v7(), name, cron, timezone, run, skip_if_running, metadata, created_by, updated_by, asker,
             creators, as_admin, created_at, updated_at, next_at, dealt_until
         FROM schedules, generate_series(2, $1)",
    )
    .bind(i32::try_from(many).expect("few"))
    .execute(&mut database)
    .await
    .expect("schedules");
    sqlx::query("UPDATE schedules SET next_at = clock_timestamp()")
        .execute(&mut database)
        .await
        .expect("due");
    assert!(!one.is_empty());
    let ids =
        sqlx::query_scalar("SELECT 'sch_' || schedule_id FROM schedules").fetch_all(&mut database).await;
    ids.expect("schedules")
}

async fn each_has_one_run(client: &Client, world: &World, schedules: &[String]) {
    let mut runs = BTreeSet::new();
    for schedule in schedules {
        let fired = firings(client, schedule, 1).await.swap_remove(0);
        fired.fits(&json!({"outcome": "started", "run_id": "*"}));
        client
            .get(&format!("/v1/runs?schedule_id={schedule}"))
            .await
            .fits(&json!({"data": [{"id": fired["run_id"]}]}));
        runs.insert(fired["run_id"].to_string());
    }
    assert_eq!(runs.len(), schedules.len());
    let all = count(&mut database(world).await, "SELECT count(*) FROM runs").await;
    assert_eq!(usize::try_from(all), Ok(schedules.len()));
}

#[tokio::test]
async fn several_servers_and_one_that_dies_start_each_run_once() {
    let world = World::alone().await;
    answers(&world).await;
    let others = [world.server.beside().await, world.server.beside().await];
    let schedules = many_due(&world, 120).await;
    let mut database = database(&world).await;
    until("ten have been started", async || count(&mut database, FIRINGS).await >= 10).await;
    world.server.kill();
    assert!(count(&mut database, FIRINGS).await < 120, "it died too late to prove anything");
    each_has_one_run(&world.client.at(others[0].url()), &world, &schedules).await;
}

#[tokio::test]
async fn a_server_that_stops_leaves_what_it_had_begun() {
    let world = World::alone().await;
    answers(&world).await;
    let schedules = many_due(&world, 120).await;
    let mut database = database(&world).await;
    until("ten have been started", async || count(&mut database, FIRINGS).await >= 10).await;
    world.server.stop().await;
    let stopped = count(&mut database, FIRINGS).await;
    assert!(stopped < 120, "it stopped too late to prove anything");
    world.server.start_again().await;
    each_has_one_run(&world.client, &world, &schedules).await;
}

#[tokio::test]
async fn what_was_due_while_no_server_worked_is_missed_or_made_up_for() {
    let world = World::alone().await;
    answers(&world).await;
    let (late, long_past) = (made(&world, json!({})).await, made(&world, json!({})).await);
    world.server.stop().await;
    super::due_since(&world, &late, 20.0).await;
    super::due_since(&world, &long_past, 90.0).await;
    world.server.start_again().await;
    firings(&world.client, &late, 1).await[0].fits(&json!({"outcome": "started"}));
    firings(&world.client, &long_past, 1).await[0].fits(&json!({"outcome": "missed"}));
    fired(&world, &long_past).await.fits(&json!({"outcome": "started"}));
}

#[tokio::test]
async fn a_tenant_goes_with_its_schedules() {
    let world = World::alone().await;
    answers(&world).await;
    many_due(&world, 40).await;
    let id = made(&world, json!({})).await;
    let operator = world.server.operator();
    operator.delete(&format!("/v1/tenants/{}", world.tenant)).await.is(204);
    world.client.get(&path(&id)).await.refused(401, "unauthorized");
    let mut database = database(&world).await;
    for left in ["SELECT count(*) FROM schedules", FIRINGS, "SELECT count(*) FROM runs"] {
        assert_eq!(count(&mut database, left).await, 0, "{left}");
    }
}
