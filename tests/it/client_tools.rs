//! Calls that the client answers.

use answerable_testkit::ModelReply;
use serde_json::json;

use crate::harness::{Fits, Run, With, World, client_tool};

async fn asks(world: &World) -> Run<'_> {
    world.model.script(
        "m",
        [ModelReply::calls([("ask_user", json!({"q": "which size?"}))]), ModelReply::text("M then.")],
    );
    world.start(&world.agent(&[client_tool("ask_user")])).await
}

#[tokio::test]
async fn the_answer_is_the_calls_result_and_holds_for_ever() {
    let world = World::shared().await;
    let run = asks(&world).await;
    run.waiting().await.fits(&json!({
        "status": "waiting_tool", "pending_tool_calls": [{"tool_name": "ask_user", "input": {"q": "which size?"}, "result": null}],
    }));
    run.list("ledger").await.fits(&json!([{"status": "started", "tool_name": "ask_user"}]));
    let call = run.open_call().await;
    run.submit(&call, "size M").await.ok();
    run.submit(&call, "size M").await.ok();
    run.submit(&call, "size L").await.refused(409, "already_decided");
    run.ended().await.fits(&json!({"status": "finished", "pending_tool_calls": []}));
    run.submit(&call, "size M").await.ok();
    run.submit(&call, "size L").await.refused(409, "already_decided");
    run.calls().await.fits(&json!([{"result": {"status": "succeeded", "content": "~size M"}}]));
    assert!(world.model.requests_for("m")[1].to_string().contains("size M"));
}

#[tokio::test]
async fn calls_are_answered_in_any_order_and_may_fail() {
    let world = World::shared().await;
    let calls = [("ask_user", json!({"q": "size"})), ("ask_map", json!({"q": "street"}))];
    world.model.script("m", [ModelReply::calls(calls), ModelReply::text("Thanks.")]);
    let tools = ["ask_user", "ask_map"].map(|name| client_tool(name).with(json!({"parallel_safe": true})));
    let run = world.start(&world.agent(&tools)).await;
    let both =
        |run: &serde_json::Value| run["pending_tool_calls"].as_array().is_some_and(|open| open.len() == 2);
    let shown = run.when("both calls", both).await;
    let id = |n: usize| shown["pending_tool_calls"][n]["id"].as_str().expect("an id").to_owned();
    let failed = json!({"tool_call_id": id(1), "status": "failed", "content": "no such street", "error_code": "NOT_FOUND"});
    world.client.post(&run.path("/tool_results"), &failed).await.ok();
    run.now().await.fits(&json!({"status": "waiting_tool"}));
    run.submit(&id(0), "size M").await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
    run.calls().await.fits(&json!([
        {"result": {"status": "succeeded", "content": "~size M"}},
        {"result": {"status": "failed", "error_code": "NOT_FOUND"}},
    ]));
    let seen = world.model.requests_for("m")[1].to_string();
    assert!(seen.contains("NOT_FOUND") && seen.contains("no such street"), "{seen}");
}

#[tokio::test]
async fn only_an_open_call_of_the_run_is_answered() {
    let world = World::shared().await;
    let calls = [("look", json!({})), ("ask_user", json!({}))].map(|call| ModelReply::calls([call]));
    world.model.script("m", calls);
    world.model.script("m", [ModelReply::text("Thanks.")]);
    let run = world.start(&world.agent(&[world.read("look"), client_tool("ask_user")])).await;
    let call = run.open_call().await;
    let looked = run.calls().await[0]["id"].as_str().expect("an id").to_owned();
    run.submit(&looked, "a lie").await.refused(409, "conflict");
    run.submit("tc_00000000-0000-7000-8000-000000000000", "who?").await.refused_at("/tool_call_id");
    run.submit("nonsense", "who?").await.refused_at("/tool_call_id");
    run.submit(&call, "size M").await.ok();
    run.ended().await;
}

#[tokio::test]
async fn nobody_answers_in_time() {
    for (side_effect, reason, status) in
        [("none", "final_answer", "failed"), ("write", "side_effect_uncertain", "uncertain")]
    {
        let world = World::shared().await;
        world
            .model
            .script("m", [ModelReply::calls([("ask_user", json!({}))]), ModelReply::text("Nobody there.")]);
        let tool = client_tool("ask_user").with(json!({"timeout_ms": 400, "side_effect": side_effect}));
        let run = world.start(&world.agent(&[tool])).await;
        run.when("the end", |run| run["stop_reason"] == reason).await;
        run.ended().await.fits(&json!({"stop_reason": reason}));
        run.calls().await.fits(&json!([{"result": {"status": status}}]));
    }
}
