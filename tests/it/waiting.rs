//! Answers that are held until there is something to say.

use std::time::{Duration, Instant};

use answerable_testkit::ModelReply;
use serde_json::json;

use crate::harness::{Fits, With, World};

#[tokio::test]
async fn an_answer_is_held_until_the_end() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Soon.").delayed(Duration::from_millis(300))]);
    let body = json!({"agent": world.agent(&[]), "input": "go"});
    let answer = world.client.post("/v1/runs", &body).header("prefer", "wait=20").await;
    assert!(answer.header("location").is_some());
    answer.is(201).fits(&json!({"status": "finished", "final_answer": "Soon."}));
}

#[tokio::test]
async fn an_answer_is_held_no_longer_than_asked_and_the_run_goes_on() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Later.").held()]);
    let body = json!({"agent": world.agent(&[]), "input": "go"});
    let begun = Instant::now();
    let shown = world.client.post("/v1/runs", &body).header("prefer", "wait=1").await.is(201);
    shown.fits(&json!({"status": "running"}));
    assert!(begun.elapsed() >= Duration::from_millis(950) && begun.elapsed() < Duration::from_secs(5));
    let run = world.run(&shown);
    world.client.get(&run.path("/wait?timeout=1")).await.fits(&json!({"status": "running"}));
    world.model.release();
    run.ended().await.fits(&json!({"final_answer": "Later."}));
    // An ended run is not waited for.
    let begun = Instant::now();
    world.client.get(&run.path("/wait?timeout=30")).await.fits(&json!({"status": "finished"}));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn waiting_ends_when_somebody_is_needed() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))])]);
    let agent = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]);
    let body = json!({"agent": agent, "input": "go"});
    let shown = world.client.post("/v1/runs", &body).header("prefer", "wait=20").await.is(201);
    shown.fits(&json!({"status": "waiting_approval", "pending_approvals": {"$len": 1}}));
    world.run(&shown).cancel().await;
}

#[tokio::test]
async fn bad_times_to_wait_are_refused() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    for timeout in ["-1", "61", "long", ""] {
        world.client.get(&run.path(&format!("/wait?timeout={timeout}"))).await.refused_at("/query/timeout");
    }
    run.ended().await;
}
