//! What people are asked, and hear again before it is too late.

use answerable_testkit::{Document, ModelReply, WebhookReceiver};
use serde_json::{Value, json};

use super::{heard, text};
use crate::harness::{Fits, Run, With, World, rules};

/// A run that asks two people whether it may pay, and a thin and a full webhook that hear of it.
async fn asks(world: &World, rule: Value) -> (Run<'_>, WebhookReceiver, WebhookReceiver) {
    let (thin, _, _) = heard(world, json!({"events": ["approval.*"]})).await;
    let (full, _, _) = heard(world, json!({"events": ["approval.*"], "include_input": true})).await;
    world
        .model
        .script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("So be it.")]);
    let rule = json!({"tool": "pay", "effect": "ask", "approvals": 2}).with(rule);
    let run = world.start(&world.agent(&[world.write("pay")]).with(rules(&[rule]))).await;
    (run, thin, full)
}

async fn vote(world: &World, id: &str, user: &str) -> Value {
    let path = format!("/v1/approvals/{id}/decision");
    world.client.post(&path, &json!({"decision": "approve"})).header("x-acting-user", user).await.ok()
}

#[tokio::test]
async fn people_hear_before_the_time_of_an_approval_is_over() {
    let world = World::shared().await;
    let (run, thin, full) = asks(&world, json!({"expires_ms": 5000})).await;
    let id = run.pending().await;
    vote(&world, &id, "ada").await;
    let told = thin.first_of("approval.expiring").await.json();
    assert_eq!(Document::load().judge_value("WebhookPayload", &told), Ok(()));
    told.fits(&json!({"type": "approval.expiring", "data": {
        "run": {"id": run.id, "status": "waiting_approval"}, "decision_url": "*",
        "approval": {
            "id": id, "run_id": run.id, "tool_name": "pay", "status": "pending", "required": 2, "expires_at": "*",
            "votes": [{"decision": "approve", "by": "user:ada", "at": "*"}],
        },
    }}));
    let vote = told["data"]["approval"]["votes"][0].as_object().expect("a vote");
    assert_eq!(vote.len(), 3, "no key in it: {vote:?}");
    assert!(told["data"]["approval"].get("input").is_none(), "{told}");
    let asked = thin.first_of("approval.requested").await.json();
    assert_eq!(told["data"]["decision_url"], asked["data"]["decision_url"]);
    let with_input = full.first_of("approval.expiring").await.json();
    assert_eq!(with_input["data"]["approval"]["input"], json!({"amount": 5}));
    run.ended().await;
    assert_eq!(world.tools.effects("pay"), 0);
    let kinds = ["approval.requested", "approval.expiring", "approval.decided"];
    thin.received(3).await;
    assert_eq!(thin.types(), kinds, "once, and in order");
}

#[tokio::test]
async fn people_are_reminded_of_what_they_have_not_decided() {
    let world = World::alone().await;
    let (run, thin, full) = asks(&world, json!({"remind_every_ms": 60_000})).await;
    let id = run.pending().await;
    vote(&world, &id, "ada").await;
    thin.first_of("approval.requested").await;
    // A minute later.
    let due =
        "UPDATE run_states SET state = jsonb_set(state::jsonb, '{open_approvals,0,remind_at}', '1')::json
         WHERE run_id = $1 AND state #>> '{open_approvals,0,remind_at}' IS NOT NULL RETURNING true";
    assert_eq!(world.sql::<bool>(due, &run.id).await, Some(true));
    let wake = "UPDATE run_queue SET wake_at = now() WHERE run_id = $1 RETURNING true";
    assert_eq!(world.sql::<bool>(wake, &run.id).await, Some(true));
    let told = full.first_of("approval.reminder").await.json();
    told.fits(&json!({"data": {"decision_url": "*", "approval": {
        "id": id, "input": {"amount": 5}, "votes": [{"by": "user:ada"}],
    }}}));
    // The link in it decides, as far as one may who has no name.
    let link = text(&told["data"]["decision_url"]).strip_prefix(world.server.url()).expect("ours").to_owned();
    let stranger = world.server.stranger();
    stranger.post(&link, &json!({"decision": "approve"})).await.refused(403, "forbidden");
    stranger.post(&link, &json!({"decision": "deny"})).await.ok().fits(&json!({"status": "denied"}));
    run.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.effects("pay"), 0);
    thin.received(3).await;
    assert_eq!(thin.types(), ["approval.requested", "approval.reminder", "approval.decided"]);
}
