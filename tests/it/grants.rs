//! Decisions that are remembered.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World, rules, seconds_from_now};

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
    world.client.delete(&path).header("x-acting-user", "ann").await.is(204);
    world.client.get("/v1/grants").await.fits(&json!({"data": []}));
    let revoked = json!({"revoked_at": "*", "revoked_by": "user:ann"});
    let shown = world.client.get("/v1/grants?include=revoked").await.fits(&json!({"data": [revoked]}));
    // Again is the same, and whoever was first stays named.
    world.client.delete(&path).await.is(204);
    world.client.get(&path).await.fits(&shown["data"][0]);
    neighbour.get(&path).await.refused(404, "not_found");
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

#[tokio::test]
async fn a_decision_that_used_a_grant_names_it() {
    let world = World::shared().await;
    let run = pays(&world, &[5, 6]).await;
    let approval = run.pending().await;
    let decide =
        world.client.post(&format!("/v1/approvals/{approval}/decision"), &remembering("run", "tool"));
    decide.header("x-acting-user", "ann").await.ok();
    run.ended().await;
    let grants = world.client.get(&format!("/v1/grants?run_id={}", run.id)).await.fits(&json!({"data": [{
        "scope": "run", "scope_id": run.id, "tool_name": "pay", "match": "tool", "created_by": "user:ann",
        "deciders": ["user:ann"], "max_risk": "high", "approval_id": approval, "expires_at": null, "revoked_by": null,
    }]}));
    let id = grants["data"][0]["id"].as_str().expect("an id");
    world.client.get(&format!("/v1/grants/{id}")).await.fits(&grants["data"][0]);
    let by = format!("grant:{id}");
    run.calls()
        .await
        .fits(&json!([{"decision": {"by": "user:ann"}}, {"decision": {"effect": "allow", "by": by}}]));
    run.list("events").await.fits(&json!({"$any": [{"type": "permission.decided", "data": {"by": by}}]}));
}

#[tokio::test]
async fn calls_of_critical_risk_are_asked_about_each_time() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Done.")]);
    let pay = world.write("pay").with(json!({"risk": "critical"}));
    let agent = world.agent(&[pay]).with(rules(&[json!({"tool": "pay", "effect": "ask"})]));
    let run = world.start(&agent).await;
    for (scope, matching) in [("run", "tool"), ("tenant", "exact_input")] {
        run.decide(&remembering(scope, matching)).await.refused_at("/remember");
    }
    run.waiting().await.fits(&json!({"pending_approvals": [{"votes": [], "risk": "critical"}]}));
    run.approve().await;
    run.ended().await.fits(&json!({"status": "finished"}));
    world.client.get("/v1/grants?include=all").await.fits(&json!({"data": []}));
}

#[tokio::test]
async fn all_who_must_approve_must_ask_for_the_same_to_be_remembered() {
    let world = World::shared().await;
    let rule = json!({"tool": "pay", "effect": "ask", "approvals": 2});
    let pay = world.write("pay").with(json!({"repeat": "allow"}));
    let agent = world.agent(&[pay]).with(rules(&[rule]));
    let once = |n: i64| [ModelReply::calls([("pay", json!({"amount": n}))]), ModelReply::text("Done.")];
    world.model.script("m", [once(1), once(2), once(3)].into_iter().flatten());
    let vote = async |run: &Run<'_>, user: &str, decision: Value| {
        let path = format!("/v1/approvals/{}/decision", run.pending().await);
        world.client.post(&path, &decision).header("x-acting-user", user).await
    };
    let plain = json!({"decision": "approve"});

    let run = world.start(&agent).await;
    vote(&run, "ann", plain.clone()).await.fits(&json!({"votes": [{"by": "user:ann", "remember": null}]}));
    // What one of them adds alone would else answer in the name of both.
    vote(&run, "ann", remembering("tenant", "tool")).await.refused(409, "conflict");
    vote(&run, "bob", remembering("tenant", "tool")).await.refused_at("/remember");
    vote(&run, "bob", plain.clone()).await.fits(&json!({"status": "approved"}));
    run.ended().await;
    world.client.get("/v1/grants").await.fits(&json!({"data": []}));

    let run = world.start(&agent).await;
    vote(&run, "ann", remembering("tenant", "tool")).await.fits(&json!({"status": "pending", "votes": [
        {"remember": {"scope": "tenant", "match": "tool", "expires_at": null}},
    ]}));
    vote(&run, "bob", remembering("tenant", "exact_input")).await.refused_at("/remember");
    vote(&run, "bob", remembering("tenant", "tool")).await.fits(&json!({"status": "approved"}));
    run.ended().await;
    let grants = world.client.get("/v1/grants").await;
    grants.fits(&json!({"data": [{"created_by": "user:bob", "deciders": ["user:ann", "user:bob"]}]}));

    let run = world.start(&agent).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run.calls().await.fits(&json!([{"decision": {"effect": "allow", "by": "~grant:"}}]));
    assert_eq!(world.tools.effects("pay"), 3);
}

#[tokio::test]
async fn grants_are_found_by_what_they_are_for() {
    let world = World::shared().await;
    let tools = ["pay", "mail"].map(|tool| world.write(tool).with(json!({"risk": "high"})));
    let agent = world.client.post("/v1/agents", &world.agent(&tools)).await.is(201);
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    let mut runs = Vec::new();
    for (tool, remember) in [
        ("pay", json!({"scope": "run", "match": "tool"})),
        ("pay", json!({"scope": "thread", "match": "exact_input"})),
        ("mail", json!({"scope": "agent", "match": "tool"})),
        ("mail", Value::Null),
    ] {
        let n = runs.len();
        world.model.script("m", [ModelReply::calls([(tool, json!({"n": n}))]), ModelReply::text("Done.")]);
        let body = json!({"agent_id": agent["id"], "thread_id": thread["id"], "input": "go"});
        let run = world.run(&world.client.post("/v1/runs", &body).await.is(201));
        if n < 3 {
            run.decide(&json!({"decision": "approve", "remember": remember})).await.ok();
        }
        run.ended().await.fits(&json!({"status": "finished"}));
        runs.push(run);
    }
    // The agent's grant answered for the last one.
    runs[3].list("approvals").await.fits(&json!([]));
    let (agent_id, thread_id) = (agent["id"].as_str().expect("an id"), thread["id"].as_str().expect("an id"));
    let scopes = async |query: String| {
        let list = world.client.get(&format!("/v1/grants?{query}")).await.ok();
        let grants = list["data"].as_array().expect("a list").iter();
        grants.map(|grant| grant["scope"].as_str().expect("a scope").to_owned()).collect::<Vec<_>>()
    };
    for (query, wanted) in [
        (String::new(), vec!["agent", "thread", "run"]),
        ("tool_name=pay".into(), vec!["thread", "run"]),
        ("scope=agent".into(), vec!["agent"]),
        (format!("agent_id={agent_id}"), vec!["agent"]),
        (format!("thread_id={thread_id}"), vec!["thread"]),
        (format!("run_id={}", runs[0].id), vec!["run"]),
        (format!("run_id={}", runs[1].id), vec![]),
        ("run_id=nonsense".into(), vec![]),
        ("created_by=user:nobody".into(), vec![]),
    ] {
        assert_eq!(scopes(query.clone()).await, wanted, "{query}");
    }
    for (query, pointer) in [("scope=all", "/query/scope"), ("include=both", "/query/include")] {
        world.client.get(&format!("/v1/grants?{query}")).await.refused_at(pointer);
    }
}

#[tokio::test]
async fn a_decision_that_is_taken_is_not_remembered_later() {
    let world = World::shared().await;
    let run = pays(&world, &[5]).await;
    let path = format!("/v1/approvals/{}/decision", run.pending().await);
    let plain = json!({"decision": "approve"});
    world.client.post(&path, &plain).await.ok();
    run.ended().await;
    world.client.post(&path, &plain).await.fits(&json!({"status": "approved"}));
    world.client.post(&path, &remembering("tenant", "tool")).await.refused(409, "already_decided");
    world.client.get("/v1/grants?include=all").await.fits(&json!({"data": []}));
    let run = pays(&world, &[6]).await;
    let path = format!("/v1/approvals/{}/decision", run.pending().await);
    let once = remembering("run", "exact_input");
    for said in [&once, &plain, &once] {
        world.client.post(&path, said).await.fits(&json!({"status": "approved"}));
    }
    world.client.post(&path, &remembering("tenant", "tool")).await.refused(409, "already_decided");
    run.ended().await;
    world.client.get("/v1/grants?include=all").await.fits(&json!({"data": [{"scope": "run"}]}));
}

#[tokio::test]
async fn a_grant_whose_time_is_over_answers_nothing() {
    let world = World::shared().await;
    let run = pays(&world, &[5]).await;
    let later = json!({"scope": "tenant", "match": "tool", "expires_at": seconds_from_now(3600.0)});
    run.decide(&json!({"decision": "approve", "remember": later})).await.ok();
    run.ended().await;
    world.client.get("/v1/grants?include=expired").await.fits(&json!({"data": {"$len": 1}}));
    pays(&world, &[6]).await.ended().await.fits(&json!({"status": "finished"}));
    let over = "UPDATE grants SET expires_at = clock_timestamp() WHERE approval_id IN
        (SELECT approval_id FROM approvals WHERE run_id = $1) RETURNING true";
    assert_eq!(world.sql::<bool>(over, &run.id).await, Some(true));
    world.client.get("/v1/grants").await.fits(&json!({"data": []}));
    world.client.get("/v1/grants?include=revoked").await.fits(&json!({"data": []}));
    world.client.get("/v1/grants?include=all").await.fits(&json!({"data": [{"revoked_at": null}]}));
    let asked = pays(&world, &[7]).await;
    asked.deny("not again").await;
    asked.ended().await.fits(&json!({"denied": {"$len": 1}}));
    assert_eq!(world.tools.effects("pay"), 2);
}
