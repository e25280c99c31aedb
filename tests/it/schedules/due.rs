//! What becomes of a due time.

use answerable_testkit::ModelReply;
use chrono::{DateTime, TimeDelta, Timelike as _, Utc};
use serde_json::{Value, json};

use super::{answers, database, due_since, fired, firings, made, path, time};
use crate::harness::{Fits, With, World};

#[tokio::test]
async fn a_run_is_started_in_the_agents_newest_version() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("one"), ModelReply::text("two")]);
    let spec = world.agent(&[]);
    let agent = world.client.post("/v1/agents", &spec).await.is(201);
    let id = made(&world, json!({"run": {"agent": null, "agent_id": agent["id"], "priority": 3}})).await;
    let first = fired(&world, &id).await;
    first.fits(&json!({"outcome": "started", "triggered_by": null, "problem": null}));
    let run = world.run(&json!({"id": first["run_id"]}));
    run.ended()
        .await
        .fits(&json!({"schedule_id": id, "due_at": first["due_at"], "agent_version": 1, "priority": 3}));
    let newer = spec.with(json!({"instructions": "Help better."}));
    world.client.put(&format!("/v1/agents/{}", agent["id"].as_str().expect("an id")), &newer).await.ok();
    let second = fired(&world, &id).await;
    let run = world.run(&json!({"id": second["run_id"]}));
    run.ended().await.fits(&json!({"agent_version": 2, "final_answer": "two"}));
    let next = world.client.get(&path(&id)).await.ok();
    assert!(time(&next["next_at"]) > Utc::now());
    // A run that is deleted takes no trace of what became of the time along.
    run.client().delete(&run.path("")).await.is(204);
    let kept = firings(&world.client, &id, 2).await;
    kept[0].fits(&json!({"outcome": "started", "run_id": null}));
    // Nobody asked for these runs, so no entry says so.
    let entries = world.client.get("/v1/audit?action=schedule.*").await.ok();
    entries.fits(&json!({"data": [{"action": "schedule.create", "target": {"type": "schedule", "id": id}}]}));
}

#[tokio::test]
async fn while_a_run_of_it_has_not_ended_the_next_is_skipped() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("one").held(), ModelReply::text("two")]);
    let id = made(&world, json!({})).await;
    let first = fired(&world, &id).await;
    first.fits(&json!({"outcome": "started"}));
    world.model.requests_reached(1).await;
    fired(&world, &id).await.fits(&json!({"outcome": "skipped", "run_id": null, "problem": null}));
    world.model.release();
    world.run(&json!({"id": first["run_id"]})).ended().await;
    let second = fired(&world, &id).await;
    second.fits(&json!({"outcome": "started"}));
    world.run(&json!({"id": second["run_id"]})).ended().await.fits(&json!({"final_answer": "two"}));
    assert_eq!(world.model.requests_for("m").len(), 2);
}

#[tokio::test]
async fn where_it_may_one_run_goes_beside_another() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("one").held(), ModelReply::text("two").held()]);
    let id = made(&world, json!({"skip_if_running": false})).await;
    for _ in 0..2 {
        fired(&world, &id).await.fits(&json!({"outcome": "started"}));
    }
    world.model.requests_reached(2).await;
    world.model.release();
    world.model.release();
    for fired in firings(&world.client, &id, 2).await {
        world.run(&json!({"id": fired["run_id"]})).ended().await;
    }
}

#[tokio::test]
async fn what_is_long_past_is_missed_once() {
    let world = World::shared().await;
    // Every five minutes, and not for two from now: no time is due by itself meanwhile.
    let cron = format!("{}-59/5 * * * *", (Utc::now().minute() + 3) % 5);
    let id = made(&world, json!({"cron": cron})).await;
    let due = due_since(&world, &id, 3600.0).await;
    let missed = firings(&world.client, &id, 1).await.swap_remove(0);
    missed.fits(&json!({"outcome": "missed", "run_id": null}));
    assert_eq!(time(&missed["due_at"]), due);
    let next = time(&world.client.get(&path(&id)).await.ok()["next_at"]);
    assert!(next > Utc::now() && next < Utc::now() + TimeDelta::minutes(4), "{next}");
    world.client.get("/v1/runs").await.fits(&json!({"data": []}));
}

#[tokio::test]
async fn what_was_seen_in_time_has_its_turn() {
    let world = World::shared().await;
    answers(&world).await;
    let (late, too_late) = (made(&world, json!({})).await, made(&world, json!({})).await);
    for (schedule, seconds, outcome) in [(&late, 300.0, "started"), (&too_late, 1000.0, "missed")] {
        let due = seen_late(&world, schedule, seconds).await;
        let fired = firings(&world.client, schedule, 1).await.swap_remove(0);
        fired.fits(&json!({"outcome": outcome}));
        assert_eq!(time(&fired["due_at"]), due);
    }
}

/// Lets a schedule have been due so many seconds ago, and seen to be, and have had no turn.
async fn seen_late(world: &World, schedule: &str, seconds: f64) -> DateTime<Utc> {
    let id: uuid::Uuid = schedule.trim_start_matches("sch_").parse().expect("a schedule's id");
    let query = "UPDATE schedules SET next_at = date_trunc('milliseconds', clock_timestamp()) - make_interval(secs => $2),
                     seen_at = clock_timestamp() - make_interval(secs => $2)
                 WHERE schedule_id = $1 RETURNING next_at";
    let mut database = database(world).await;
    let at = sqlx::query_scalar(query).bind(id).bind(seconds).fetch_one(&mut database).await;
    at.expect("a schedule")
}

#[tokio::test]
async fn what_is_refused_says_why_and_the_schedule_goes_on() {
    let world = World::shared().await;
    answers(&world).await;
    let agent = world.client.post("/v1/agents", &world.agent(&[])).await.is(201);
    let agent = agent["id"].as_str().expect("an id");
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    let thread = thread["id"].as_str().expect("an id");
    let id = made(&world, json!({"run": {"agent": null, "agent_id": agent, "thread_id": thread}})).await;
    let refused = |code: &str, words: &str| json!({"outcome": "refused", "run_id": null, "problem": {"code": code, "message": words}});
    fired(&world, &id).await.fits(&json!({"outcome": "started"}));
    let run = world.client.get(&format!("/v1/runs?schedule_id={id}")).await.ok();
    world.run(&run["data"][0]).ended().await;
    world.client.delete(&format!("/v1/threads/{thread}")).await.is(204);
    fired(&world, &id).await.fits(&refused("invalid_request", "/run/thread_id there is no such thread."));
    let plain = json!({"run": {"agent_id": agent, "input": "go"}});
    world.client.patch(&path(&id), &plain).await.ok();
    let operator = world.server.operator();
    let quotas = async |quotas: Value| {
        let tenant = format!("/v1/tenants/{}", world.tenant);
        operator.patch(&tenant, &json!({"quotas": quotas})).await.ok();
    };
    quotas(json!({"max_queued_runs": 0})).await;
    fired(&world, &id).await.fits(&refused("quota_exceeded", "The queue is full (max_queued_runs)."));
    quotas(json!({"max_queued_runs": null})).await;
    world.client.delete(&format!("/v1/agents/{agent}")).await.is(204);
    fired(&world, &id).await.fits(&refused("invalid_request", "/run/agent_id the agent is archived."));
    world.client.post(&format!("{}/trigger", path(&id)), &json!({})).await.refused_at("/run/agent_id");
    world.client.patch(&path(&id), &json!({"cron": "@daily"})).await.refused_at("/run/agent_id");
    world.client.get(&format!("/v1/runs?schedule_id={id}")).await.fits(&json!({"data": {"$len": 1}}));
}

#[tokio::test]
async fn nothing_is_due_while_it_is_paused_or_the_tenant_suspended() {
    let world = World::shared().await;
    answers(&world).await;
    let (paused, other) = (made(&world, json!({"paused": true})).await, made(&world, json!({})).await);
    due_since(&world, &paused, 0.0).await;
    // Whoever looks after this sees both.
    fired(&world, &other).await.fits(&json!({"outcome": "started"}));
    firings(&world.client, &paused, 0).await;
    world.client.patch(&path(&paused), &json!({"paused": false})).await.ok();
    firings(&world.client, &paused, 1).await[0].fits(&json!({"outcome": "missed"}));
    suspend(&world, "now()").await;
    let due = due_since(&world, &paused, 61.0).await;
    let (_, neighbour) = world.neighbour(&json!({})).await;
    let theirs = neighbour.post("/v1/schedules", &super::body(&world, json!({}))).await.is(201);
    let theirs = theirs["id"].as_str().expect("an id");
    due_since(&world, theirs, 0.0).await;
    firings(&neighbour, theirs, 1).await;
    suspend(&world, "NULL").await;
    let after = firings(&world.client, &paused, 2).await;
    after[0].fits(&json!({"outcome": "missed", "run_id": null}));
    assert_eq!(time(&after[0]["due_at"]), due);
}

/// Suspends the tenant, past whoever caches that.
async fn suspend(world: &World, since: &'static str) {
    let id: uuid::Uuid = world.tenant.trim_start_matches("ten_").parse().expect("a tenant's id");
    let query =
        sqlx::AssertSqlSafe(format!("UPDATE tenants SET suspended_at = {since} WHERE tenant_id = '{id}'"));
    sqlx::query(query).execute(&mut database(world).await).await.expect("a tenant");
}
