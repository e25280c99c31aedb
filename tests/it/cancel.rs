//! Cancel wins over everything that is not finished, and hides nothing that happened.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, TestDatabase, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::{Fits, Run, Server, With, World, client_tool, seconds_from_now};

/// Cancels the run and sees it end soon.
async fn cancelled(run: &Run<'_>) -> Value {
    let begun = Instant::now();
    run.cancel().await;
    let shown = run.when("the cancel", |run| run["status"] == "cancelled").await;
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    // As often as one likes.
    run.cancel().await.fits(&json!({"status": "cancelled"}));
    shown.fits(
        &json!({"stop_reason": "cancelled", "final_answer": null, "error": null, "pending_approvals": []}),
    );
    shown
}

#[tokio::test]
async fn before_it_starts() {
    let world = World::shared().await;
    let run = world.start_with(&world.agent(&[]), json!({"not_before": seconds_from_now(3600.0)})).await;
    cancelled(&run).await.fits(&json!({"budgets": {"used": {"steps": 0}}, "started_at": null}));
    run.ended().await;
    run.list("events").await.fits(&json!([{"type": "run.queued"}, {"type": "run.cancelled"}]));
    assert_eq!(world.model.requests().len(), 0);
}

#[tokio::test]
async fn during_a_model_call() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("never read").held()]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    cancelled(&run).await;
    run.ended().await;
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test]
async fn while_a_model_retry_is_due() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::status(503).header("retry-after", "20")]);
    let run = world.start(&world.agent(&[])).await;
    let mut stream = run.stream(None).await;
    while stream.next().await.expect("an event").kind != "model.failed" {}
    cancelled(&run).await;
    run.ended().await;
}

#[tokio::test]
async fn while_a_read_runs() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::default().held()]);
    world.model.script("m", [ModelReply::calls([("look", json!({}))])]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    world.tools.reached("look", 1).await;
    cancelled(&run).await.fits(&json!({"uncertain": []}));
    run.ended().await;
    run.calls().await.fits(&json!([{"result": {"status": "cancelled"}}]));
    run.list("ledger").await.fits(&json!([{"side_effect": "none"}]));
}

#[tokio::test]
async fn while_a_write_runs_whose_late_effect_is_still_written_down() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::default().held()]);
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))])]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    world.tools.reached("pay", 1).await;
    let shown = cancelled(&run).await;
    run.calls().await.fits(&json!([{"result": {"status": {"$one_of": ["cancelled", "uncertain"]}}}]));
    world.tools.release("pay");
    let ledger = run.ledger_where(|ledger| ledger[0]["status"] == "succeeded").await;
    ledger.fits(&json!([{"status": "succeeded", "side_effect": "committed", "attempts": 1}]));
    run.now().await.fits(&json!({"status": "cancelled", "finished_at": shown["finished_at"]}));
    assert_eq!((world.tools.requests("pay").len(), world.model.requests().len()), (1, 1));
}

#[tokio::test]
async fn while_a_tool_retry_is_due() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::status(429).header("retry-after", "20")]);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))])]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    world.tools.reached("pay", 1).await;
    cancelled(&run).await;
    let ledger = run.ledger_where(|ledger| ledger[0]["status"] != "started").await;
    ledger.fits(&json!([{"side_effect": "none", "attempts": 1}]));
    assert_eq!(world.tools.requests("pay").len(), 1);
}

#[tokio::test]
async fn while_it_waits_for_an_approval() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::text("a red door")]);
    let pay = ModelReply::calls([("pay", json!({"amount": 5}))]).and_text("Now I pay.");
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), pay]);
    let tools = [world.read("look"), world.write("pay").with(json!({"risk": "high"}))];
    let run = world.start(&world.agent(&tools)).await;
    let id = run.pending().await;
    cancelled(&run).await;
    let late = world.client.post(&format!("/v1/approvals/{id}/decision"), &json!({"decision": "approve"}));
    late.await.refused(410, "expired");
    run.ended().await.fits(&json!({"budgets": {"used": {"steps": 2}}}));
    run.list("approvals").await.fits(&json!([{"status": "cancelled"}]));
    // What was before stays readable.
    run.list("steps").await.fits(&json!([
        {"number": 1, "status": "completed", "tool_calls": [{"result": {"status": "succeeded"}}]},
        {"number": 2, "tool_calls": [{"result": {"status": "cancelled"}}]},
    ]));
    run.list("messages").await.fits(&json!({"$any": [{"content": "~red door"}, {"content": "~Now I pay."}]}));
    assert_eq!(world.tools.effects("pay"), 0);
}

#[tokio::test]
async fn while_it_waits_for_a_client() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("ask_user", json!({}))])]);
    let run = world.start(&world.agent(&[client_tool("ask_user")])).await;
    let call = run.open_call().await;
    cancelled(&run).await.fits(&json!({"pending_tool_calls": []}));
    run.submit(&call, "size M").await.refused(410, "expired");
    run.ended().await;
    run.calls().await.fits(&json!([{"result": {"status": "cancelled"}}]));
}

#[tokio::test]
async fn after_its_end_nothing_changes() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("It is done.")]);
    let run = world.start(&world.agent(&[])).await;
    let ended = run.ended().await;
    let reason = json!({"reason": "too late"});
    assert_eq!(world.client.post(&run.path("/cancel"), &reason).await.is(200), ended);
    assert_eq!(run.now().await, ended);
}

#[tokio::test]
async fn in_a_race_with_an_approval_the_call_runs_once_or_not_at_all() {
    let world = World::shared().await;
    let late = ModelReply::text("never read").held();
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), late]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    run.waiting().await;
    run.approve().await;
    cancelled(&run).await;
    run.ended().await;
    run.list("approvals").await.fits(&json!([{"status": "approved"}]));
    assert!(world.tools.requests("pay").len() <= 1);
}

#[tokio::test]
async fn although_its_server_is_dead_and_the_lease_is_long() {
    let database = TestDatabase::create().await.expect("a database");
    // Longer than any test waits: nobody takes the run over by the lease.
    let server = Server::start_with(&database.url, &[("ANSWERABLE_LEASE_MS", "300000")]).await;
    let world = World::on(Arc::new(server), Some(database)).await;
    world.model.script("m", [ModelReply::text("never read").held()]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    let other = world.server.beside().await;
    world.server.kill();
    let there = run.through(&world.client.at(other.url()));
    there.cancel().await;
    there.ended().await.fits(&json!({"status": "cancelled"}));
    assert_eq!(world.model.requests().len(), 1);
}
