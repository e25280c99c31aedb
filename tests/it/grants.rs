//! Decisions that are remembered.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World};

/// Starts a run that pays and ends.
async fn pays<'w>(world: &'w World, amounts: &[i64]) -> Run<'w> {
    world.model.script("m", amounts.iter().map(|n| ModelReply::calls([("pay", json!({"amount": n}))])));
    world.model.script("m", [ModelReply::text("Done.")]);
    world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high", "repeat": "allow"}))])).await
}

fn remembering(scope: &str, matching: &str) -> Value {
    json!({"decision": "approve", "remember": {"scope": scope, "match": matching}})
}

#[tokio::test]
async fn a_grant_for_the_run_ends_with_it() {
    let world = World::shared().await;
    let run = pays(&world, &[5, 6]).await;
    run.decide(&remembering("run", "tool")).await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
    run.list("approvals").await.fits(&json!({"$len": 1}));
    run.calls().await.fits(&json!([{}, {"decision": {"effect": "allow", "by": "~grant:"}}]));
    let other = pays(&world, &[5]).await;
    other.deny("not again").await;
    other.ended().await;
    assert_eq!(world.tools.effects("pay"), 2);
}

#[tokio::test]
async fn a_grant_for_one_input_is_for_no_other() {
    let world = World::shared().await;
    let run = pays(&world, &[5, 5, 6]).await;
    run.decide(&remembering("run", "exact_input")).await.ok();
    world.tools.reached("pay", 2).await;
    run.waiting().await.fits(&json!({"pending_approvals": [{"input": {"amount": 6}}]}));
    run.deny("enough").await;
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn a_grant_is_listed_and_taken_back() {
    let world = World::shared().await;
    let run = pays(&world, &[5]).await;
    run.decide(&remembering("tenant", "tool")).await.ok();
    run.ended().await;
    let grants = world.client.get("/v1/grants").await;
    let grants = grants.fits(
        &json!({"data": [{"scope": "tenant", "match": "tool", "tool_name": "pay", "revoked_at": null}]}),
    );
    pays(&world, &[6]).await.ended().await.fits(&json!({"status": "finished"}));
    let path = format!("/v1/grants/{}", grants["data"][0]["id"].as_str().expect("an id"));
    let (_, neighbour) = world.neighbour(&json!({})).await;
    neighbour.get("/v1/grants").await.fits(&json!({"data": []}));
    neighbour.delete(&path).await.refused(404, "not_found");
    world.client.delete(&path).await.is(204);
    world.client.get("/v1/grants").await.fits(&json!({"data": []}));
    world.client.get("/v1/grants?include=revoked").await.fits(&json!({"data": [{"revoked_at": "*"}]}));
    let asked = pays(&world, &[7]).await;
    asked.deny("ask again").await;
    asked.ended().await;
    assert_eq!(world.tools.effects("pay"), 2);
}

#[tokio::test]
async fn a_grant_never_beats_a_deny() {
    let world = World::shared().await;
    let run = pays(&world, &[5]).await;
    run.decide(&remembering("tenant", "tool")).await.ok();
    run.ended().await;
    let policy = json!({"rules": [{"tool": "pay", "effect": "deny", "reason": "closed today"}]});
    world.client.put("/v1/policy", &policy).await.ok();
    let later = pays(&world, &[6]).await;
    later.ended().await.fits(&json!({"denied": [{"tool_name": "pay", "reason": "~closed today"}]}));
    assert_eq!(world.tools.effects("pay"), 1);
}
