//! When a run starts, and beside which others.

use std::time::Duration;

use answerable_testkit::{ModelReply, ToolAnswer};
use chrono::{DateTime, Utc};
use futures::future::join_all;
use serde_json::json;

use crate::harness::{Fits, World, seconds_from_now};

#[tokio::test]
async fn not_before_its_time() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("On time.")]);
    let due = seconds_from_now(1.2);
    let run = world.start_with(&world.agent(&[]), json!({"not_before": due})).await;
    run.now().await.fits(&json!({"status": "queued", "started_at": null}));
    let shown = run.ended().await;
    let time = |text: &str| text.parse::<DateTime<Utc>>().expect("a time");
    assert!(time(shown["started_at"].as_str().expect("a time")) >= time(&due), "{shown}");
}

#[tokio::test]
async fn runs_with_one_key_work_one_at_a_time() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::default().delayed(Duration::from_millis(80))]);
    for n in 0..3 {
        let model = format!("m{n}");
        world.model.script(&model, [ModelReply::calls([("look", json!({}))]), ModelReply::text("Seen.")]);
    }
    let mut runs = Vec::new();
    for n in 0..3 {
        let mut agent = world.agent(&[world.read("look")]);
        agent["model"]["model"] = format!("m{n}").into();
        runs.push(world.start_with(&agent, json!({"concurrency_key": "shop"})).await);
    }
    join_all(runs.iter().map(async |run| run.ended().await.fits(&json!({"concurrency_key": "shop"})))).await;
    assert_eq!((world.tools.requests("look").len(), world.tools.at_once("look")), (3, 1));
}

#[tokio::test]
async fn a_tenants_runs_beyond_its_quota_wait_or_are_refused() {
    let world = World::shared().await;
    let (_, client) = world.neighbour(&json!({"max_concurrent_runs": 1, "max_queued_runs": 1})).await;
    world
        .model
        .script("m", [ModelReply::text("one").held(), ModelReply::text("two"), ModelReply::text("three")]);
    let body = json!({"agent": world.agent(&[]), "input": "go"});
    let first = client.post("/v1/runs", &body).await.is(201);
    world.model.requests_reached(1).await;
    let second = client.post("/v1/runs", &body).await.is(201);
    // A refused request uses no key up.
    let late = || client.post("/v1/runs", &body).once("late").send();
    late().await.refused(429, "quota_exceeded");
    world.run(&second).through(&client).now().await.fits(&json!({"status": "queued"}));
    world.model.release();
    for run in [first, second] {
        world.run(&run).through(&client).when("the end", |run| run["status"] == "finished").await;
    }
    let third = late().await;
    assert!(!third.is_replayed());
    world.run(&third.is(201)).through(&client).when("the end", |run| run["status"] == "finished").await;
}

#[tokio::test]
async fn a_waiting_run_takes_no_place_of_the_quota() {
    let world = World::shared().await;
    let (_, client) = world.neighbour(&json!({"max_concurrent_runs": 1})).await;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("two")]);
    let mut pay = world.write("pay");
    pay["risk"] = "high".into();
    let body = json!({"agent": world.agent(&[pay]), "input": "go"});
    let first = client.post("/v1/runs", &body).await.is(201);
    let first = world.run(&first).through(&client);
    first.waiting().await;
    let second = client.post("/v1/runs", &body).await.is(201);
    world.run(&second).through(&client).when("the end", |run| run["status"] == "finished").await;
    first.cancel().await;
}

#[tokio::test]
async fn requests_by_the_minute_are_counted() {
    let world = World::shared().await;
    let (_, client) = world.neighbour(&json!({"max_requests_per_minute": 6})).await;
    let mut refused = 0;
    for _ in 0..8 {
        let answer = client.get("/v1/runs").await;
        refused += usize::from(answer.status == 429);
        if answer.status == 429 {
            answer.refused(429, "rate_limited");
        }
    }
    // Storing the provider was a request too.
    assert_eq!(refused, 3);
}

#[tokio::test]
async fn a_deadline_before_its_time_ends_a_run_that_never_starts() {
    let world = World::shared().await;
    let times = json!({"not_before": seconds_from_now(3600.0), "deadline": seconds_from_now(0.5)});
    let run = world.start_with(&world.agent(&[]), times).await;
    run.ended().await.fits(&json!({"status": "failed", "stop_reason": "timeout", "started_at": null}));
    assert!(world.model.requests().is_empty());
}
