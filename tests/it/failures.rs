//! What each answer of a tool means.

use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, ToolAnswer};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Fits, With, World};

/// Lets one tool give `answers` to a single call and returns the call's result, its ledger entry, and how many
/// requests came.
async fn outcome(tool: Value, answers: Vec<ToolAnswer>) -> (Value, Value, usize) {
    let world = World::shared().await;
    world.tools.script("t", answers);
    world.model.script("m", [ModelReply::calls([("t", json!({"n": 1}))]), ModelReply::text("So it is.")]);
    let tool = world.read("t").with(tool);
    let run = world.start(&world.agent(&[tool])).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    let (calls, ledger) = (run.calls().await, run.list("ledger").await);
    assert!(world.model.requests_for("m")[1].to_string().contains("tool_call_id"));
    (calls[0]["result"].clone(), ledger[0].clone(), world.tools.requests("t").len())
}

#[tokio::test]
async fn refusals_of_a_tool_are_not_retried_and_had_no_effect() {
    let table = [
        (400, "INVALID_ARGUMENTS"),
        (422, "INVALID_ARGUMENTS"),
        (401, "PERMISSION_DENIED"),
        (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"),
        (410, "NOT_FOUND"),
        (409, "CONFLICT"),
        (412, "CONFLICT"),
        (302, "UNAVAILABLE"),
    ];
    let rows = table.into_iter().flat_map(|row| [(row, "none"), (row, "write")]);
    join_all(rows.map(async |((status, code), side_effect)| {
        let answer =
            ToolAnswer::text("because").with_status(status).header("location", "http://127.0.0.1:9/");
        let (result, entry, sent) = outcome(json!({"side_effect": side_effect}), vec![answer]).await;
        result.fits(&json!({"status": "failed", "error_code": code}));
        entry.fits(&json!({"status": "failed", "side_effect": "none", "attempts": 1, "error_code": code}));
        assert_eq!(sent, 1, "{status} {side_effect}");
    }))
    .await;
}

#[tokio::test]
async fn a_refusals_words_reach_the_model() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::text("the cart is closed").with_status(409)]);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Closed.")]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    run.ended().await;
    let seen = world.model.requests_for("m")[1].to_string();
    assert!(seen.contains("CONFLICT") && seen.contains("the cart is closed"), "{seen}");
}

#[tokio::test]
async fn what_was_not_done_is_tried_again() {
    let busy = |status| ToolAnswer::status(status).header("retry-after", "0");
    let write = json!({"side_effect": "write"});
    let read = json!({});
    let rows = [
        (read.clone(), vec![ToolAnswer::status(500), busy(503), ToolAnswer::text("found")], 3),
        (read.clone(), vec![ToolAnswer::cut(), ToolAnswer::text("found")], 2),
        (read.clone(), vec![busy(429), ToolAnswer::text("found")], 2),
        (write.clone(), vec![busy(429), busy(503), ToolAnswer::text("found")], 3),
    ];
    join_all(rows.map(async |(tool, answers, attempts)| {
        let (result, entry, sent) = outcome(tool, answers).await;
        result.fits(&json!({"status": "succeeded", "content": "found"}));
        entry.fits(&json!({"status": "succeeded", "attempts": attempts}));
        assert_eq!(sent, attempts);
    }))
    .await;
}

#[tokio::test]
async fn retries_come_to_an_end() {
    let busy = |status| ToolAnswer::status(status).header("retry-after", "0");
    let slow = || ToolAnswer::default().delayed(Duration::from_millis(900));
    let rows = [
        (json!({}), ToolAnswer::status(500), "UNAVAILABLE"),
        (json!({}), ToolAnswer::cut(), "UNAVAILABLE"),
        (json!({"timeout_ms": 150}), slow(), "TIMEOUT"),
        (json!({}), busy(429), "RATE_LIMITED"),
        (json!({"side_effect": "write"}), busy(429), "RATE_LIMITED"),
        (json!({"side_effect": "write"}), busy(503), "UNAVAILABLE"),
    ];
    join_all(rows.map(async |(tool, answer, code)| {
        let (result, entry, sent) = outcome(tool, vec![answer]).await;
        result.fits(&json!({"status": "failed", "error_code": code}));
        entry.fits(&json!({"status": "failed", "side_effect": "none", "attempts": 3, "error_code": code}));
        assert_eq!(sent, 3, "{code}");
    }))
    .await;
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_unavailable() {
    let nowhere = json!({"http": {"url": "http://127.0.0.1:9/nothing"}, "side_effect": "write"});
    let (result, entry, _) = outcome(nowhere, vec![]).await;
    result.fits(&json!({"status": "failed", "error_code": "UNAVAILABLE"}));
    entry.fits(&json!({"status": "failed", "side_effect": "none"}));
}

#[tokio::test]
async fn retries_keep_their_key_and_count_up() {
    let world = World::shared().await;
    world.tools.script("t", [ToolAnswer::status(500), ToolAnswer::status(500), ToolAnswer::default()]);
    world.model.script("m", [ModelReply::calls([("t", json!({}))]), ModelReply::text("Done.")]);
    world.start(&world.agent(&[world.read("t")])).await.ended().await;
    let sent = world.tools.requests("t");
    let keys: Vec<_> = sent.iter().map(|request| request.header("idempotency-key")).collect();
    let attempts: Vec<_> = sent.iter().filter_map(|request| request.header("x-attempt")).collect();
    assert!(keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_eq!(attempts, ["1", "2", "3"]);
}

#[tokio::test]
async fn a_given_time_is_waited_for() {
    let world = World::shared().await;
    world.tools.script("t", [ToolAnswer::status(429).header("retry-after", "1"), ToolAnswer::default()]);
    world.model.script("m", [ModelReply::calls([("t", json!({}))]), ModelReply::text("Done.")]);
    let begun = Instant::now();
    world.start(&world.agent(&[world.write("t")])).await.ended().await.fits(&json!({"status": "finished"}));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let sent = world.tools.requests("t");
    assert!(sent[1].at - sent[0].at >= Duration::from_millis(950), "{:?}", sent[1].at - sent[0].at);
}

#[tokio::test]
async fn one_failure_in_a_batch_spares_the_others() {
    let world = World::shared().await;
    world.tools.script("weigh", [ToolAnswer::status(500)]);
    world.tools.script("pay", [ToolAnswer::cut()]);
    let calls = ["look", "weigh", "look", "pay", "look"].into_iter().zip(1..);
    let calls = calls.map(|(name, n)| (name, json!({"n": n})));
    world.model.script("m", [ModelReply::calls(calls), ModelReply::text("Three of five.")]);
    let safe = json!({"parallel_safe": true, "retry": {"max_attempts": 1}});
    let tools = [
        world.read("look").with(safe.clone()),
        world.read("weigh").with(safe),
        world.write("pay").with(json!({"on_uncertain": "observe"})),
    ];
    let run = world.start(&world.agent(&tools)).await;
    run.ended().await.fits(&json!({
        "status": "finished", "uncertain": {"$len": 1}, "budgets": {"used": {"tool_calls": 5}},
    }));
    run.calls().await.fits(&json!([
        {"input": {"n": 1}, "result": {"status": "succeeded"}},
        {"input": {"n": 2}, "result": {"status": "failed", "error_code": "UNAVAILABLE"}},
        {"input": {"n": 3}, "result": {"status": "succeeded"}},
        {"input": {"n": 4}, "result": {"status": "uncertain"}},
        {"input": {"n": 5}, "result": {"status": "succeeded"}},
    ]));
    run.list("ledger").await.fits(&json!({"$len": 5}));
}

#[tokio::test]
async fn the_guard_lets_no_call_out_to_private_addresses() {
    let world = World::shared().await;
    let literal = world.read("t").with(json!({"http": {"url": "http://10.0.0.1/x"}}));
    let body = json!({"agent": world.agent(&[literal]), "input": "go"});
    world.client.post("/v1/runs", &body).await.refused_at("/agent/tools/0/http/url");
    let hidden = world.read("t").with(json!({"http": {"url": "http://{{context.host}}/x"}}));
    let refused =
        world.client.post("/v1/runs", &json!({"agent": world.agent(&[hidden]), "input": "go"})).await;
    if refused.status == 201 {
        // A host from a template is only known when it is called.
        let run = world.run(&refused.body);
        run.cancel().await;
    } else {
        refused.refused(422, "invalid_request");
    }
}
