//! Writes of which nobody knows whether they took effect.

use std::time::Duration;

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World};

/// A run that pays once; the line is cut after the far side committed.
async fn pays<'w>(world: &'w World, pay: Value, more_tools: &[Value]) -> Run<'w> {
    world.tools.script("pay", [ToolAnswer::cut()]);
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))])]);
    let mut tools = vec![world.write("pay").with(pay)];
    tools.extend_from_slice(more_tools);
    world.start(&world.agent(&tools)).await
}

#[tokio::test]
async fn an_unclear_write_stops_the_run_and_is_never_sent_again() {
    let slow = ToolAnswer::default().delayed(Duration::from_millis(600));
    for (answer, timeout_ms) in [(ToolAnswer::cut(), 5000), (slow, 150), (ToolAnswer::status(500), 5000)] {
        let world = World::shared().await;
        world.tools.script("pay", [answer]);
        world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))])]);
        let pay = world.write("pay").with(json!({"timeout_ms": timeout_ms}));
        let run = world.start(&world.agent(&[pay])).await;
        run.ended().await.fits(&json!({
            "status": "failed", "stop_reason": "side_effect_uncertain", "final_answer": "~pay",
            "error": {"tool_name": "pay", "step": 1}, "uncertain": {"$len": 1},
        }));
        run.list("ledger").await.fits(&json!([{
            "status": "uncertain", "side_effect": "possible", "attempts": 1, "finished_at": "*",
        }]));
        run.calls()
            .await
            .fits(&json!([{"result": {"status": "uncertain", "error_code": "SIDE_EFFECT_UNCERTAIN"}}]));
        assert_eq!(world.tools.requests("pay").len(), 1);
    }
}

#[tokio::test]
async fn an_unclear_write_can_be_told_to_the_model_which_can_not_repeat_it() {
    let world = World::shared().await;
    let run = pays(&world, json!({"on_uncertain": "observe"}), &[]).await;
    world
        .model
        .script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Nobody knows.")]);
    run.ended().await.fits(&json!({"status": "finished", "uncertain": {"$len": 1}}));
    run.list("ledger").await.fits(&json!([{"status": "uncertain", "attempts": 1}]));
    assert_eq!(world.tools.requests("pay").len(), 1);
    assert!(world.model.requests_for("m")[1].to_string().contains("SIDE_EFFECT_UNCERTAIN"));
}

#[tokio::test]
async fn a_person_settles_an_unclear_write() {
    let ways = [
        (json!({"decision": "approve"}), "applied", "succeeded", "committed", "succeeded"),
        (json!({"decision": "deny"}), "not_applied", "failed", "none", "failed"),
        (
            json!({"decision": "answer", "content": "receipt 12"}),
            "applied",
            "succeeded",
            "committed",
            "succeeded",
        ),
    ];
    for (decision, state, status, side_effect, result) in ways {
        let world = World::shared().await;
        let run = pays(&world, json!({"on_uncertain": "ask"}), &[]).await;
        world.model.script("m", [ModelReply::text("Settled.")]);
        run.waiting().await.fits(&json!({
            "status": "waiting_approval", "uncertain": {"$len": 1},
            "pending_approvals": [{"kind": "uncertain_effect", "tool_name": "pay", "input": {"amount": 5}}],
        }));
        run.decide(&decision).await.ok();
        run.ended().await.fits(&json!({"status": "finished", "uncertain": []}));
        run.list("ledger").await.fits(&json!([{
            "status": status, "side_effect": side_effect, "attempts": 1, "resolution": {"state": state, "by": "~key_"},
        }]));
        run.calls().await.fits(&json!([{"result": {"status": result}}]));
        assert_eq!(world.tools.requests("pay").len(), 1);
        if decision["decision"] == "answer" {
            assert!(world.model.requests_for("m")[1].to_string().contains("receipt 12"));
        }
    }
}

#[tokio::test]
async fn a_resolved_entry_lets_the_waiting_run_go_on() {
    let world = World::shared().await;
    let run = pays(&world, json!({"on_uncertain": "ask"}), &[]).await;
    world.model.script("m", [ModelReply::text("Settled.")]);
    let shown = run.waiting().await;
    let entry = shown["uncertain"][0].as_str().expect("an entry").to_owned();
    let body = json!({"state": "applied", "content": "receipt 12", "note": "the bank says so"});
    let resolved = world.client.post(&run.path(&format!("/ledger/{entry}/resolve")), &body).await;
    resolved.fits(&json!({"id": entry, "status": "succeeded", "resolution": {"note": "the bank says so"}}));
    run.ended().await.fits(&json!({"status": "finished", "uncertain": []}));
    assert!(world.model.requests_for("m")[1].to_string().contains("receipt 12"));
    let again =
        world.client.post(&run.path(&format!("/ledger/{entry}/resolve")), &json!({"state": "not_applied"}));
    again.await.refused(409, "already_decided");
}

#[tokio::test]
async fn an_entry_is_resolved_after_the_end_too_and_changes_no_end() {
    let world = World::shared().await;
    let run = pays(&world, json!({}), &[]).await;
    let ended = run.ended().await;
    let entry = ended["uncertain"][0].as_str().expect("an entry").to_owned();
    let path = run.path(&format!("/ledger/{entry}/resolve"));
    world.client.post(&path, &json!({"state": "not_applied"})).await.fits(&json!({
        "status": "failed", "side_effect": "none", "resolution": {"state": "not_applied"},
    }));
    run.now().await.fits(&json!({
        "status": "failed", "stop_reason": "side_effect_uncertain", "uncertain": [],
        "final_answer": ended["final_answer"], "error": ended["error"], "finished_at": ended["finished_at"],
    }));
}

#[tokio::test]
async fn a_far_side_that_dedupes_is_asked_again_under_the_same_key() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::cut(), ToolAnswer::json(&json!({"paid": true}))]);
    world.tools.dedupe("pay");
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    let pay = world.write("pay").with(json!({"idempotent": true}));
    let run = world.start(&world.agent(&[pay])).await;
    run.ended().await.fits(&json!({"status": "finished", "uncertain": []}));
    run.list("ledger")
        .await
        .fits(&json!([{"status": "succeeded", "side_effect": "committed", "attempts": 2}]));
    let sent = world.tools.requests("pay");
    assert_eq!((sent.len(), world.tools.effects("pay")), (2, 1));
    assert_eq!(sent[0].header("idempotency-key"), sent[1].header("idempotency-key"));
}

#[tokio::test]
async fn a_deduped_write_that_stays_unclear_becomes_uncertain() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::status(500)]);
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))])]);
    let pay = world.write("pay").with(json!({"idempotent": true}));
    let run = world.start(&world.agent(&[pay])).await;
    run.ended().await.fits(&json!({"stop_reason": "side_effect_uncertain"}));
    run.list("ledger").await.fits(&json!([{"status": "uncertain", "attempts": 3}]));
}

#[tokio::test]
async fn a_later_refusal_does_not_make_an_unclear_write_clear() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::status(500), ToolAnswer::status(409)]);
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))])]);
    let pay = world.write("pay").with(json!({"idempotent": true}));
    let run = world.start(&world.agent(&[pay])).await;
    run.ended().await.fits(&json!({"stop_reason": "side_effect_uncertain"}));
}

fn reconciled() -> Value {
    json!({"reconcile": {"tool": "find", "input": {"key": "{{idempotency_key}}", "amount": "{{input.amount}}"}}})
}

#[tokio::test]
async fn the_far_side_says_that_it_was_applied() {
    let world = World::shared().await;
    world
        .tools
        .script("find", [ToolAnswer::json(&json!({"state": "applied", "result": {"payment": "p-9"}}))]);
    let run = pays(&world, reconciled(), &[world.read("find")]).await;
    world.model.script("m", [ModelReply::text("Paid.")]);
    run.ended()
        .await
        .fits(&json!({"status": "finished", "uncertain": [], "budgets": {"used": {"tool_calls": 1}}}));
    let entry = run.list("ledger").await;
    entry.fits(
        &json!([{"tool_name": "pay", "status": "succeeded", "side_effect": "committed", "attempts": 1}]),
    );
    run.list("events")
        .await
        .fits(&json!({"$any": [{"type": "tool.reconciled", "data": {"state": "applied"}}]}));
    let asked = &world.tools.requests("find")[0];
    assert_eq!(asked.json()["key"], entry[0]["idempotency_key"]);
    let paid = &world.tools.requests("pay")[0];
    assert_eq!(asked.header("x-tool-call-id"), paid.header("x-tool-call-id"));
    assert_ne!(asked.header("idempotency-key"), paid.header("idempotency-key"));
    assert!(world.model.requests_for("m")[1].to_string().contains("p-9"));
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn the_far_side_says_that_it_was_not_applied() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::cut().applying(false), ToolAnswer::json(&json!({"paid": true}))]);
    world.tools.script("find", [ToolAnswer::json(&json!({"state": "not_applied"}))]);
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    let tools = [world.write("pay").with(reconciled()), world.read("find")];
    let run = world.start(&world.agent(&tools)).await;
    run.ended().await.fits(&json!({"status": "finished", "uncertain": []}));
    run.list("ledger")
        .await
        .fits(&json!([{"status": "succeeded", "side_effect": "committed", "attempts": 2}]));
    let sent = world.tools.requests("pay");
    assert_eq!(sent[0].header("idempotency-key"), sent[1].header("idempotency-key"));
    assert_eq!((sent.len(), world.tools.effects("pay")), (2, 1));
}

#[tokio::test]
async fn a_far_side_that_can_not_tell_leaves_it_uncertain() {
    let unclear = [
        ToolAnswer::json(&json!({"state": "unknown"})),
        ToolAnswer::json(&json!({"state": "perhaps"})),
        ToolAnswer::text("?"),
        ToolAnswer::status(500),
    ];
    for answer in unclear {
        let world = World::shared().await;
        world.tools.script("find", [answer]);
        let run = pays(&world, reconciled(), &[world.read("find")]).await;
        run.ended().await.fits(&json!({"stop_reason": "side_effect_uncertain", "uncertain": {"$len": 1}}));
        run.list("events")
            .await
            .fits(&json!({"$any": [{"type": "tool.reconciled", "data": {"state": "unknown"}}]}));
        assert_eq!(world.tools.requests("pay").len(), 1);
    }
}
