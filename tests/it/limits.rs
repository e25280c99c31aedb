//! A tool's limits hold for all of a tenant's runs, at all servers; a call that waits for its turn has not left.

use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Fits, Run, With, World, until};

/// The model asks for the tool once in each of `runs` runs.
fn asks(world: &World, tool: &str, runs: usize) {
    for run in 0..runs {
        let model = format!("m{run}");
        world
            .model
            .script(&model, [ModelReply::calls([(tool, json!({"n": run}))]), ModelReply::text("Done.")]);
    }
}

/// Starts run number `run` of those.
async fn start<'w>(world: &'w World, tool: &Value, run: usize) -> Run<'w> {
    let agent = world.agent(std::slice::from_ref(tool));
    world.start(&agent.with(json!({"model": {"model": format!("m{run}")}}))).await
}

/// A run whose call waits for its turn, for certain.
async fn in_line(world: &World, run: &Run<'_>) {
    let line = "SELECT count(*) > 0 FROM tool_places WHERE run_id = $1 AND left_at IS NULL";
    until("the call waits", async || world.sql::<bool>(line, &run.id).await == Some(true)).await;
}

#[tokio::test]
async fn no_more_are_out_at_once_than_may_be_over_two_servers() {
    let world = World::alone().await;
    let other = world.server.beside().await;
    asks(&world, "look", 8);
    world.tools.script("look", [ToolAnswer::text("seen").delayed(Duration::from_millis(250))]);
    let tool = world.read("look").with(json!({"max_concurrent": 2}));
    let mut runs = Vec::new();
    for run in 0..8 {
        runs.push(start(&world, &tool, run).await);
    }
    for run in &runs {
        run.ended().await.fits(&json!({"status": "finished"}));
        run.list("ledger").await.fits(&json!([{"status": "succeeded", "attempts": 1}]));
    }
    assert_eq!((world.tools.requests("look").len(), world.tools.at_once("look")), (8, 2));
    drop(other);
}

#[tokio::test]
async fn no_more_begin_in_a_span_than_may() {
    let world = World::alone().await;
    let other = world.server.beside().await;
    asks(&world, "look", 9);
    let tool = world.read("look").with(json!({"rate": {"calls": 3, "per_ms": 1500}}));
    let begun = Instant::now();
    let mut runs = Vec::new();
    for run in 0..9 {
        runs.push(start(&world, &tool, run).await);
    }
    for run in &runs {
        run.ended().await.fits(&json!({"status": "finished"}));
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(2900), "nine in spans of three took {took:?}");
    assert!(took < Duration::from_secs(12), "and no longer than needed: {took:?}");
    let arrived: Vec<Instant> = world.tools.requests("look").iter().map(|request| request.at).collect();
    for (n, span) in arrived.windows(4).enumerate() {
        // On its way each may be held up for a moment.
        assert!(
            span[3] - span[0] >= Duration::from_millis(1200),
            "request {n} and the third one after it: {span:?}"
        );
    }
    let kept = "SELECT count(*) FROM tool_begun WHERE $1::uuid IS NOT NULL";
    assert_eq!(world.sql::<i64>(kept, &runs[0].id).await, Some(3), "no more is kept than is looked back on");
    drop(other);
}

#[tokio::test]
async fn limits_are_each_tenants_own() {
    let world = World::shared().await;
    let (_, neighbour) = world.neighbour(&json!({})).await;
    world.tools.script("look", [ToolAnswer::text("seen").held(), ToolAnswer::text("seen")]);
    asks(&world, "look", 2);
    let tool = world.read("look").with(json!({"max_concurrent": 1}));
    let own = start(&world, &tool, 0).await;
    world.tools.reached("look", 1).await;
    let agent = world.agent(&[tool]).with(json!({"model": {"model": "m1"}}));
    let theirs = neighbour.post("/v1/runs", &json!({"agent": agent, "input": "go"})).await.is(201);
    world.run(&theirs).through(&neighbour).ended().await.fits(&json!({"status": "finished"}));
    world.tools.release("look");
    own.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn a_turn_that_does_not_come_is_an_answer_that_it_is_busy() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::text("paid").held()]);
    asks(&world, "pay", 2);
    let tool = world.write("pay").with(json!({"max_concurrent": 1, "timeout_ms": 10_000}));
    let first = start(&world, &tool, 0).await;
    world.tools.reached("pay", 1).await;
    let hasty = tool.with(json!({"timeout_ms": 300, "retry": {"max_attempts": 2}}));
    let second = start(&world, &hasty, 1).await;
    second.ended().await.fits(&json!({"status": "finished", "uncertain": []}));
    second.calls().await.fits(&json!([{"result": {"status": "failed", "error_code": "RATE_LIMITED"}}]));
    second.list("ledger").await.fits(&json!([{"status": "failed", "side_effect": "none", "attempts": 2}]));
    world.tools.release("pay");
    first.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.requests("pay").len(), 1);
}

#[tokio::test]
async fn a_cancel_while_it_waits_leaves_no_effect_and_no_place() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::text("paid").held(), ToolAnswer::text("paid")]);
    asks(&world, "pay", 3);
    let tool = world.write("pay").with(json!({"max_concurrent": 1}));
    let first = start(&world, &tool, 0).await;
    world.tools.reached("pay", 1).await;
    let cancelled = start(&world, &tool, 1).await;
    in_line(&world, &cancelled).await;
    let third = start(&world, &tool, 2).await;
    in_line(&world, &third).await;
    cancelled.cancel().await;
    cancelled.ended().await.fits(&json!({"status": "cancelled", "uncertain": []}));
    cancelled
        .ledger_where(|ledger| ledger[0]["status"] == "failed" && ledger[0]["side_effect"] == "none")
        .await;
    world.tools.release("pay");
    third.ended().await.fits(&json!({"status": "finished"}));
    first.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.requests("pay").len(), 2);
}

#[tokio::test]
async fn a_run_whose_time_is_over_sends_nothing_more() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::text("paid").held(), ToolAnswer::text("paid")]);
    asks(&world, "pay", 2);
    let tool = world.write("pay").with(json!({"max_concurrent": 1}));
    let first = start(&world, &tool, 0).await;
    world.tools.reached("pay", 1).await;
    let agent = world.agent(&[tool]).with(json!({"model": {"model": "m1"}, "budgets": {"timeout_ms": 1200}}));
    let second = world.start(&agent).await;
    second.ended().await.fits(&json!({"status": "failed", "stop_reason": "timeout", "uncertain": []}));
    second.list("ledger").await.fits(&json!([{"status": "failed", "side_effect": "none"}]));
    world.tools.release("pay");
    first.ended().await.fits(&json!({"status": "finished"}));
    sleep(Duration::from_millis(500)).await;
    assert_eq!(world.tools.requests("pay").len(), 1);
}

#[tokio::test]
async fn a_crash_while_it_waits_leaves_a_write_as_good_as_unsent() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::text("paid").held(), ToolAnswer::text("paid")]);
    asks(&world, "pay", 2);
    let tool = world.write("pay").with(json!({"max_concurrent": 1}));
    let first = start(&world, &tool, 0).await;
    world.tools.reached("pay", 1).await;
    let second = start(&world, &tool, 1).await;
    in_line(&world, &second).await;
    world.server.crash().await;
    // The one that was out may have happened. The other waited only, and is sent as if nothing had been.
    first.ended().await.fits(&json!({"stop_reason": "side_effect_uncertain"}));
    second.ended().await.fits(&json!({"status": "finished", "uncertain": [], "attempt": 2}));
    second
        .list("ledger")
        .await
        .fits(&json!([{"status": "succeeded", "side_effect": "committed", "attempts": 1}]));
    assert_eq!(world.tools.requests("pay").len(), 2);
}

#[tokio::test]
async fn a_server_that_stops_leaves_the_line_to_others() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::text("paid").held(), ToolAnswer::text("paid")]);
    asks(&world, "pay", 2);
    let tool = world.write("pay").with(json!({"max_concurrent": 1}));
    let first = start(&world, &tool, 0).await;
    world.tools.reached("pay", 1).await;
    let second = start(&world, &tool, 1).await;
    in_line(&world, &second).await;
    let stopping = world.server.stop();
    let letting_go = async {
        sleep(Duration::from_millis(300)).await;
        world.tools.release("pay");
    };
    tokio::join!(stopping, letting_go);
    world.server.start_again().await;
    first.ended().await.fits(&json!({"status": "finished", "attempt": 1}));
    second.ended().await.fits(&json!({"status": "finished", "uncertain": [], "attempt": 1}));
    assert_eq!(world.tools.requests("pay").len(), 2);
}
