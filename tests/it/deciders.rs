//! Those who approve are those who must: also when rules, people and inputs change between the decision and the call.

use answerable_testkit::{ModelReply, ToolAnswer};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Fits, Run, With, World, rules};

fn amount(amount: u64) -> Value {
    json!({"amount": amount})
}

/// A run, started for a user, that asks by a rule before it pays.
async fn asks<'w>(world: &'w World, more: &[Value], user: Option<&str>) -> Run<'w> {
    let pay = ModelReply::calls([("pay", amount(5))]);
    world.model.script("m", [pay, ModelReply::text("So be it.")]);
    let rule = json!({"tool": "pay", "effect": "ask"}).with(more[0].clone());
    let rules = rules(&[&[rule], &more[1..]].concat());
    let body = json!({"agent": world.agent(&[world.write("pay")]).with(rules), "input": "go"});
    let ask = world.client.post("/v1/runs", &body);
    let run = if let Some(user) = user { ask.header("x-acting-user", user).await } else { ask.await };
    world.run(&run.is(201))
}

async fn vote(client: &Client, approval: &str, user: &str, said: &Value) -> Answer {
    client.post(&format!("/v1/approvals/{approval}/decision"), said).header("x-acting-user", user).await
}

fn approve() -> Value {
    json!({"decision": "approve"})
}

#[tokio::test]
async fn whoever_started_the_run_does_not_approve_it_where_a_rule_says_so() {
    let world = World::shared().await;
    let run = asks(&world, &[json!({"self_approval": false})], Some("ann")).await;
    let id = run.pending().await;
    for said in [
        approve(),
        json!({"decision": "answer", "content": "x"}),
        json!({"decision": "approve", "input": {}}),
    ] {
        vote(&world.client, &id, "ann", &said).await.refused(403, "forbidden");
        // The key itself, which started it, too.
        run.decide(&said).await.refused(403, "forbidden");
    }
    let many = json!({"decisions": [{"approval_id": id, "decision": "approve"}]});
    world.client.post("/v1/approvals/decisions", &many).await.fits(&json!({"results": [{"status": 403}]}));
    run.now().await.fits(&json!({"pending_approvals": [{"id": id, "self_approval": false, "votes": []}]}));
    let voted = vote(&world.client, &id, "bob", &approve()).await.ok();
    assert!(voted["votes"][0].get("key").is_none() && voted["votes"][0]["by"] == "user:bob", "{voted}");
    run.ended().await.fits(&json!({"status": "finished"}));
    world
        .client
        .get(&format!("/v1/approvals/{id}"))
        .await
        .fits(&json!({"status": "approved", "decided_by": "user:bob", "used_at": "*", "voided_at": null}));
    assert_eq!(world.tools.effects("pay"), 1);
    let run = asks(&world, &[json!({"self_approval": false})], Some("ann")).await;
    vote(&world.client, &run.pending().await, "ann", &json!({"decision": "deny"})).await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn votes_of_a_key_that_was_revoked_do_not_count() {
    let world = World::shared().await;
    let operator = world.server.operator();
    let keys = format!("/v1/tenants/{}/keys", world.tenant);
    let made = operator.post(&keys, &json!({"name": "desk", "scopes": ["approvals:decide"]})).await.is(201);
    let desk = world.client.with_key(made["secret"].as_str().expect("a secret"));
    let run = asks(&world, &[json!({"approvals": 2})], None).await;
    let id = run.pending().await;
    vote(&desk, &id, "ann", &approve()).await.fits(&json!({"status": "pending"}));
    let revoked = format!("{keys}/{}", made["id"].as_str().expect("an id"));
    operator.ask(Method::DELETE, &revoked).await.is(204);
    let voted = vote(&world.client, &id, "bob", &approve()).await.ok();
    voted.fits(&json!({"status": "pending", "votes": [{"by": "user:ann"}, {"by": "user:bob"}]}));
    assert_eq!(world.tools.effects("pay"), 0);
    vote(&world.client, &id, "ann", &approve()).await.fits(&json!({"status": "approved"}));
    run.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn an_edit_that_needs_more_people_is_what_they_are_asked_about() {
    let world = World::shared().await;
    let large = json!({"tool": "pay", "effect": "ask", "approvals": 2,
        "input": {"required": ["amount"], "properties": {"amount": {"minimum": 50}}}});
    let run = asks(&world, &[json!({}), large], None).await;
    let first = run.pending().await;
    let edit = json!({"decision": "approve", "input": amount(60)});
    vote(&world.client, &first, "ann", &edit)
        .await
        .fits(&json!({"status": "approved", "edited_input": amount(60)}));
    let asked_again = |run: &Value| run["pending_approvals"][0]["required"] == 2;
    let shown = run.when("people are asked anew", asked_again).await;
    shown.fits(&json!({"status": "waiting_approval", "pending_approvals": [{"input": amount(60)}]}));
    let second = shown["pending_approvals"][0].clone();
    assert_ne!(second["id"], json!(first));
    world.client.get(&format!("/v1/approvals/{first}")).await.fits(&json!({
        "status": "approved", "input": amount(5), "edited_input": amount(60), "used_at": null, "voided_at": "*",
        "void_reason": "~others",
    }));
    assert_eq!(world.tools.requests("pay").len(), 0);
    let said = json!({"decision": "approve", "input_hash": second["input_hash"]});
    for user in ["ann", "bob"] {
        vote(&world.client, second["id"].as_str().expect("an id"), user, &said).await.ok();
    }
    run.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.requests("pay")[0].json(), amount(60));
    run.list("ledger").await.fits(&json!([{"input_hash": second["input_hash"], "status": "succeeded"}]));
    run.list("events").await.fits(&json!({"$in_order": [
        {"type": "approval.requested", "data": {"approval_id": first}},
        {"type": "approval.decided", "data": {"approval_id": first}},
        {"type": "approval.requested", "data": {"approval_id": second["id"], "required": 2}},
        {"type": "approval.decided", "data": {"approval_id": second["id"]}}, {"type": "tool.started"},
    ]}));
}

#[tokio::test]
async fn a_policy_that_denies_by_now_voids_what_was_approved() {
    let world = World::shared().await;
    // The first call is out while people approve the second, which waits for its turn.
    world.model.script(
        "m",
        [ModelReply::calls([("look", json!({})), ("pay", amount(5))]), ModelReply::text("So be it.")],
    );
    world.tools.script("look", [ToolAnswer::text("seen").held()]);
    let ask = rules(&[json!({"tool": "pay", "effect": "ask"})]);
    let look = world.read("look").with(json!({"parallel_safe": false}));
    let agent = world.agent(&[look, world.write("pay")]).with(ask);
    let run = world.start(&agent).await;
    world.tools.reached("look", 1).await;
    let asked = |run: &Value| run["pending_approvals"][0]["id"].is_string();
    let shown = run.when("people are asked", asked).await;
    let id = shown["pending_approvals"][0]["id"].as_str().expect("an id").to_owned();
    world.client.post(&format!("/v1/approvals/{id}/decision"), &approve()).await.ok();
    let policy = json!({"rules": [{"tool": "pay", "effect": "deny", "reason": "not today"}]});
    world.client.put("/v1/policy", &policy).await.ok();
    world.tools.release("look");
    run.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.tools.requests("pay").len(), 0);
    world
        .client
        .get(&format!("/v1/approvals/{id}"))
        .await
        .fits(&json!({"status": "approved", "used_at": null, "voided_at": "*", "void_reason": "~denies"}));
    run.calls().await.fits(&json!({"$any": [{"tool_name": "pay", "result": {"status": "denied"},
        "decision": {"effect": "deny", "reason": "not today", "policy": "tenant", "policy_version": "1"}}]}));
}
