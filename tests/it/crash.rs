//! The server dies or is stopped; the run goes on from what was stored.

use std::time::Duration;

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::{Fits, With, World, client_tool, seconds_from_now};

fn pay() -> ModelReply {
    ModelReply::calls([("pay", json!({"amount": 5}))])
}

#[tokio::test]
async fn during_a_model_call_the_model_is_asked_again() {
    let world = World::alone().await;
    world.model.script("m", [ModelReply::text("too late").held(), ModelReply::text("Asked again.")]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    world.server.crash().await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Asked again.", "attempt": 2}));
    run.list("steps").await.fits(&json!({"$len": 1}));
    assert_eq!(world.model.requests_for("m").len(), 2);
}

#[tokio::test]
async fn during_a_read_the_read_is_sent_again_under_its_key() {
    let world = World::alone().await;
    world.tools.script("look", [ToolAnswer::text("too late").held(), ToolAnswer::text("a red door")]);
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("It is red.")]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    world.tools.reached("look", 1).await;
    run.steer("be brief").await.ok();
    world.server.crash().await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "It is red."}));
    run.list("ledger").await.fits(&json!([{"status": "succeeded", "side_effect": "none", "attempts": 2}]));
    let sent = world.tools.requests("look");
    assert_eq!((sent.len(), sent[0].header("idempotency-key")), (2, sent[1].header("idempotency-key")));
    let asked = world.model.requests_for("m");
    assert_eq!(asked.len(), 2);
    assert!(asked[1].to_string().contains("be brief"), "what was said before the death is not lost");
}

#[tokio::test]
async fn during_a_write_it_is_uncertain_and_never_sent_again() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::default().held()]);
    world.model.script("m", [pay()]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    world.tools.reached("pay", 1).await;
    world.server.crash().await;
    run.ended()
        .await
        .fits(&json!({"status": "failed", "stop_reason": "side_effect_uncertain", "uncertain": {"$len": 1}}));
    run.list("ledger")
        .await
        .fits(&json!([{"status": "uncertain", "side_effect": "possible", "attempts": 1}]));
    assert_eq!((world.tools.requests("pay").len(), world.model.requests_for("m").len()), (1, 1));
}

#[tokio::test]
async fn during_a_write_that_dedupes_it_is_sent_again_and_done_once() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::json(&json!({"paid": 5})).held()]);
    world.tools.dedupe("pay");
    world.model.script("m", [pay(), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"idempotent": true}))])).await;
    world.tools.reached("pay", 1).await;
    world.server.crash().await;
    run.ended().await.fits(&json!({"status": "finished", "uncertain": []}));
    run.list("ledger")
        .await
        .fits(&json!([{"status": "succeeded", "side_effect": "committed", "attempts": 2}]));
    assert_eq!((world.tools.requests("pay").len(), world.tools.effects("pay")), (2, 1));
}

#[tokio::test]
async fn during_a_write_that_can_be_reconciled_the_far_side_is_asked() {
    for (state, requests) in [("applied", 1), ("not_applied", 2)] {
        let world = World::alone().await;
        let first = ToolAnswer::default().held().applying(state == "applied");
        world.tools.script("pay", [first, ToolAnswer::default()]);
        world
            .tools
            .script("find", [ToolAnswer::json(&json!({"state": state, "result": {"payment": "p-9"}}))]);
        world.model.script("m", [pay(), ModelReply::text("Paid.")]);
        let pay = world
            .write("pay")
            .with(json!({"reconcile": {"tool": "find", "input": {"key": "{{idempotency_key}}"}}}));
        let run = world.start(&world.agent(&[pay, world.read("find")])).await;
        world.tools.reached("pay", 1).await;
        world.server.crash().await;
        run.ended().await.fits(&json!({"status": "finished", "uncertain": []}));
        run.list("ledger")
            .await
            .fits(&json!([{"status": "succeeded", "side_effect": "committed", "attempts": requests}]));
        assert_eq!((world.tools.requests("pay").len(), world.tools.effects("pay")), (requests, 1));
    }
}

#[tokio::test]
async fn after_a_write_only_the_next_model_call_is_made_again() {
    let world = World::alone().await;
    world.model.script("m", [pay(), ModelReply::text("too late").held(), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    world.model.requests_reached(2).await;
    world.server.crash().await;
    run.ended().await.fits(&json!({
        "final_answer": "Paid.", "budgets": {"used": {"steps": 2, "tool_calls": 1}},
    }));
    run.list("ledger").await.fits(&json!([{"status": "succeeded", "attempts": 1}]));
    assert_eq!((world.tools.requests("pay").len(), world.model.requests_for("m").len()), (1, 3));
}

#[tokio::test]
async fn while_a_retry_is_due_it_is_still_made() {
    let world = World::alone().await;
    let busy = |seconds| ToolAnswer::status(429).header("retry-after", seconds);
    world.tools.script("pay", [busy("2"), ToolAnswer::default()]);
    let unavailable = ModelReply::status(503).header("retry-after", "2");
    world.model.script("m", [unavailable, pay(), ModelReply::text("Paid.")]);
    let tool = world.write("pay").with(json!({"retry": {"max_attempts": 5}}));
    let run = world.start(&world.agent(&[tool])).await;
    for kind in ["model.failed", "tool.started"] {
        let mut stream = run.stream(None).await;
        while stream.next().await.expect("an event").kind != kind {}
        drop(stream);
        if kind == "tool.started" {
            world.tools.reached("pay", 1).await;
        }
        world.server.crash().await;
    }
    run.ended().await.fits(&json!({"stop_reason": {"$one_of": ["final_answer", "side_effect_uncertain"]}}));
    assert!(world.tools.effects("pay") <= 1);
}

#[tokio::test]
async fn waits_for_people_survive_any_number_of_restarts() {
    let world = World::alone().await;
    let arguments = r#"{"order": 1234567890123456789, "to": "Zoë 🧾", "lines": [{"sku": {"tags": ["x", ["y"]]}, "n": -0.5}]}"#;
    let calls = ModelReply::raw_calls([("pay", arguments.to_owned())]);
    world
        .model
        .script("m", [calls, ModelReply::calls([("ask_user", json!({}))]), ModelReply::text("Thanks.")]);
    let tools = [world.write("pay").with(json!({"risk": "high"})), client_tool("ask_user")];
    let run = world.start(&world.agent(&tools)).await;
    let approval = run.pending().await;
    world.server.crash().await;
    world.server.stop().await;
    world.server.start_again().await;
    run.now().await.fits(&json!({"status": "waiting_approval", "pending_approvals": [{"id": approval}]}));
    run.approve().await;
    let call = run.open_call().await;
    world.server.crash().await;
    run.submit(&call, "size M").await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
    let sent = world.tools.requests("pay")[0].text();
    let (sent, wanted): (Value, Value) =
        (serde_json::from_str(&sent).expect("JSON"), serde_json::from_str(arguments).expect("JSON"));
    assert_eq!(sent, wanted);
    assert_eq!((world.tools.effects("pay"), world.model.requests_for("m").len()), (1, 3));
}

#[tokio::test]
async fn right_after_a_decision_nobody_has_to_decide_twice() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::json(&json!({"paid": 5}))]);
    world.tools.dedupe("pay");
    world.model.script("m", [pay(), ModelReply::text("Paid."), ModelReply::text("Paid.")]);
    let tool = world.write("pay").with(json!({"idempotent": true, "risk": "high"}));
    let run = world.start(&world.agent(&[tool])).await;
    run.waiting().await;
    run.approve().await;
    world.server.crash().await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run.list("approvals").await.fits(&json!([{"status": "approved"}]));
    run.list("ledger").await.fits(&json!([{"status": "succeeded", "side_effect": "committed"}]));
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn a_cancel_holds_whoever_takes_the_run_over() {
    let world = World::alone().await;
    world.model.script("m", [ModelReply::text("never read").held(), ModelReply::text("never asked")]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    run.cancel().await;
    world.server.crash().await;
    run.ended().await.fits(&json!({"status": "cancelled"}));
    assert_eq!(world.model.requests_for("m").len(), 1);
}

#[tokio::test]
async fn queued_runs_and_threads_keep_their_order() {
    let world = World::alone().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201)["id"].clone();
    let first = ModelReply::text("too late").held();
    world.model.script("m", [first, ModelReply::text("first"), ModelReply::text("second")]);
    world.model.script("later", [ModelReply::text("On time.")]);
    let later = world.agent(&[]).with(json!({"model": {"model": "later"}}));
    let later = world.start_with(&later, json!({"not_before": seconds_from_now(2.0)})).await;
    let run = world.start_with(&world.agent(&[]), json!({"thread_id": thread})).await;
    world.model.requests_reached(1).await;
    let next = world.start_with(&world.agent(&[]), json!({"thread_id": thread, "input": "and then"})).await;
    world.server.crash().await;
    run.ended().await.fits(&json!({"final_answer": "first"}));
    next.ended().await.fits(&json!({"final_answer": "second"}));
    later.ended().await.fits(&json!({"final_answer": "On time."}));
    let asked = &world.model.requests_for("m")[2];
    assert!(asked.to_string().contains("first") && asked.to_string().contains("and then"), "{asked}");
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_cut() {
    let world = World::alone().await;
    world.model.script("m", [pay(), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    run.waiting().await;
    let seen = run.stream(None).await.take(4).await;
    world.server.crash().await;
    let stream = run.stream(seen.last().and_then(|event| event.id)).await;
    run.approve().await;
    let rest = stream.rest().await;
    let ids: Vec<u64> = seen.iter().chain(&rest).filter_map(|event| event.id).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<u64>>());
    run.ended().await;
}

#[tokio::test]
async fn a_run_that_kills_every_server_is_given_up() {
    let world = World::alone().await;
    world.tools.script("look", [ToolAnswer::default().held()]);
    world.model.script("m", [ModelReply::calls([("look", json!({}))])]);
    world.model.script("other", [ModelReply::text("Another run lives.")]);
    let tool = world.read("look").with(json!({"retry": {"max_attempts": 50}, "timeout_ms": 60_000}));
    let run = world.start(&world.agent(&[tool])).await;
    for deaths in 1..=6 {
        world.tools.reached("look", deaths).await;
        world.server.crash().await;
    }
    run.ended()
        .await
        .fits(&json!({"status": "failed", "stop_reason": "crash_loop", "error": {"code": "crash_loop"}}));
    assert_eq!(world.tools.requests("look").len(), 6);
    let other = world.agent(&[]).with(json!({"model": {"model": "other"}}));
    world.start(&other).await.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn many_runs_all_end_and_none_pays_twice() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::default().delayed(Duration::from_millis(100))]);
    world.tools.dedupe("pay");
    let mut runs = Vec::new();
    for n in 0..12 {
        let model = format!("m{n}");
        world.model.script(
            &model,
            [pay(), ModelReply::text("Paid.").delayed(Duration::from_millis(50)), ModelReply::text("Paid.")],
        );
        // A model call that the kill cut off is made again.
        world.model.repeat_last(&model);
        let tool = world.write("pay").with(json!({"idempotent": true}));
        runs.push(world.start(&world.agent(&[tool]).with(json!({"model": {"model": model}}))).await);
    }
    world.tools.reached("pay", 4).await;
    world.server.crash().await;
    let mut entries = 0;
    for run in &runs {
        run.ended().await.fits(&json!({"status": "finished"}));
        let ledger = run.list("ledger").await;
        ledger.fits(&json!({"$none": {"status": {"$one_of": ["failed", "uncertain"]}}}));
        entries += ledger.as_array().expect("a list").len();
    }
    // A run whose first reply died with the server is answered by the script's next one, and pays nothing.
    assert!((4..=12).contains(&entries), "{entries}");
    assert_eq!(world.tools.effects("pay"), entries);
}
