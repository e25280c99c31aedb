//! The main way: a run answers, reads, writes.

use answerable_testkit::{ModelReply, ToolAnswer, signature};
use serde_json::json;

use crate::harness::{Fits, With, World};

#[tokio::test]
async fn a_run_ends_with_the_models_answer() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("It is done.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await.fits(&json!({
        "object": "run", "status": "finished", "stop_reason": "final_answer", "final_answer": "It is done.",
        "error": null, "agent_id": null, "thread_id": null, "attempt": 1, "denied": [], "uncertain": [],
        "budgets": {"used": {
            "steps": 1, "tool_calls": 0, "input_tokens": 10, "output_tokens": 5, "tokens": 15, "cost_microusd": 0,
        }},
    }));
    run.list("ledger").await.fits(&json!([]));
    run.list("messages").await.fits(&json!([
        {"role": "user", "content": "go"}, {"role": "assistant", "content": "It is done.", "step": 1},
    ]));
    run.list("steps").await.fits(&json!([
        {"number": 1, "status": "completed", "model": {"provider": "main", "model": "m", "attempts": 1}},
    ]));
    assert_eq!(world.model.requests_for("m").len(), 1);
}

#[tokio::test]
async fn the_order_of_events_never_changes() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("Seen.")]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    run.ended().await;
    let wanted = [
        "run.queued",
        "run.started",
        "step.started",
        "context.built",
        "model.started",
        "model.completed",
        "permission.decided",
        "tool.started",
        "tool.completed",
        "checkpoint.saved",
        "step.started",
        "context.built",
        "model.started",
        "model.completed",
        "run.finished",
    ];
    let types = run.event_types().await;
    let kept: Vec<&String> = types.iter().filter(|kind| *kind != "checkpoint.saved").collect();
    let wanted_kept: Vec<&str> = wanted.into_iter().filter(|kind| *kind != "checkpoint.saved").collect();
    assert_eq!(kept, wanted_kept);
    let place = |kind: &str| types.iter().position(|known| known == kind).expect("it is there");
    assert!(place("tool.completed") < place("checkpoint.saved"), "{types:?}");
    run.list("checkpoints").await.fits(&json!({"$any": [{"step": 1, "state_hash": "*"}]}));
}

#[tokio::test]
async fn a_read_shows_the_model_what_the_tool_said() {
    let world = World::shared().await;
    let schema = json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}});
    let find =
        world.read("find_order").with(json!({"input_schema": schema, "description": "finds an order"}));
    world.tools.script("find_order", [ToolAnswer::json(&json!({"status": "shipped on Tuesday"}))]);
    world
        .model
        .script("m", [ModelReply::calls([("find_order", json!({"id": 7}))]), ModelReply::text("Tuesday.")]);
    let run = world.start(&world.agent(&[find])).await;
    run.ended()
        .await
        .fits(&json!({"status": "finished", "budgets": {"used": {"steps": 2, "tool_calls": 1}}}));
    run.list("ledger").await.fits(&json!([{
        "tool_name": "find_order", "status": "succeeded", "side_effect": "none", "attempts": 1, "resolution": null,
    }]));
    run.calls().await.fits(&json!([{
        "tool_name": "find_order", "input": {"id": 7}, "validation": "ok", "original_input": null,
        "decision": {"effect": "allow", "by": "policy"},
        "result": {"status": "succeeded", "content": "~shipped on Tuesday", "error_code": null, "truncated": false},
    }]));
    let asked = world.model.requests_for("m");
    asked[0].fits(&json!({"tools": [{"function": {"name": "find_order", "description": "finds an order"}}]}));
    asked[1]["messages"].fits(&json!([
        {"role": "system", "content": "You test."},
        {"role": "user", "content": "go"},
        {"role": "assistant"},
        {"role": "tool", "content": "~shipped on Tuesday"},
    ]));
}

#[tokio::test]
async fn a_tool_is_told_who_calls_and_can_check_it() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("look", json!({"n": 1}))]), ModelReply::text("Seen.")]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    let shown = run.ended().await;
    let entry = run.list("ledger").await[0].clone();
    let request = &world.tools.requests("look")[0];
    assert_eq!((request.method.as_str(), request.json()), ("POST", json!({"n": 1})));
    let call = entry["tool_call_id"].as_str().expect("an id");
    for (name, value) in [
        ("x-run-id", run.id.as_str()),
        ("x-tool-call-id", call),
        ("x-attempt", "1"),
        ("webhook-id", call),
        ("idempotency-key", entry["idempotency_key"].as_str().expect("a key")),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    let trace = format!("00-{}-", shown["trace_id"].as_str().expect("a trace"));
    assert!(request.header("traceparent").is_some_and(|parent| parent.starts_with(&trace)));
    let secret = world.client.get("/v1/signing_secret").await.ok();
    assert_eq!(signature::verify(request, secret["signing_secret"].as_str().expect("a secret")), Ok(()));
}

#[tokio::test]
async fn a_write_stands_in_the_ledger_before_the_next_step() {
    let world = World::shared().await;
    world.tools.script("create_order", [ToolAnswer::json(&json!({"order_id": 41})).with_status(201)]);
    world.model.script(
        "m",
        [ModelReply::calls([("create_order", json!({"cart": "c-1"}))]), ModelReply::text("Made.")],
    );
    let run = world.start(&world.agent(&[world.write("create_order")])).await;
    run.ended().await.fits(&json!({"status": "finished", "uncertain": [], "denied": []}));
    run.list("ledger").await.fits(&json!([{
        "run_id": run.id, "step": 1, "tool_name": "create_order", "status": "succeeded", "side_effect": "committed",
        "attempts": 1, "error_code": null, "finished_at": "*",
    }]));
    run.list("events").await.fits(&json!({"$in_order": [
        {"type": "permission.decided", "step": 1, "data": {"tool_name": "create_order"}},
        {"type": "tool.started", "step": 1, "data": {"tool_name": "create_order"}},
        {"type": "tool.completed", "step": 1, "data": {"tool_name": "create_order"}},
        {"type": "checkpoint.saved"},
        {"type": "step.started", "step": 2},
    ]}));
    assert_eq!(world.tools.effects("create_order"), 1);
}

#[tokio::test]
async fn the_intent_is_stored_before_the_effect() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::default().held()]);
    world.model.script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    world.tools.reached("pay", 1).await;
    run.list("ledger").await.fits(&json!([{"status": "started", "finished_at": null}]));
    run.calls().await.fits(&json!([{"decision": {"effect": "allow"}, "result": null, "ledger_id": "*"}]));
    world.tools.release("pay");
    run.ended().await.fits(&json!({"status": "finished"}));
}

#[tokio::test]
async fn several_calls_in_one_reply_keep_their_order_and_get_ids_of_their_own() {
    let world = World::shared().await;
    world.tools.script("add", ["first", "second", "third"].map(ToolAnswer::text));
    // The scripted model gives every first call of a reply the same id.
    world.model.script(
        "m",
        [
            ModelReply::calls([("add", json!({"n": 1})), ("add", json!({"n": 2}))]).and_text("Adding two."),
            ModelReply::calls([("add", json!({"n": 3}))]),
            ModelReply::text("All added."),
        ],
    );
    let run = world.start(&world.agent(&[world.write("add")])).await;
    run.ended()
        .await
        .fits(&json!({"status": "finished", "budgets": {"used": {"steps": 3, "tool_calls": 3}}}));
    let sent: Vec<_> =
        world.tools.requests("add").iter().map(|request| request.json()["n"].clone()).collect();
    assert_eq!(sent, [1, 2, 3]);
    run.list("ledger").await.fits(&json!([
        {"step": 1, "status": "succeeded"}, {"step": 1, "status": "succeeded"}, {"step": 2, "status": "succeeded"},
    ]));
    let asked = world.model.requests_for("m");
    asked[1]["messages"].fits(&json!([
        {"role": "system"}, {"role": "user"},
        {"role": "assistant", "content": "Adding two.", "tool_calls": {"$len": 2}},
        {"role": "tool", "content": "~first"}, {"role": "tool", "content": "~second"},
    ]));
}

#[tokio::test]
async fn safe_calls_run_together_and_others_one_by_one() {
    for (is_safe, at_once) in [(true, 3), (false, 1)] {
        let world = World::shared().await;
        let answers = ["first", "second", "third"].map(|text| ToolAnswer::text(text).held());
        world.tools.script("look", answers);
        let calls = [1, 2, 3].map(|n| ("look", json!({"n": n})));
        world.model.script("m", [ModelReply::calls(calls), ModelReply::text("Seen.")]);
        let look = world.read("look").with(json!({"parallel_safe": is_safe}));
        let run = world.start(&world.agent(&[look])).await;
        world.tools.reached("look", at_once).await;
        for _ in 0..3 {
            world.tools.release("look");
        }
        run.ended().await.fits(&json!({"status": "finished"}));
        run.calls().await.fits(&json!([{"input": {"n": 1}}, {"input": {"n": 2}}, {"input": {"n": 3}}]));
        assert_eq!(world.tools.at_once("look"), at_once);
    }
}

#[tokio::test]
async fn the_context_is_for_policies_and_templates_and_never_for_the_model() {
    let world = World::shared().await;
    let over = json!({"properties": {"amount": {"exclusiveMinimum": 10}}});
    let trial = json!({"required": ["group"], "properties": {"group": {"const": "trial"}}});
    let policy = json!({"rules": [
        {"tool": "p*", "effect": "allow"},
        {"tool": "pay", "effect": "deny", "reason": "over the limit", "input": over, "context": trial},
    ]});
    let pay = world.write("pay").with(json!({
        "idempotency_key": "pay:{{context.user}}:{{input.amount}}",
        "http": {"headers": {"x-user": "{{context.user}}"}},
    }));
    world.model.script("m", [11, 10].map(|amount| ModelReply::calls([("pay", json!({"amount": amount}))])));
    world.model.script("m", [ModelReply::text("Paid ten.")]);
    let agent = world.agent(&[pay]).with(json!({"policy": policy}));
    let run = world.start_with(&agent, json!({"context": {"user": "u-77", "group": "trial"}})).await;
    run.ended().await.fits(&json!({
        "status": "finished", "denied": [{"tool_name": "pay", "reason": "over the limit", "decided_by": "policy"}],
    }));
    run.list("ledger").await.fits(&json!([{"idempotency_key": "pay:u-77:10", "status": "succeeded"}]));
    let request = &world.tools.requests("pay")[0];
    assert_eq!(request.header("idempotency-key"), Some("pay:u-77:10"));
    assert_eq!(request.header("x-user"), Some("u-77"));
    assert!(!world.model.requests_for("m")[2].to_string().contains("u-77"));
}

#[tokio::test]
async fn a_call_with_a_known_business_key_is_not_sent_again() {
    let world = World::shared().await;
    let pay = world.write("pay").with(json!({"idempotency_key": "order:{{input.cart}}"}));
    let calls =
        |cart: &str, amount: i64| ModelReply::calls([("pay", json!({"cart": cart, "amount": amount}))]);
    world.model.script("m", [calls("c-1", 5), ModelReply::text("Paid.")]);
    world.model.script("m", [calls("c-1", 5), calls("c-1", 6), ModelReply::text("As before.")]);
    let agent = world.agent(&[pay]);
    let first = world.start(&agent).await;
    first.ended().await;
    let entry = first.list("ledger").await[0]["id"].clone();
    let second = world.start(&agent).await;
    second.ended().await.fits(&json!({"status": "finished"}));
    second.calls().await.fits(&json!([
        {"ledger_id": entry, "result": {"status": "succeeded"}},
        {"result": {"status": "failed", "error_code": "CONFLICT"}},
    ]));
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn a_conversation_can_be_the_input() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Hello again.")]);
    let input = json!([
        {"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello!"},
        {"role": "user", "content": "and again"},
    ]);
    let run = world.start_with(&world.agent(&[]), json!({"input": input})).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    world.model.requests_for("m")[0]["messages"].fits(&json!([
        {"role": "system"}, {"role": "user"}, {"role": "assistant", "content": "hello!"},
        {"role": "user", "content": "and again"},
    ]));
}

#[tokio::test]
async fn numbers_and_text_arrive_as_they_were_sent() {
    let world = World::shared().await;
    let arguments =
        r#"{"id": 1234567890123456789, "to": "Zoë 🧾 東京", "deep": {"a": [null, -0.5, [true]]}}"#;
    world
        .model
        .script("m", [ModelReply::raw_calls([("pay", arguments.to_owned())]), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    run.ended().await;
    let sent = world.tools.requests("pay")[0].text();
    assert!(sent.contains("1234567890123456789") && sent.contains("Zoë 🧾 東京"), "{sent}");
    run.calls().await.fits(&json!([{"input": {"to": "Zoë 🧾 東京", "deep": {"a": [null, -0.5, [true]]}}}]));
    let stored = run.calls().await.to_string();
    assert!(stored.contains("1234567890123456789"), "{stored}");
}
