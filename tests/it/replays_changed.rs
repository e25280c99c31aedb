//! A run that is played again under another agent, policy, context or other limits goes where they lead it, and says where it
//! first went otherwise.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::recorded::{ask_replay, asked, journal, replay};
use crate::harness::{Fits, Run, With, World};

/// A run that looked, paid 5 with a person's leave and said so; and its agent.
async fn paid(world: &World) -> (Run<'_>, Value) {
    world.tools.script("look", [ToolAnswer::text("a red door")]);
    world.tools.script("pay", [ToolAnswer::json(&json!({"receipt": 12}))]);
    world.model.script(
        "m",
        [
            ModelReply::calls([("look", json!({"at": "door"}))]),
            ModelReply::calls([("pay", json!({"amount": 5}))]),
            ModelReply::text("Paid."),
        ],
    );
    let pay = world.write("pay").with(json!({"risk": "high", "idempotency_key": "order-{{context.order}}"}));
    let agent = world.agent(&[world.read("look"), pay]);
    let run = world.start_with(&agent, json!({"context": {"order": 7}})).await;
    run.approve().await;
    run.ended().await.fits(&json!({"final_answer": "Paid."}));
    (run, agent)
}

#[tokio::test]
async fn each_change_leads_to_its_first_difference() {
    let world = World::shared().await;
    let (run, agent) = paid(&world).await;
    let before = asked(&run).await;
    let rule = |rule: Value| json!({"policy": {"rules": [rule]}});
    let effect = "tool_calls[0].decision.effect";
    let table = [
        // A policy that has nothing against it; the person's word still counts.
        (json!({"policy": {"rules": []}}), None, "final_answer"),
        (
            rule(json!({"tool": "pay", "effect": "deny"})),
            Some((Some(2), effect, json!(["ask", "allow"]), json!("deny"))),
            "final_answer",
        ),
        (
            rule(json!({"tool": "look", "effect": "ask", "expires_ms": 1000})),
            Some((Some(1), effect, json!("allow"), json!(["ask", "deny"]))),
            "final_answer",
        ),
        (
            rule(json!({"tool": "look", "effect": "ask", "on_expiry": "stop"})),
            Some((Some(1), effect, json!("allow"), json!(["ask", "deny"]))),
            "approval_expired",
        ),
        (
            json!({"budgets": {"max_steps": 1}}),
            Some((Some(2), "status", json!("completed"), json!(null))),
            "max_steps",
        ),
        (
            json!({"budgets": {"max_tool_calls": 1}}),
            Some((Some(2), "tool_calls[0].validation", json!("ok"), json!("over_limit"))),
            "max_tool_calls",
        ),
        (
            json!({"budgets": {"max_tokens": 100}}),
            Some((Some(3), "status", json!("completed"), json!(null))),
            "max_tokens",
        ),
        (json!({"budgets": {"max_steps": 90}}), None, "final_answer"),
        (json!({"context": {"order": 7}}), None, "final_answer"),
        (json!({"context": {"order": 8}}), None, "final_answer"),
        (
            json!({"context": {}}),
            Some((Some(2), "tool_calls[0].validation", json!("ok"), json!("schema_violation"))),
            "final_answer",
        ),
        (json!({"agent": agent}), None, "final_answer"),
        (
            json!({"agent": agent.clone().with(json!({"tools": [agent["tools"][0], agent["tools"][1].clone().with(json!({"risk": "low"}))]}))}),
            Some((Some(2), effect, json!(["ask", "allow"]), json!("allow"))),
            "final_answer",
        ),
        (
            json!({"agent": agent.clone().with(json!({"loop_guard": {"max_repeated_errors": 1}})),
                "policy": {"rules": [{"tool": "look", "effect": "deny", "reason": "no looking"}]}}),
            Some((Some(1), effect, json!("allow"), json!("deny"))),
            "same_error_repeated",
        ),
    ];
    for (change, wanted, end) in table {
        let now = replay(&run, change.clone()).await.now().await;
        now.fits(&json!({"stop_reason": end}));
        let difference = wanted.map(|(step, field, expected, got)| {
            json!({"step": step, "field": field, "expected": expected, "got": got})
        });
        assert_eq!(now["replay"]["first_difference"], json!(difference), "{change}");
    }
    assert_eq!(asked(&run).await, before, "somebody was asked");
    run.list("ledger").await.fits(&json!({"$len": 2}));
}

#[tokio::test]
async fn another_agent_shows_the_model_something_else() {
    let world = World::shared().await;
    let (run, agent) = paid(&world).await;
    let brief = json!({"instructions": "You test, and you are as brief as can be.", "name": "brief"});
    let other = replay(&run, json!({"agent": agent.clone().with(brief), "metadata": {"try": "2"}})).await;
    let now = other.now().await;
    now.fits(&json!({"agent_id": null, "metadata": {"try": "2"}, "status": "finished",
        "replay": {"first_difference": {"step": 1, "field": "context.tokens"}}}));
    let (then, now) = (run.list("steps").await, other.list("steps").await);
    assert!(now[0]["context"]["tokens"].as_u64() > then[0]["context"]["tokens"].as_u64());
    assert_eq!(journal(&other).await.head["agent"]["name"], "brief");
    // One without the tool: its call is unknown, and its answer nobody's.
    let less = agent.clone().with(json!({"tools": [agent["tools"][0]]}));
    let less = replay(&run, json!({"agent": less})).await;
    less.calls()
        .await
        .fits(&json!([{"validation": "ok"}, {"tool_name": "pay", "validation": "unknown_tool"}]));
}

#[tokio::test]
async fn the_tenants_policy_of_now_is_judged_by_unless_another_is_given() {
    let world = World::shared().await;
    let (run, agent) = paid(&world).await;
    world
        .client
        .put("/v1/policy", &json!({"rules": [{"tool": "pay", "effect": "deny", "reason": "closed"}]}))
        .await
        .ok();
    // Unchanged, what was judged then stands.
    let same = replay(&run, json!({})).await.now().await;
    assert_eq!(same["replay"]["first_difference"], Value::Null);
    let other = agent.with(json!({"name": "other"}));
    let denied = replay(&run, json!({"agent": other})).await.now().await;
    denied.fits(&json!({"denied": [{"tool_name": "pay", "reason": "closed"}]}));
    let given = replay(&run, json!({"agent": other, "policy": {"rules": []}})).await.now().await;
    given.fits(&json!({"denied": [], "replay": {"first_difference": null}}));
    // Limits alone judge nothing again.
    let limits = replay(&run, json!({"budgets": {"max_steps": 7}})).await.now().await;
    limits.fits(&json!({"denied": [], "replay": {"first_difference": null}, "budgets": {"max_steps": 7}}));
}

#[tokio::test]
async fn where_the_recording_ends_so_does_the_replay() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("look", json!({}))])]);
    let agent = world.agent(&[world.read("look")]).with(json!({"budgets": {"max_steps": 1}}));
    let run = world.start(&agent).await;
    run.ended().await.fits(&json!({"stop_reason": "max_steps"}));
    let further = replay(&run, json!({"budgets": {"max_steps": 5}})).await;
    further.now().await.fits(&json!({
        "stop_reason": "model_error", "error": {"code": "recording_exhausted", "step": 2}, "final_answer": "~no more replies",
        "replay": {"first_difference": {"step": 2, "field": "status", "expected": null, "got": "completed"}},
    }));
    // A call that was denied then and is allowed now was never answered.
    world.model.script("m", [ModelReply::calls([("wipe", json!({}))]), ModelReply::text("No.")]);
    let wipe = world.write("wipe").with(json!({"risk": "critical"}));
    let run = world.start(&world.agent(std::slice::from_ref(&wipe))).await;
    run.ended().await;
    let allowed = world.agent(&[wipe.with(json!({"risk": "low"}))]);
    let replay = replay(&run, json!({"agent": allowed})).await;
    replay
        .calls()
        .await
        .fits(&json!([{"result": {"error_code": "UNAVAILABLE", "content": "~no answer for this call"}}]));
    assert_eq!(world.tools.requests("wipe").len(), 0);
}

#[tokio::test]
async fn the_same_change_leads_to_the_same() {
    let world = World::shared().await;
    let (run, _) = paid(&world).await;
    let change = || json!({"policy": {"rules": [{"tool": "look", "effect": "ask", "expires_ms": 500}]}});
    let (first, second) = (replay(&run, change()).await, replay(&run, change()).await);
    let (one, other) = (journal(&first).await, journal(&second).await);
    assert_eq!(one.without_ids(), other.without_ids());
    // Played again unchanged, it is what it was, the person's time included.
    let again = replay(&first, json!({})).await;
    again.now().await.fits(&json!({"replay": {"of": first.id, "first_difference": null}}));
    assert_eq!(journal(&again).await.without_ids(), one.without_ids());
}

#[tokio::test]
async fn what_was_deleted_can_not_be_shown_again() {
    let world = World::shared().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201)["id"].clone();
    world.model.script("m", [ModelReply::text("Hello."), ModelReply::text("Bye.")]);
    let agent = world.agent(&[]);
    let first = world.start_with(&agent, json!({"thread_id": thread})).await;
    first.ended().await;
    let run = world.start_with(&agent, json!({"thread_id": thread})).await;
    run.ended().await;
    world.client.delete(&first.path("")).await.is(204);
    let change = json!({"budgets": {"max_steps": 9}});
    ask_replay(&run, change).await.refused(409, "conflict");
    let same = replay(&run, json!({})).await;
    same.now().await.fits(&json!({"replay": {"first_difference": null}}));
}
