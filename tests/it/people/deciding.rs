//! People decide as who they are.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use super::People;
use crate::harness::{Answer, Client, Fits, Run, With, rules};

const DECIDE: &[&str] = &["approvals:decide"];

/// A run of whoever asks that asks, by this rule, before it pays.
async fn asking<'p>(people: &'p People, who: &Client, rule: Value) -> (Run<'p>, String) {
    let world = &people.world;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("So be it.")]);
    let rules = rules(&[json!({"tool": "pay", "effect": "ask"}).with(rule)]);
    let body = json!({"agent": world.agent(&[world.write("pay")]).with(rules), "input": "go"});
    let run = world.run(&who.post("/v1/runs", &body).await.is(201));
    let approval = run.pending().await;
    (run, approval)
}

async fn say(who: &Client, approval: &str, said: &Value) -> Answer {
    who.post(&format!("/v1/approvals/{approval}/decision"), said).await
}

fn approve() -> Value {
    json!({"decision": "approve"})
}

#[tokio::test]
async fn a_person_decides_under_their_own_name() {
    let people = People::start().await;
    let ann = people.person("ann@example.com", DECIDE);
    let (run, approval) = asking(&people, &people.world.client, json!({})).await;
    let inbox = ann.get("/v1/approvals?status=pending").await.ok();
    inbox.fits(&json!({"data": [{"id": approval}]}));
    let name = "user:ann@example.com";
    let decided = say(&ann, &approval, &approve()).await.ok();
    decided.fits(&json!({"status": "approved", "decided_by": name, "votes": [{"by": name}]}));
    run.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(people.world.tools.effects("pay"), 1);
    let calls = run.calls().await;
    calls.fits(&json!([{"decision": {"effect": "allow", "by": name}}]));
    let record = people.world.client.get("/v1/audit?limit=1").await.ok();
    record.fits(&json!({"data": [{"action": "approval.decide",
        "actor": {"kind": "person", "key_id": null, "user": "ann@example.com"}}]}));
    // The same again is the same, as with a key.
    say(&ann, &approval, &approve()).await.fits(&json!({"status": "approved"}));
    say(&ann, &approval, &json!({"decision": "deny"})).await.refused(409, "already_decided");
}

#[tokio::test]
async fn a_person_and_a_key_that_speaks_for_them_are_one() {
    let people = People::start().await;
    let (ann, bob) = (people.person("ann", DECIDE), people.person("bob", DECIDE));
    let (run, approval) = asking(&people, &people.world.client, json!({"approvals": 2})).await;
    say(&ann, &approval, &approve()).await.fits(&json!({"status": "pending", "votes": {"$len": 1}}));
    let path = format!("/v1/approvals/{approval}/decision");
    let for_ann = || people.world.client.post(&path, &approve()).header("x-acting-user", "ann");
    for_ann().await.fits(&json!({"status": "pending", "votes": {"$len": 1}}));
    say(&ann, &approval, &approve()).await.fits(&json!({"status": "pending", "votes": {"$len": 1}}));
    let votes = json!([{"by": "user:ann"}, {"by": "user:bob"}]);
    say(&bob, &approval, &approve()).await.fits(&json!({"status": "approved", "votes": votes}));
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn whoever_started_a_run_does_not_approve_it_under_any_of_their_names() {
    let people = People::start().await;
    let ann = people.person("ann", &["runs:write", "approvals:decide"]);
    let (run, approval) = asking(&people, &ann, json!({"self_approval": false})).await;
    say(&ann, &approval, &approve()).await.refused(403, "forbidden");
    let path = format!("/v1/approvals/{approval}/decision");
    let client = &people.world.client;
    client.post(&path, &approve()).header("x-acting-user", "ann").await.refused(403, "forbidden");
    let many = json!({"decisions": [{"approval_id": approval, "decision": "approve"}]});
    ann.post("/v1/approvals/decisions", &many).await.fits(&json!({"results": [{"status": 403}]}));
    // Someone else may, and may be a person too.
    say(&people.person("bob", DECIDE), &approval, &approve()).await.fits(&json!({"status": "approved"}));
    run.ended().await.fits(&json!({"status": "finished"}));
    // Where a key says that it starts a run for ann, it is hers.
    let rule = rules(&[json!({"tool": "pay", "effect": "ask", "self_approval": false})]);
    let world = &people.world;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))])]);
    let body = json!({"agent": world.agent(&[world.write("pay")]).with(rule), "input": "go"});
    let run = world.run(&client.post("/v1/runs", &body).header("x-acting-user", "ann").await.is(201));
    say(&ann, &run.pending().await, &approve()).await.refused(403, "forbidden");
    say(&ann, &run.pending().await, &json!({"decision": "deny"})).await.ok();
    run.cancel().await;
    run.ended().await;
}

#[tokio::test]
async fn a_person_speaks_for_nobody_else() {
    let people = People::start().await;
    let ann = people.person("ann", &["admin"]);
    let (run, approval) = asking(&people, &people.world.client, json!({})).await;
    let path = format!("/v1/approvals/{approval}/decision");
    for name in ["bob", "ann"] {
        let answer = ann.post(&path, &approve()).header("x-acting-user", name).await;
        answer.refused(403, "forbidden");
        ann.get("/v1/runs").header("x-acting-user", name).await.refused(403, "forbidden");
    }
    run.cancel().await;
    run.ended().await;
}

#[tokio::test]
async fn what_people_ask_to_be_remembered_stands_under_their_names() {
    let people = People::start().await;
    let (ann, bob) = (people.person("ann", DECIDE), people.person("bob", DECIDE));
    let remember = json!({"decision": "approve", "remember": {"scope": "tenant", "match": "tool"}});
    let (run, approval) = asking(&people, &people.world.client, json!({"approvals": 2})).await;
    say(&ann, &approval, &remember).await.fits(&json!({"status": "pending"}));
    say(&bob, &approval, &remember).await.fits(&json!({"status": "approved"}));
    run.ended().await.fits(&json!({"status": "finished"}));
    let grants = bob.get("/v1/grants").await.ok();
    let deciders = json!(["user:ann", "user:bob"]);
    grants.fits(&json!({"data": [{"created_by": "user:bob", "deciders": deciders}]}));
    // It answers for the next one, and anyone who decides takes it back.
    let world = &people.world;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let two = rules(&[json!({"tool": "pay", "effect": "ask", "approvals": 2})]);
    let agent = world.agent(&[world.write("pay")]).with(two);
    let run = world.start(&agent).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    let grant = grants["data"][0]["id"].as_str().expect("an id");
    ann.delete(&format!("/v1/grants/{grant}")).await.is(204);
    world.client.get("/v1/audit?limit=1").await.fits(&json!({"data": [{"action": "grant.revoke",
        "actor": {"kind": "person", "user": "ann"}}]}));
    world.model.script("m", [ModelReply::calls([("pay", json!({}))])]);
    let run = world.start(&agent).await;
    run.pending().await;
    run.cancel().await;
    run.ended().await;
}

#[tokio::test]
async fn a_person_is_answered_as_a_key_is_where_nothing_is_left_to_decide() {
    let people = People::start().await;
    let ann = people.person("ann", DECIDE);
    let (run, approval) = asking(&people, &people.world.client, json!({})).await;
    run.cancel().await;
    run.ended().await;
    let by_key = say(&people.world.client, &approval, &approve()).await.refused(410, "expired");
    let by_ann = say(&ann, &approval, &approve()).await.refused(410, "expired");
    assert_eq!(by_key["detail"], by_ann["detail"]);
}
