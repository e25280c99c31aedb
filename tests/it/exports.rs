//! A run as an eval case, and its journal as a download.

use answerable_core::agent::AgentSpec;
use answerable_core::registry::Registry;
use answerable_core::run::{Event, MAX_RECOVERIES, RunConfig, RunState, step};
use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::recorded::journal;
use crate::harness::{Fits, Run, With, World, client_tool};

async fn export(run: &Run<'_>) -> Value {
    run.client().get(&run.path("/export")).await.ok()
}

#[tokio::test]
async fn a_case_is_whole() {
    let world = World::shared().await;
    world
        .tools
        .script("look", [ToolAnswer::status(503).header("retry-after", "0"), ToolAnswer::text("a red door")]);
    world.tools.script("pay", [ToolAnswer::cut()]);
    world.model.script(
        "m",
        [
            ModelReply::status(500),
            ModelReply::calls([
                ("look", json!({"at": "door"})),
                ("pay", json!({"amount": 500})),
                ("ask_user", json!({})),
            ])
            .and_text("Let me see.")
            .usage(90, 12),
            ModelReply::text("It is red."),
        ],
    );
    let pay = world.write("pay").with(json!({"risk": "high", "on_uncertain": "observe"}));
    let tools = [world.read("look"), pay, client_tool("ask_user")];
    let agent = world.client.post("/v1/agents", &world.agent(&tools)).await.is(201);
    let body = json!({"agent_id": agent["id"], "input": [{"role": "user", "content": "what colour is the door?"}],
        "context": {"user": "u-1"}, "budgets": {"max_steps": 5}});
    let run = world.run(&world.client.post("/v1/runs", &body).await.is(201));
    run.decide(&json!({"decision": "approve", "input": {"amount": 50}})).await.ok();
    let call = run.open_call().await;
    export(&run)
        .await
        .fits(&json!({"outcome": {"status": "waiting_tool", "stop_reason": null, "final_answer": null}}));
    run.steer("be brief").await.is(201);
    run.submit(&call, "yes").await.ok();
    let end = run.ended().await;
    let case = export(&run).await;
    case.fits(&json!({
        "object": "eval_case", "version": 1, "name": run.id, "run_id": run.id, "agent_id": agent["id"], "agent_version": 1,
        "input": [{"role": "user", "content": "what colour is the door?"}], "context": {"user": "u-1"},
        "budgets": {"max_steps": 5, "max_tool_calls": 50},
        "agent": {"name": "tester", "tools": [{"name": "look"}, {"name": "pay"}, {"name": "ask_user", "kind": "client"}]},
        "model": [
            {"step": 1, "attempt": 1, "provider": "main", "model": "m", "error": {"kind": "passing", "status": 500}},
            {"step": 1, "attempt": 2, "text": "Let me see.", "kind": "calls", "usage": {"input_tokens": 90, "output_tokens": 12, "estimated": false},
                "tool_calls": [{"name": "look", "arguments": {"at": "door"}}, {"name": "pay", "arguments": {"amount": 500}}, {"name": "ask_user"}]},
            {"step": 2, "attempt": 1, "text": "It is red.", "kind": "final", "tool_calls": []},
        ],
        "tools": [
            {"step": 1, "tool_name": "look", "attempt": 1, "outcome": "not_done", "error_code": "UNAVAILABLE"},
            {"tool_name": "look", "attempt": 2, "outcome": "succeeded", "content": "a red door", "input": {"at": "door"}},
            {"tool_name": "pay", "attempt": 1, "outcome": "unclear", "input": {"amount": 50}},
            {"tool_name": "ask_user", "outcome": "submitted", "content": "yes", "error_code": null},
        ],
        "decisions": [
            {"tool_name": "look", "effect": "allow", "decision": null},
            {"tool_name": "pay", "effect": "ask", "decision": "approve", "input": {"amount": 50}, "by": "~key_"},
            {"tool_name": "ask_user", "effect": "allow"},
        ],
        "steers": [{"step": 2, "content": "be brief"}],
        "outcome": {"status": "finished", "stop_reason": "final_answer", "final_answer": "It is red.", "error": null,
            "used": end["budgets"]["used"], "denied": [],
            "ledger": [{"tool_name": "look", "attempts": 2}, {"tool_name": "pay", "status": "uncertain", "side_effect": "possible"}, {"tool_name": "ask_user"}]},
    }));
    assert_eq!(case["model"][1]["tool_calls"][0]["id"], case["tools"][0]["tool_call_id"]);
    let reader = world.key(&["runs:read"]).await;
    assert_eq!(reader.get(&run.path("/export")).await.ok(), case);
    let writer = world.key(&["runs:write"]).await;
    for part in ["/export", "/journal"] {
        writer.get(&run.path(part)).await.refused(403, "forbidden");
    }
}

#[tokio::test]
async fn no_secret_is_in_it() {
    let world = World::shared().await;
    world.client.put("/v1/secrets/shop", &json!({"value": "s3cret-of-the-shop"})).await.ok();
    world.tools.script("look", [ToolAnswer::text("you sent s3cret-of-the-shop")]);
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("Seen.")]);
    let url = format!("{}?api_key=literal-key&page=2", world.tools.url("look"));
    let headers = json!({"authorization": "Bearer {{secret.shop}}", "x-api-key": "literal-header", "accept": "text/plain"});
    let look = world.read("look").with(json!({"http": {"url": url, "method": "GET", "headers": headers}}));
    let run = world.start(&world.agent(&[look])).await;
    run.ended().await;
    let case = export(&run).await;
    let http = &case["agent"]["tools"][0]["http"];
    http["headers"].fits(&json!({"authorization": "Bearer {{secret.shop}}", "x-api-key": "[redacted]", "accept": "text/plain"}));
    http.fits(&json!({"url": "~?api_key=[redacted]&page=2"}));
    let text = case.to_string();
    for secret in ["s3cret-of-the-shop", "literal-key", "literal-header", world.provider_key()] {
        assert!(!text.contains(secret), "{secret} is in {case:#}");
    }
}

#[tokio::test]
async fn a_downloaded_journal_folds_to_the_run() {
    let world = World::shared().await;
    world.model.script(
        "m",
        [
            ModelReply::calls([
                ("look", json!({"big": 12_345_678_901_234_567_890_u64})),
                ("ask_user", json!({})),
            ]),
            ModelReply::text("Seen."),
        ],
    );
    let run = world.start(&world.agent(&[world.read("look"), client_tool("ask_user")])).await;
    let call = run.open_call().await;
    let so_far = folded(&run).await;
    assert_eq!(so_far["status"], "waiting_tool");
    run.submit(&call, "yes").await.ok();
    run.ended().await;
    assert_eq!(folded(&run).await["status"], "finished");
    let more = world.client.post(&run.path("/continue"), &json!({"input": "sure?"})).await.is(201);
    let more = world.run(&more);
    more.ended().await;
    folded(&more).await;
    let told = journal(&run).await;
    let places: Vec<(i64, i64)> = told.lines.iter().map(place).collect();
    assert!(places.is_sorted() && places.len() > 5, "{places:?}");
}

fn place(line: &Value) -> (i64, i64) {
    (line["seq"].as_i64().expect("a commit"), line["index"].as_i64().expect("a place"))
}

/// What the downloaded journal folds to: the state that is stored.
async fn folded(run: &Run<'_>) -> Value {
    let told = journal(run).await;
    let spec: AgentSpec = serde_json::from_value(told.head["agent"].clone()).expect("an agent");
    let registry = Registry::compile(spec).expect("compiles");
    let config = RunConfig { registry: &registry, max_recoveries: MAX_RECOVERIES };
    let mut state: RunState = serde_json::from_value(told.head["first_state"].clone()).expect("a state");
    for event in told.events() {
        let event: Event = serde_json::from_value(event.clone()).expect("an event");
        state = step(config, state, event).expect("legal").state;
    }
    let stored = run.world().sql::<Value>("SELECT state FROM run_states WHERE run_id = $1", &run.id).await;
    let state = serde_json::to_value(&state).expect("JSON");
    assert_eq!(Some(&state), stored.as_ref());
    state
}

#[tokio::test]
async fn a_long_journal_comes_whole() {
    let world = World::shared().await;
    let big = "x".repeat(200_000);
    world.tools.script("look", (0..30).map(|_| ToolAnswer::text(&big)));
    world.model.script(
        "m",
        (0..30).map(|n| ModelReply::calls([("look", json!({"n": n}))])).chain([ModelReply::text("Seen.")]),
    );
    let look = world.read("look").with(json!({"output": {"max_chars": 300_000}, "repeat": "allow"}));
    let agent = world.agent(&[look]).with(json!({"budgets": {"max_steps": 40, "max_tokens": 100_000_000}}));
    let agent = agent.with(json!({"context": {"max_tokens": 10_000_000}}));
    let run = world.start(&agent).await;
    run.ended().await.fits(&json!({"final_answer": "Seen."}));
    let told = journal(&run).await;
    let answers = told.events().iter().filter(|event| event["ToolAttempted"].is_object()).count();
    assert_eq!(answers, 30);
    let count = "SELECT count(*) FROM journal WHERE run_id = $1";
    assert_eq!(world.sql::<i64>(count, &run.id).await, i64::try_from(told.lines.len()).ok());
    assert_eq!(export(&run).await["tools"].as_array().map(Vec::len), Some(30));
}
