//! Tokens and money of a day: all servers together never use more than there is, and whoever finds nothing left says so.

use std::time::Duration;

use answerable_testkit::ModelReply;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World, away_from_midnight, seconds_from_now, until};

/// The tenant's quotas from here on.
async fn limit(world: &World, quotas: Value) {
    let path = format!("/v1/tenants/{}", world.tenant);
    world.server.operator().patch(&path, &json!({"quotas": quotas})).await.ok();
}

/// What is told of one of the tenant's quotas.
async fn quota(world: &World, name: &str) -> Value {
    let quotas = world.client.get("/v1/quotas").await.ok();
    let found = quotas["data"].as_array().into_iter().flatten().find(|quota| quota["name"] == name);
    found.cloned().expect("a quota of that name")
}

/// All that the tenant used.
async fn used(world: &World, what: &str) -> u64 {
    let usage = world.client.get("/v1/usage").await.ok();
    usage["data"].as_array().into_iter().flatten().map(|row| row[what].as_u64().expect("a number")).sum()
}

/// An agent whose replies have so many tokens at most.
fn brief(world: &World, most: u64) -> Value {
    world.agent(&[]).with(json!({"model": {"max_output_tokens": most}}))
}

/// The body of a request for a run.
fn wanted(agent: &Value) -> Value {
    json!({"agent": agent, "input": "go"})
}

fn is_used_up(reason: &str, quota: &str) -> Value {
    json!({"status": "failed", "stop_reason": reason, "error": {"code": "quota_exceeded"},
        "final_answer": format!("~{quota}")})
}

/// A run that is there, whatever becomes of the request.
async fn started<'w>(world: &'w World, agent: &Value, n: usize) -> Option<Run<'w>> {
    let answer =
        world.client.post("/v1/runs", &wanted(agent).with(json!({"input": format!("go {n}")}))).await;
    if answer.status == 429 {
        answer.refused(429, "quota_exceeded");
        return None;
    }
    Some(world.run(&answer.is(201)))
}

#[tokio::test]
async fn no_more_tokens_are_used_over_two_servers_than_a_day_has() {
    away_from_midnight().await;
    let world = World::alone().await;
    let other = world.server.beside().await;
    limit(&world, json!({"max_tokens_per_day": 900})).await;
    let reply = ModelReply::text("Done.").usage(5, 30).within_bounds().delayed(Duration::from_millis(20));
    world.model.script("m", [reply]);
    world.model.repeat_last("m");
    let agent = brief(&world, 40);
    let runs: Vec<Run> =
        join_all((0..60).map(|n| started(&world, &agent, n))).await.into_iter().flatten().collect();
    let ended = join_all(runs.iter().map(Run::ended)).await;
    let finished = ended.iter().filter(|run| run["status"] == "finished").count();
    for run in ended.iter().filter(|run| run["status"] != "finished") {
        if run["error"]["code"] != "reply_truncated" {
            run.fits(&is_used_up("max_tokens", "max_tokens_per_day"));
            // Nothing, or a reply that was cut short to fit.
            run.fits(&json!({"budgets": {"used": {"tokens": {"$le": 45}}}}));
        }
    }
    let tokens = used(&world, "tokens").await;
    assert!(tokens <= 900, "{tokens} tokens were used");
    assert!((20..60).contains(&finished), "{finished} finished with {tokens}");
    quota(&world, "max_tokens_per_day").await.fits(&json!({"limit": 900, "used": tokens, "reserved": 0}));
    drop(other);
}

#[tokio::test]
async fn no_more_money_is_spent_than_a_day_has() {
    away_from_midnight().await;
    let world = World::alone().await;
    let other = world.server.beside().await;
    let prices = json!({"m": {"input_microusd_per_mtok": 1_000_000, "output_microusd_per_mtok": 4_000_000}});
    world.provider(&world.client, json!({"prices": prices})).await;
    limit(&world, json!({"max_cost_microusd_per_day": 3_000})).await;
    let reply = ModelReply::text("Done.").usage(5, 30).within_bounds().delayed(Duration::from_millis(20));
    world.model.script("m", [reply]);
    world.model.repeat_last("m");
    let agent = brief(&world, 40);
    let runs: Vec<Run> =
        join_all((0..40).map(|n| started(&world, &agent, n))).await.into_iter().flatten().collect();
    for run in join_all(runs.iter().map(Run::ended)).await {
        if run["status"] != "finished" && run["error"]["code"] != "reply_truncated" {
            run.fits(&is_used_up("max_cost", "max_cost_microusd_per_day"));
        }
    }
    let money = used(&world, "cost_microusd").await;
    assert!((2_000..=3_000).contains(&money), "{money} of 3000 were spent");
    quota(&world, "max_cost_microusd_per_day").await.fits(&json!({"used": money, "reserved": 0}));
    drop(other);
}

/// Who waits for others costs nothing, can be cancelled, and goes on when they are back.
#[tokio::test]
async fn what_others_may_take_is_waited_for() {
    away_from_midnight().await;
    let world = World::shared().await;
    limit(&world, json!({"max_tokens_per_day": 400})).await;
    world.model.script("m", [ModelReply::text("First.").usage(10, 50).held(), ModelReply::text("Then.")]);
    let agent = brief(&world, 300);
    let first = world.start(&agent).await;
    world.model.requests_reached(1).await;
    let reserved = quota(&world, "max_tokens_per_day").await["reserved"].as_u64().expect("a number");
    assert!(reserved > 300, "{reserved}");
    let (second, third) = (world.start(&agent).await, world.start(&agent).await);
    for run in [&second, &third] {
        run.when("to ask its model", |run| run["budgets"]["used"]["steps"] == 1).await;
    }
    third.cancel().await;
    third.ended().await.fits(&json!({"status": "cancelled", "budgets": {"used": {"tokens": 0}}}));
    assert_eq!(world.model.requests().len(), 1, "nothing fits beside it");
    world.model.release();
    first.ended().await.fits(&json!({"final_answer": "First."}));
    second.ended().await.fits(&json!({"final_answer": "Then.", "attempt": 1}));
    second.list("steps").await.fits(&json!([{"model": {"attempts": 1, "failures": []}}]));
    quota(&world, "max_tokens_per_day").await.fits(&json!({"used": 75, "reserved": 0}));
}

/// A run that waits has its own limit of time.
#[tokio::test]
async fn nobody_waits_longer_than_the_run_may() {
    away_from_midnight().await;
    let world = World::shared().await;
    limit(&world, json!({"max_tokens_per_day": 400})).await;
    world.model.script("m", [ModelReply::text("First.").held()]);
    let agent = brief(&world, 300);
    let first = world.start(&agent).await;
    world.model.requests_reached(1).await;
    let second = world.start(&agent.clone().with(json!({"budgets": {"timeout_ms": 400}}))).await;
    second.ended().await.fits(&json!({"stop_reason": "timeout", "budgets": {"used": {"tokens": 0}}}));
    world.model.release();
    first.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn a_run_that_used_up_the_day_is_continued_on_the_next() {
    away_from_midnight().await;
    let world = World::alone().await;
    limit(&world, json!({"max_tokens_per_day": 150})).await;
    let calls = ModelReply::calls([("look", json!({}))]).usage(60, 30);
    world.model.script("m", [calls, ModelReply::text("Seen.").usage(70, 5)]);
    let agent = world.agent(&[world.read("look")]).with(json!({"instructions": "You test. ".repeat(20)}));
    let run = world.start(&agent).await;
    let ended = run.ended().await;
    ended.fits(&is_used_up("max_tokens", "max_tokens_per_day"));
    ended.fits(&json!({"budgets": {"used": {"steps": 2, "tokens": 90}}, "error": {"step": 2}}));
    assert_eq!(world.model.requests().len(), 1);
    assert!(!run.event_types().await.contains(&"model.failed".to_owned()));
    // A later day.
    let query = "WITH moved AS (UPDATE day_use SET day = day - 1 RETURNING 1)
        SELECT count(*) FROM moved WHERE $1::uuid IS NOT NULL";
    assert_eq!(world.sql::<i64>(query, &run.id).await, Some(1));
    let more = world.client.post(&run.path("/continue"), &json!({})).await.is(201);
    world.run(&more).ended().await.fits(&json!({"status": "finished", "final_answer": "Seen."}));
    // What it brought along is on no second bill.
    assert_eq!(used(&world, "tokens").await, 165);
}

#[tokio::test]
async fn a_day_that_is_used_up_takes_no_more_runs() {
    away_from_midnight().await;
    let world = World::shared().await;
    limit(&world, json!({"max_tokens_per_day": 60})).await;
    world.model.script("m", [ModelReply::text("Done.").usage(40, 20)]);
    world.start(&brief(&world, 30)).await.ended().await.fits(&json!({"status": "finished"}));
    let refused = world.client.post("/v1/runs", &wanted(&brief(&world, 20))).await;
    let after: u64 = refused.header("retry-after").and_then(|text| text.parse().ok()).expect("a time");
    assert!((1..=86_400).contains(&after), "{after}");
    refused.refused(429, "quota_exceeded");
}

/// What a server held when it died holds nobody else up.
#[tokio::test]
async fn a_server_that_dies_takes_no_allowance_along() {
    away_from_midnight().await;
    let world = World::alone().await;
    limit(&world, json!({"max_tokens_per_day": 400})).await;
    world.model.script("m", [ModelReply::text("Lost.").held(), ModelReply::text("Done.")]);
    let run = world.start(&brief(&world, 300)).await;
    world.model.requests_reached(1).await;
    world.server.crash().await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Done."}));
    quota(&world, "max_tokens_per_day").await.fits(&json!({"used": 15, "reserved": 0}));
    world.model.release();
}

#[tokio::test]
async fn a_hundred_who_want_the_last_places_of_a_queue_get_just_those() {
    away_from_midnight().await;
    let world = World::shared().await;
    limit(&world, json!({"max_queued_runs": 7})).await;
    let wanted = wanted(&world.agent(&[])).with(json!({"not_before": seconds_from_now(3600.0)}));
    let asked = join_all((0..100).map(|_| world.client.post("/v1/runs", &wanted).send())).await;
    let made: Vec<_> = asked.into_iter().filter(|answer| answer.status != 429).collect();
    assert_eq!(made.len(), 7);
    quota(&world, "max_queued_runs").await.fits(&json!({"limit": 7, "used": 7, "resets_at": null}));
    for answer in made {
        world.run(&answer.is(201)).cancel().await;
    }
    until("nothing is queued", async || quota(&world, "max_queued_runs").await["used"] == 0).await;
}
