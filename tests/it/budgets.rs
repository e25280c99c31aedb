//! What a run may spend, and what happens at the limit.

use std::time::Duration;

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World, client_tool, seconds_from_now};

/// Looks once, each time at something else.
fn look(n: i64) -> ModelReply {
    ModelReply::calls([("look", json!({"n": n}))])
}

async fn start(world: &World, budgets: Value) -> Run<'_> {
    world.start(&world.agent(&[world.read("look")]).with(json!({"budgets": budgets}))).await
}

#[tokio::test]
async fn the_last_step_runs_its_calls_and_no_model_is_called_after_it() {
    let world = World::shared().await;
    world.model.script("m", (0..9).map(look));
    let run = start(&world, json!({"max_steps": 3})).await;
    run.ended().await.fits(&json!({
        "status": "failed", "stop_reason": "max_steps", "error": {"code": "max_steps", "step": 3},
        "budgets": {"max_steps": 3, "used": {"steps": 3, "tool_calls": 3}},
    }));
    run.list("steps").await.fits(&json!({"$len": 3}));
    assert_eq!(world.model.requests_for("m").len(), 3);
}

#[tokio::test]
async fn an_answer_exactly_at_the_limit_counts() {
    let world = World::shared().await;
    world.model.script("m", [look(1), ModelReply::text("Seen.")]);
    let run = start(&world, json!({"max_steps": 2, "max_tool_calls": 1, "max_tokens": 2000})).await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Seen."}));
}

#[tokio::test]
async fn calls_beyond_the_limit_are_rejected_and_those_within_it_run() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([1, 2, 3].map(|n| ("add", json!({"n": n}))))]);
    let agent = world.agent(&[world.write("add")]).with(json!({"budgets": {"max_tool_calls": 2}}));
    let run = world.start(&agent).await;
    run.ended().await.fits(&json!({
        "status": "failed", "stop_reason": "max_tool_calls", "budgets": {"used": {"tool_calls": 2}},
    }));
    run.calls().await.fits(&json!([
        {"result": {"status": "succeeded"}}, {"result": {"status": "succeeded"}},
        {"validation": "over_limit", "result": {"status": "rejected", "error_code": "BUDGET_EXHAUSTED"}},
    ]));
    assert_eq!(world.tools.effects("add"), 2);
}

#[tokio::test]
async fn tokens_are_counted_and_no_call_is_begun_without_them() {
    let world = World::shared().await;
    world.model.script("m", (0..9).map(|n| look(n).usage(400, 50)));
    let run = start(&world, json!({"max_tokens": 1000})).await;
    let shown = run.ended().await;
    shown.fits(&json!({"status": "failed", "stop_reason": "max_tokens"}));
    let used = shown["budgets"]["used"]["tokens"].as_u64().expect("a number");
    assert_eq!(used, 450 * world.model.requests_for("m").len() as u64);
    assert!(world.model.requests_for("m").len() <= 3);
}

#[tokio::test]
async fn missing_usage_does_not_disarm_the_limit() {
    for usage in [Value::Null, json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0})] {
        let world = World::shared().await;
        world.tools.script("look", [ToolAnswer::text(&"one two three four ".repeat(300))]);
        world.model.script("m", (0..9).map(|n| look(n).usage_as(usage.clone())));
        let run = start(&world, json!({"max_tokens": 3000})).await;
        run.ended().await.fits(&json!({"stop_reason": "max_tokens"}));
        run.list("steps").await.fits(&json!({"$any": [{"model": {"usage_estimated": true}}]}));
        assert!(world.model.requests_for("m").len() <= 4);
    }
}

#[tokio::test]
async fn the_output_cap_is_cut_to_what_is_left() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Short.")]);
    start(&world, json!({"max_tokens": 600})).await.ended().await.fits(&json!({"status": "finished"}));
    let asked = &world.model.requests_for("m")[0];
    let cap = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| asked[*name].as_u64());
    assert!(cap.is_some_and(|cap| cap < 600), "{asked}");
}

#[tokio::test]
async fn money_is_counted_and_limited() {
    let prices = json!({"prices": {"m": {"input_microusd_per_mtok": 2_000_000, "output_microusd_per_mtok": 10_000_000}}});
    let world = World::shared().await;
    world.provider(&world.client, prices.clone()).await;
    world.model.script("m", [look(1).usage(100, 7), ModelReply::text("Seen.").usage(300, 30)]);
    let run = start(&world, json!({})).await;
    run.ended().await.fits(&json!({"budgets": {"used": {"cost_microusd": 270 + 900}}}));

    let world = World::shared().await;
    world.provider(&world.client, prices).await;
    world.model.script("m", (0..9).map(|n| look(n).usage(1000, 100)));
    let run = start(&world, json!({"max_cost_microusd": 8000})).await;
    run.ended()
        .await
        .fits(&json!({"status": "failed", "stop_reason": "max_cost", "error": {"code": "max_cost"}}));
    assert!(world.model.requests_for("m").len() <= 3);
}

#[tokio::test]
async fn time_that_is_up_ends_the_run_whatever_it_does() {
    let world = World::shared().await;
    let late = Duration::from_secs(5);
    world.model.script("m", [ModelReply::text("never said").delayed(late)]);
    world.model.script("with-tool", [look(1)]);
    world.tools.script("look", [ToolAnswer::default().delayed(late)]);
    for (model, words) in [("m", "~"), ("with-tool", "~look")] {
        let agent = world.agent(&[world.read("look")]);
        let agent = agent.with(json!({"model": {"model": model}, "budgets": {"timeout_ms": 500}}));
        let run = world.start(&agent).await;
        let shown = run.ended().await;
        shown.fits(&json!({"status": "failed", "stop_reason": "timeout", "final_answer": words}));
        shown["budgets"]["used"]["elapsed_ms"].fits(&json!({"$ge": 400, "$le": 3000}));
    }
}

#[tokio::test]
async fn time_that_people_take_is_not_counted() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("ask_user", json!({}))]), ModelReply::text("Thanks.")]);
    let agent = world.agent(&[client_tool("ask_user")]).with(json!({"budgets": {"timeout_ms": 1500}}));
    let run = world.start(&agent).await;
    let call = run.open_call().await;
    // Longer than the whole budget, and there is nothing to wait for: that is the point.
    tokio::time::sleep(Duration::from_millis(1700)).await;
    run.submit(&call, "size M").await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn a_deadline_holds_while_the_run_waits_for_people() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))])]);
    let agent = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]);
    let run = world.start_with(&agent, json!({"deadline": seconds_from_now(1.5)})).await;
    run.waiting().await;
    let shown = run.when("the end", |run| run["status"] == "failed").await;
    shown.fits(&json!({"status": "failed", "stop_reason": "timeout", "pending_approvals": []}));
    run.ended().await;
    run.list("approvals").await.fits(&json!([{"status": {"$one_of": ["cancelled", "expired"]}}]));
    assert_eq!(world.tools.effects("pay"), 0);
}

#[tokio::test]
async fn limits_of_a_live_run_are_raised_and_lowered() {
    let world = World::shared().await;
    world.model.script(
        "m",
        [look(1), ModelReply::calls([("ask_user", json!({}))]), ModelReply::text("Three steps.")],
    );
    let agent = world.agent(&[client_tool("ask_user"), world.read("look")]);
    let agent = agent.with(json!({"budgets": {"max_steps": 2, "max_tool_calls": 5}}));
    let run = world.start_with(&agent, json!({"metadata": {"order": "77"}})).await;
    let call = run.open_call().await;
    let patch = |body: Value| world.client.patch(&run.path(""), &body).send();
    patch(json!({"budgets": {"max_steps": 1}})).await.refused_at("/budgets/max_steps");
    patch(json!({"status": "finished"})).await.refused_at("/status");
    patch(json!({})).await.refused(422, "invalid_request");
    patch(json!({"budgets": {"max_steps": 3}, "metadata": {"shop": "north"}})).await.fits(&json!({
        "budgets": {"max_steps": 3, "max_tool_calls": 5}, "metadata": {"order": "77", "shop": "north"},
    }));
    run.submit(&call, "size M").await.ok();
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Three steps."}));
}

#[tokio::test]
async fn only_an_admin_goes_over_the_agents_limits() {
    let world = World::shared().await;
    let writer = world.key(&["runs:write", "runs:read"]).await;
    let agent = world.agent(&[]).with(json!({"budgets": {"max_steps": 5}}));
    let body = |n: i64| json!({"agent": agent, "input": "go", "budgets": {"max_steps": n}});
    writer.post("/v1/runs", &body(6)).await.refused(403, "forbidden");
    world.model.script("m", ["one", "two"].map(ModelReply::text));
    let run = writer.post("/v1/runs", &body(4)).await.is(201);
    run.fits(&json!({"budgets": {"max_steps": 4}}));
    let more = writer.patch(
        &format!("/v1/runs/{}", run["id"].as_str().expect("an id")),
        &json!({"budgets": {"max_steps": 9}}),
    );
    more.await.refused(403, "forbidden");
    world.client.post("/v1/runs", &body(6)).await.is(201).fits(&json!({"budgets": {"max_steps": 6}}));
}

#[tokio::test]
async fn a_person_can_raise_an_exhausted_limit() {
    let ways =
        [json!({"decision": "approve", "input": {"max_steps": 4}}), json!({"decision": "deny"}), Value::Null];
    for way in ways {
        let world = World::shared().await;
        world.model.script("m", [look(1), look(2), ModelReply::text("Three steps.")]);
        let run = start(&world, json!({"max_steps": 2, "on_exhausted": "ask"})).await;
        run.waiting().await.fits(&json!({
            "status": "waiting_approval", "pending_approvals": [{"kind": "budget", "tool_call_id": null, "input": null}],
        }));
        let is_raised = way["decision"] != "deny";
        if way.is_null() {
            world.client.patch(&run.path(""), &json!({"budgets": {"max_steps": 4}})).await.ok();
        } else {
            run.decide(&way).await.ok();
        }
        let reason = if is_raised { "final_answer" } else { "max_steps" };
        run.ended().await.fits(&json!({"stop_reason": reason}));
    }
}
