//! What a denial does.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Fits, With, World, rules};

fn refund(amount: i64) -> ModelReply {
    ModelReply::calls([("refund", json!({"amount": amount}))])
}

fn denies() -> Value {
    rules(&[json!({"tool": "ref*", "effect": "deny", "reason": "closed today"})])
}

#[tokio::test]
async fn a_denial_is_observed_and_nothing_runs() {
    let world = World::shared().await;
    world.model.script("m", [refund(30), ModelReply::text("It was not allowed.")]);
    let run = world.start(&world.agent(&[world.write("refund")]).with(denies())).await;
    run.ended().await.fits(&json!({
        "status": "finished", "denied": [{"tool_name": "refund", "reason": "closed today", "decided_by": "policy"}],
    }));
    run.calls().await.fits(&json!([{
        "decision": {"effect": "deny", "rule": 0, "by": "policy", "reason": "closed today"},
        "result": {"status": "denied", "error_code": "PERMISSION_DENIED"}, "ledger_id": null,
    }]));
    run.list("ledger").await.fits(&json!([]));
    let types = run.event_types().await;
    assert!(types.iter().any(|kind| kind == "permission.decided"), "{types:?}");
    assert!(
        !types.iter().any(|kind| kind.starts_with("tool.")),
        "a denied call has its decision only: {types:?}"
    );
    let seen = world.model.requests_for("m")[1].to_string();
    assert!(seen.contains("PERMISSION_DENIED") && seen.contains("closed today"), "{seen}");
}

#[tokio::test]
async fn a_denial_may_stop_the_run() {
    let world = World::shared().await;
    world.model.script("m", [refund(30)]);
    let agent =
        world.agent(&[world.write("refund")]).with(denies()).with(json!({"policy": {"on_deny": "stop"}}));
    let run = world.start(&agent).await;
    run.ended().await.fits(&json!({
        "status": "failed", "stop_reason": "permission_denied", "final_answer": "~refund",
        "error": {"tool_name": "refund", "step": 1}, "denied": [{"tool_name": "refund"}],
    }));
    assert_eq!(world.model.requests_for("m").len(), 1);
}

#[tokio::test]
async fn so_many_denials_are_enough() {
    let world = World::shared().await;
    world.model.script("m", (1..=9).map(refund));
    let guard = json!({"policy": {"max_denials": 2}, "loop_guard": {"max_repeated_errors": 9}});
    let run = world.start(&world.agent(&[world.write("refund")]).with(denies()).with(guard)).await;
    run.ended().await.fits(&json!({"stop_reason": "permission_denied", "denied": {"$len": 2}}));
    assert_eq!(world.model.requests_for("m").len(), 2);
}

#[tokio::test]
async fn what_a_person_denied_is_denied_again_without_asking() {
    let world = World::shared().await;
    world.model.script("m", [refund(30), refund(30), ModelReply::text("It was not allowed.")]);
    let run = world.start(&world.agent(&[world.write("refund").with(json!({"risk": "high"}))])).await;
    run.waiting().await;
    run.deny("ask the manager first").await;
    run.ended().await.fits(&json!({
        "status": "finished", "denied": [{"tool_name": "refund", "reason": "~manager", "decided_by": "~key_"}, {}],
    }));
    run.list("approvals").await.fits(&json!([{"status": "denied", "decided_by": "~key_"}]));
    assert_eq!(world.tools.requests("refund").len(), 0);
    assert!(world.model.requests_for("m")[1].to_string().contains("ask the manager first"));
}

#[tokio::test]
async fn risk_decides_where_no_rule_does() {
    let table =
        [("low", "finished"), ("medium", "finished"), ("high", "waiting_approval"), ("critical", "finished")];
    for (risk, status) in table {
        let world = World::shared().await;
        world.model.script("m", [refund(30), ModelReply::text("So be it.")]);
        let run = world.start(&world.agent(&[world.write("refund").with(json!({"risk": risk}))])).await;
        run.when(status, |run| run["status"] == status).await;
        let effects = usize::from(risk == "low" || risk == "medium");
        assert_eq!(world.tools.effects("refund"), effects, "{risk}");
    }
}

#[tokio::test]
async fn the_strictest_rule_wins_and_the_tenants_policy_is_judged_too() {
    let world = World::shared().await;
    let small = json!({"properties": {"amount": {"type": "number", "maximum": 10}}, "required": ["amount"]});
    let agent = world.agent(&[world.write("refund").with(json!({"risk": "critical"}))]);
    let agent = agent.with(rules(&[
        json!({"tool": "refund", "effect": "allow", "input": small}),
        json!({"risk": ["critical"], "effect": "allow"}),
    ]));
    let policy = json!({"rules": [{"tool": "*", "effect": "deny", "input": {"properties": {"amount": {"const": 7}}, "required": ["amount"]}}]});
    world.client.put("/v1/policy", &policy).await.ok();
    world.model.script("m", [refund(5), refund(7), ModelReply::text("One of two.")]);
    let run = world.start(&agent).await;
    run.ended().await.fits(&json!({"status": "finished", "denied": [{"tool_name": "refund"}]}));
    assert_eq!(world.tools.requests("refund")[0].json(), json!({"amount": 5}));
    assert_eq!(world.tools.effects("refund"), 1);
}

#[tokio::test]
async fn an_absent_field_opens_no_gate() {
    let world = World::shared().await;
    let agent = world.agent(&[world.write("refund")]).with(rules(&[
        json!({"tool": "refund", "effect": "allow", "input": {"properties": {"amount": {"maximum": 10}}}}),
    ]));
    let refused = world.client.post("/v1/agents", &agent).await.refused(422, "invalid_request");
    assert!(
        refused["errors"][0]["pointer"].as_str().is_some_and(|at| at.starts_with("/policy/rules/0")),
        "{refused}"
    );
}
