//! Who let this happen? What was approved is exactly what runs.

use std::time::Duration;

use answerable_testkit::{ModelReply, ToolAnswer};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World, rules};

fn pay(amount: i64) -> ModelReply {
    ModelReply::calls([("pay", json!({"amount": amount}))])
}

/// A run that asks before it pays 5, and then ends.
async fn asks(world: &World) -> Run<'_> {
    world.model.script("m", [pay(5), ModelReply::text("So be it.")]);
    world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await
}

/// The same with a rule of its own.
async fn asks_by_rule<'w>(world: &'w World, rule: Value) -> Run<'w> {
    world.model.script("m", [pay(5), ModelReply::text("So be it.")]);
    let rule = json!({"tool": "pay", "effect": "ask", "reason": "over the limit"}).with(rule);
    world.start(&world.agent(&[world.write("pay")]).with(rules(&[rule]))).await
}

#[tokio::test]
async fn an_approved_call_runs_and_not_before() {
    let world = World::shared().await;
    let run = asks(&world).await;
    run.waiting().await.fits(&json!({
        "status": "waiting_approval", "stop_reason": null, "pending_approvals": [{
            "kind": "tool_call", "tool_name": "pay", "input": {"amount": 5}, "risk": "high", "status": "pending",
            "required": 1, "votes": [], "run_id": run.id, "step": 1, "expires_at": "*",
        }],
    }));
    run.list("ledger").await.fits(&json!([]));
    assert_eq!(world.tools.requests("pay").len(), 0);
    let id = run.pending().await;
    let path = format!("/v1/approvals/{id}/decision");
    let approve = json!({"decision": "approve", "reason": "fine"});
    world
        .client
        .post(&path, &approve)
        .await
        .fits(&json!({"status": "approved", "decided_by": "~key_", "decided_at": "*"}));
    run.ended().await.fits(&json!({"status": "finished", "pending_approvals": []}));
    // The same decision again is fine at any time, another one is too late.
    world.client.post(&path, &json!({"decision": "approve"})).await.fits(&json!({"status": "approved"}));
    world.client.post(&path, &json!({"decision": "deny"})).await.refused(409, "already_decided");
    run.list("ledger")
        .await
        .fits(&json!([{"status": "succeeded", "side_effect": "committed", "attempts": 1}]));
    run.list("events").await.fits(&json!({"$in_order": [
        {"type": "permission.decided"}, {"type": "approval.requested", "data": {"approval_id": id}},
        {"type": "run.waiting", "data": {"for": "*"}}, {"type": "approval.decided", "data": {"approval_id": id}},
        {"type": "run.resumed"}, {"type": "tool.started"}, {"type": "tool.completed"}, {"type": "run.finished"},
    ]}));
    run.calls()
        .await
        .fits(&json!([{"decision": {"effect": "allow", "by": "~key_"}, "result": {"status": "succeeded"}}]));
    assert_eq!((world.tools.effects("pay"), world.model.requests_for("m").len()), (1, 2));
}

#[tokio::test]
async fn a_waiting_run_holds_nothing() {
    let world = World::shared().await;
    let run = asks(&world).await;
    run.waiting().await;
    let free = "SELECT lease_owner IS NULL FROM run_queue WHERE run_id = $1";
    // The lease is given back right after the commit that shows the run as waiting.
    let mut held = true;
    for _ in 0..100 {
        held = world.sql::<bool>(free, &run.id).await != Some(true);
        if !held {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!held, "a server still owns the waiting run");
    run.deny("no").await;
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn an_edited_call_is_validated_and_judged_and_is_what_runs() {
    let world = World::shared().await;
    let schema = json!({
        "type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}},
        "additionalProperties": false,
    });
    let over = json!({"properties": {"amount": {"minimum": 50}}, "required": ["amount"]});
    let policy = rules(&[
        json!({"tool": "pay", "effect": "ask"}),
        json!({"tool": "pay", "effect": "deny", "input": over}),
    ]);
    world.model.script("m", [pay(30), ModelReply::text("Paid.")]);
    let agent = world.agent(&[world.write("pay").with(json!({"input_schema": schema}))]).with(policy);
    let run = world.start(&agent).await;
    let edit = |input: Value| json!({"decision": "approve", "input": input});
    run.decide(&edit(json!({"amount": "20"}))).await.refused_at("/input/amount");
    for bad in [json!({}), json!({"amount": 20, "extra": 1}), json!({"amount": 80})] {
        run.decide(&edit(bad)).await.refused(422, "invalid_request");
    }
    run.now().await.fits(&json!({
        "status": "waiting_approval", "pending_approvals": [{"status": "pending", "input": {"amount": 30}}],
    }));
    run.decide(&edit(json!({"amount": 20})))
        .await
        .fits(&json!({"status": "approved", "edited_input": {"amount": 20}}));
    run.ended().await.fits(&json!({"status": "finished"}));
    let hash = "sha256:ddccc0f8c09563212aae6802bc6f095158e222bf5564d12ad36947b5d13936b0";
    run.list("ledger").await.fits(&json!([{"input_hash": hash, "status": "succeeded"}]));
    run.calls()
        .await
        .fits(&json!([{"input": {"amount": 20}, "original_input": {"amount": 30}, "input_hash": hash}]));
    assert_eq!(world.tools.requests("pay")[0].json(), json!({"amount": 20}));
    // The model keeps its own call and is told what a person made of it.
    let seen = &world.model.requests_for("m")[1]["messages"];
    let call = seen[2]["tool_calls"][0]["function"]["arguments"].as_str().expect("arguments");
    assert!(
        call.contains("30") && seen[3]["content"].as_str().is_some_and(|text| text.contains("20")),
        "{seen}"
    );
}

#[tokio::test]
async fn a_stale_hash_decides_nothing() {
    let world = World::shared().await;
    let run = asks(&world).await;
    let shown = run.waiting().await;
    for decision in ["approve", "deny"] {
        let stale = json!({"decision": decision, "input_hash": format!("sha256:{}", "0".repeat(64))});
        run.decide(&stale).await.refused(409, "conflict");
    }
    let hash = &shown["pending_approvals"][0]["input_hash"];
    run.decide(&json!({"decision": "approve", "input_hash": hash})).await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn a_person_answers_instead_of_the_tool() {
    let world = World::shared().await;
    let run = asks(&world).await;
    run.decide(&json!({"decision": "answer"})).await.refused(422, "invalid_request");
    run.decide(&json!({"decision": "answer", "content": "paid by hand, receipt 12"})).await.ok();
    run.ended().await.fits(&json!({"status": "finished", "denied": [], "uncertain": []}));
    run.calls()
        .await
        .fits(&json!([{"result": {"status": "succeeded", "content": "~receipt 12"}, "ledger_id": null}]));
    run.list("ledger").await.fits(&json!([]));
    assert_eq!(world.tools.requests("pay").len(), 0);
    assert!(world.model.requests_for("m")[1].to_string().contains("receipt 12"));
}

#[tokio::test]
async fn an_expired_approval_denies_or_stops() {
    for (on_expiry, reason) in [("deny", "final_answer"), ("stop", "approval_expired")] {
        let world = World::shared().await;
        let run = asks_by_rule(&world, json!({"expires_ms": 700, "on_expiry": on_expiry})).await;
        let id = run.pending().await;
        let gone = |run: &Value| run["status"] == "finished" || run["status"] == "failed";
        run.when("the expiry", gone).await;
        run.ended().await.fits(&json!({"stop_reason": reason}));
        run.list("approvals").await.fits(&json!([{"status": "expired", "decided_by": "expiry"}]));
        let late =
            world.client.post(&format!("/v1/approvals/{id}/decision"), &json!({"decision": "approve"}));
        late.await.refused(410, "expired");
        assert_eq!(world.tools.requests("pay").len(), 0);
    }
}

#[tokio::test]
async fn several_deciders_have_to_agree_and_one_can_refuse() {
    for (last, status) in [("approve", "approved"), ("deny", "denied")] {
        let world = World::shared().await;
        let run = asks_by_rule(&world, json!({"approvals": 2})).await;
        let id = run.pending().await;
        let vote = |user: &str, decision: &str| {
            let path = format!("/v1/approvals/{id}/decision");
            world.client.post(&path, &json!({"decision": decision})).header("x-acting-user", user).send()
        };
        // One person is one vote, however often.
        for _ in 0..2 {
            vote("ann", "approve")
                .await
                .fits(&json!({"status": "pending", "required": 2, "votes": [{"by": "user:ann"}]}));
        }
        vote("bob", last).await.fits(&json!({"status": status, "votes": {"$len": 2}}));
        run.ended().await.fits(&json!({"status": "finished"}));
        assert_eq!(world.tools.effects("pay"), usize::from(last == "approve"));
    }
}

#[tokio::test]
async fn two_keys_are_two_deciders() {
    let world = World::shared().await;
    let run = asks_by_rule(&world, json!({"approvals": 2})).await;
    let path = format!("/v1/approvals/{}/decision", run.pending().await);
    let second = world.key(&["approvals:decide"]).await;
    world.client.post(&path, &json!({"decision": "approve"})).await.fits(&json!({"status": "pending"}));
    second.post(&path, &json!({"decision": "approve"})).await.fits(&json!({"status": "approved"}));
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn of_decisions_at_the_same_time_one_wins() {
    let world = World::shared().await;
    let run = asks(&world).await;
    let path = format!("/v1/approvals/{}/decision", run.pending().await);
    let decisions = ["approve", "deny"].into_iter().cycle().take(12);
    let answers = join_all(decisions.map(async |decision| {
        (decision, world.client.post(&path, &json!({"decision": decision})).await.status)
    }));
    let answers = answers.await;
    run.ended().await.fits(&json!({"status": "finished"}));
    let status = run.list("approvals").await[0]["status"].as_str().expect("a status").to_owned();
    for (decision, answer) in answers {
        let has_won = status.starts_with(decision) || (decision, status.as_str()) == ("deny", "denied");
        assert_eq!(answer, if has_won { 200 } else { 409 }, "{decision}, and {status} has won");
    }
    assert_eq!(world.tools.effects("pay"), usize::from(status == "approved"));
}

#[tokio::test]
async fn pending_calls_of_one_step_are_decided_each_on_its_own() {
    let world = World::shared().await;
    let calls = [1, 2, 3].map(|n| ("pay", json!({"amount": n})));
    world.model.script("m", [ModelReply::calls(calls), ModelReply::text("Two of three.")]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    run.when("three approvals", |run| {
        run["pending_approvals"].as_array().is_some_and(|open| open.len() == 3)
    })
    .await;
    let approvals = run.list("approvals").await;
    approvals.fits(&json!([{"input": {"amount": 1}}, {"input": {"amount": 2}}, {"input": {"amount": 3}}]));
    let decide = |n: usize, decision: &str| {
        let path = format!("/v1/approvals/{}/decision", approvals[n]["id"].as_str().expect("an id"));
        world.client.post(&path, &json!({"decision": decision})).send()
    };
    decide(1, "approve").await.fits(&json!({"status": "approved"}));
    run.now().await.fits(&json!({"status": "waiting_approval", "pending_approvals": {"$len": 2}}));
    decide(0, "deny").await.ok();
    decide(2, "approve").await.ok();
    run.ended().await.fits(&json!({"status": "finished", "denied": {"$len": 1}}));
    let mut paid: Vec<String> = world.tools.requests("pay").iter().map(|request| request.text()).collect();
    paid.sort();
    assert_eq!(paid, [r#"{"amount":2}"#, r#"{"amount":3}"#]);
}

#[tokio::test]
async fn a_waiting_call_holds_back_only_later_ones_that_are_not_safe() {
    let world = World::shared().await;
    let calls =
        [("look", json!({"n": 1})), ("pay", json!({})), ("mail", json!({})), ("look", json!({"n": 2}))];
    world.model.script("m", [ModelReply::calls(calls), ModelReply::text("Paid and told.")]);
    let tools = [
        world.read("look").with(json!({"parallel_safe": true})),
        world.write("pay").with(json!({"risk": "high"})),
        world.write("mail"),
    ];
    let run = world.start(&world.agent(&tools)).await;
    run.waiting().await;
    world.tools.reached("look", 2).await;
    assert_eq!(world.tools.requests("mail").len(), 0);
    run.approve().await;
    run.ended().await.fits(&json!({"status": "finished"}));
    let (paid, told) = (world.tools.requests("pay")[0].at, world.tools.requests("mail")[0].at);
    assert!(paid < told);
}

#[tokio::test]
async fn approvals_are_an_inbox_across_runs_and_are_decided_in_bulk() {
    let world = World::shared().await;
    world.model.script("m", [pay(5), pay(6), ModelReply::text("one"), ModelReply::text("two")]);
    let agent = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]);
    let runs = [world.start(&agent).await, world.start(&agent).await];
    let mut ids = Vec::new();
    for run in &runs {
        ids.push(run.pending().await);
    }
    world.client.get("/v1/approvals?status=pending").await.fits(&json!({"data": {"$len": 2}}));
    let path = format!("/v1/approvals?status=pending&run_id={}", runs[0].id);
    world.client.get(&path).await.fits(&json!({"data": [{"id": ids[0]}], "next_cursor": null}));
    let unknown = "apr_00000000-0000-7000-8000-000000000000";
    let decisions = json!({"decisions": [
        {"approval_id": ids[0], "decision": "deny"},
        {"approval_id": unknown, "decision": "deny"},
        {"approval_id": ids[1], "decision": "deny"},
    ]});
    world.client.post("/v1/approvals/decisions", &decisions).await.fits(&json!({"results": [
        {"approval_id": ids[0], "status": 200, "approval": {"status": "denied"}},
        {"approval_id": unknown, "status": 404, "problem": {"code": "not_found"}},
        {"approval_id": ids[1], "status": 200},
    ]}));
    for run in &runs {
        run.when("the end", |run| run["status"] == "finished").await;
    }
    world.client.get("/v1/approvals?status=pending").await.fits(&json!({"data": []}));
}

#[tokio::test]
async fn waiting_for_an_approval_is_no_time_of_the_tool() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::default().delayed(Duration::from_millis(100))]);
    world.model.script("m", [pay(5), ModelReply::text("Paid.")]);
    let pay = world.write("pay").with(json!({"risk": "high", "timeout_ms": 600}));
    let run = world.start(&world.agent(&[pay])).await;
    run.waiting().await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    run.approve().await;
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn a_policy_that_changed_meanwhile_is_judged_when_the_approval_is_used() {
    let world = World::shared().await;
    let run = asks(&world).await;
    run.waiting().await;
    let policy = json!({"rules": [{"tool": "pay", "effect": "deny", "reason": "closed today"}]});
    world.client.put("/v1/policy", &policy).await.ok();
    let answer = run.decide(&json!({"decision": "approve"})).await;
    assert!(matches!(answer.status, 200 | 422), "{answer}");
    if answer.status == 422 {
        run.deny("closed").await;
    }
    run.ended().await.fits(&json!({"status": "finished", "denied": [{"tool_name": "pay"}]}));
    assert_eq!(world.tools.requests("pay").len(), 0);
}
