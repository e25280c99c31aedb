//! Agents and their versions.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{Fits, With, World};

#[tokio::test]
async fn versions_stay_and_runs_keep_theirs() {
    let world = World::shared().await;
    let spec = |instructions: &str| world.agent(&[]).with(json!({"instructions": instructions}));
    let made = world.client.post("/v1/agents", &spec("first")).await;
    let location = made.header("location").map(str::to_owned);
    let made = made.is(201);
    made.fits(&json!({"id": "~agt_", "object": "agent", "version": 1, "archived_at": null}));
    let path = format!("/v1/agents/{}", made["id"].as_str().expect("an id"));
    assert_eq!(location.as_deref(), Some(path.as_str()));
    world.client.put(&path, &spec("second")).await.fits(&json!({"version": 2, "instructions": "second"}));
    world.client.get(&path).await.fits(&json!({"version": 2, "instructions": "second"}));
    world
        .client
        .get(&format!("{path}?version=1"))
        .await
        .fits(&json!({"version": 1, "instructions": "first"}));
    world.client.get(&format!("{path}?version=9")).await.refused(404, "not_found");
    world
        .client
        .get(&format!("{path}/versions"))
        .await
        .fits(&json!({"data": [{"version": 1}, {"version": 2}]}));
    world.model.script("m", ["one", "two"].map(ModelReply::text));
    let body = |more: Value| json!({"agent_id": made["id"], "input": "go"}).with(more);
    for (more, version, words) in [(json!({}), 2, "second"), (json!({"agent_version": 1}), 1, "first")] {
        let run = world.client.post("/v1/runs", &body(more)).await.is(201);
        run.fits(&json!({"agent_id": made["id"], "agent_version": version}));
        world.run(&run).ended().await;
        world.model.requests_for("m").last().expect("a request")["messages"][0]
            .fits(&json!({"content": words}));
    }
    world.client.post("/v1/runs", &body(json!({"agent_version": 9}))).await.refused_at("/agent_version");
    world.client.delete(&path).await.is(204);
    world.client.post("/v1/runs", &body(json!({}))).await.refused_at("/agent_id");
    world
        .client
        .get("/v1/runs")
        .await
        .fits(&json!({"data": [{"status": "finished", "agent_id": made["id"]}, {}]}));
}

#[tokio::test]
async fn a_waiting_run_keeps_its_version() {
    let world = World::shared().await;
    let pay = world.write("pay").with(json!({"risk": "high"}));
    let made = world.client.post("/v1/agents", &world.agent(&[pay])).await.is(201);
    let path = format!("/v1/agents/{}", made["id"].as_str().expect("an id"));
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let run = world.client.post("/v1/runs", &json!({"agent_id": made["id"], "input": "go"})).await.is(201);
    let run = world.run(&run);
    run.waiting().await;
    // The tool is gone from the newer version.
    world.client.put(&path, &world.agent(&[])).await.ok();
    run.approve().await;
    run.ended().await.fits(&json!({"status": "finished", "agent_version": 1}));
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn what_is_stored_is_shown_with_its_defaults() {
    let world = World::shared().await;
    let made = world.client.post("/v1/agents", &world.agent(&[world.read("look")])).await.is(201);
    made.fits(&json!({
        "budgets": {"max_steps": 20, "max_tokens": 200_000, "max_tool_calls": 50, "timeout_ms": 600_000, "on_exhausted": "stop"},
        "loop_guard": {"max_repeated_calls": 3, "max_repeated_errors": 3},
        "policy": {"rules": []}, "context": {"max_tokens": 32_000, "overflow": "drop_oldest"},
        "tools": [{"name": "look", "risk": "low", "idempotent": false, "on_uncertain": "stop"}],
    }));
}

#[tokio::test]
async fn what_is_not_available_is_said_so() {
    let world = World::shared().await;
    let table = [
        json!({"tools": [{"name": "wipe_disk", "kind": "shell"}]}),
        json!({"tools": [{"name": "files__read", "kind": "mcp"}]}),
        json!({"mcp": [{"server": "files"}]}),
        json!({"tools": [world.read("t").with(json!({"input_schema": {"$ref": "https://schemas.example/t.json"}}))]}),
    ];
    for change in table {
        world.client.post("/v1/agents", &world.agent(&[]).with(change)).await.refused(422, "invalid_request");
    }
}
