//! The list: read when a run begins, and again before a step where it may be another by then.

use answerable_testkit::{McpAnswer, ModelReply};
use serde_json::{Value, json};

use super::{Mcp, reads, takes};
use crate::harness::{Fits, With, World, traces};

#[tokio::test]
async fn tools_are_listed_called_and_told_of() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let files = mcp.server(&world, "files", &[]).await;
    files.offers([
        json!({"name": "read", "description": "reads a file", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}}),
        json!({"name": "odd", "inputSchema": [1]}),
        json!({"name": "Docker scan"}),
    ]);
    files.script("read", [McpAnswer::text("three lines")]);
    let calls = [("files__read", json!({"path": "a"})), ("files__Docker scan", json!({}))];
    world.model.script("m", [ModelReply::calls(calls), ModelReply::text("Read.")]);
    let run = world.start(&takes(&world, "files", json!({"risk": "low", "side_effect": "write"}))).await;
    run.ended().await.fits(&json!({"status": "finished", "final_answer": "Read."}));
    let events = run.list("events").await;
    let listed = events
        .as_array()
        .into_iter()
        .flatten()
        .find(|event| event["type"] == "tools.listed")
        .expect("it is told");
    listed.fits(&json!({"data": {
        "servers": ["files"], "tools": ["files__read", "files__Docker scan"], "missing": [],
        "left_out": [{"tool": "files__odd", "reason": "*"}],
        "suggested": [{"tool": "files__read", "risk": "low", "side_effect": "none", "idempotent": false}],
    }}));
    run.calls().await.fits(&json!([
        {"tool_name": "files__read", "result": {"content": "three lines"}}, {"tool_name": "files__Docker scan"},
    ]));
    run.list("messages").await.fits(
        &json!([{}, {"tool_calls": [{"tool_name": "files__read"}, {"tool_name": "files__Docker scan"}]},
        {}, {}, {}]),
    );
    let span = traces::of(&run).await.into_iter().find(|span| span.name == "tool.call").expect("a span");
    assert_eq!(
        (span.get("answerable.mcp.server"), span.get("answerable.mcp.tool")),
        (&json!("files"), &json!("read"))
    );
    assert_eq!(files.faults(), [""; 0]);
}

#[tokio::test]
async fn a_list_that_changed_while_people_were_waited_for_is_read_again() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let shop = mcp.server(&world, "shop", &["pay"]).await;
    world.model.script(
        "m",
        [
            ModelReply::calls([("shop__pay", json!({}))]),
            ModelReply::calls([("shop__refund", json!({})), ("shop__pay", json!({"n": 2}))]),
            ModelReply::text("Done."),
        ],
    );
    let ask = json!({"rules": [{"tool": "shop__pay", "effect": "ask"}]});
    let run = world.start(&takes(&world, "shop", json!({})).with(json!({"policy": ask}))).await;
    run.waiting().await;
    // Nobody in this process listens any more; the run finds out all the same.
    shop.offers([json!({"name": "refund"})]);
    run.decide(&json!({"decision": "approve"})).await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
    run.calls().await.fits(&json!([
        {"tool_name": "shop__pay", "result": {"status": "succeeded"}},
        {"tool_name": "shop__refund", "result": {"status": "succeeded"}},
        {"tool_name": "shop__pay", "validation": "unknown_tool"},
    ]));
    let asked = world.model.requests_for("m");
    assert!(asked[0].to_string().contains("shop__pay") && !asked[0].to_string().contains("shop__refund"));
    assert!(offered(&asked[1]).contains(&"shop__refund".to_owned()) && offered(&asked[1]).len() == 1);
}

/// The names of the tools that a request offers.
fn offered(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| Some(tool["function"]["name"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn an_edited_input_is_judged_by_the_servers_schema() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let shop = mcp.server(&world, "shop", &[]).await;
    let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
    shop.offers([json!({"name": "pay", "inputSchema": schema})]);
    world
        .model
        .script("m", [ModelReply::calls([("shop__pay", json!({"amount": 5}))]), ModelReply::text("Paid.")]);
    let run = world.start(&takes(&world, "shop", json!({"risk": "high"}))).await;
    run.waiting().await;
    let approved = |amount: Value| json!({"decision": "approve", "input": {"amount": amount}});
    run.decide(&approved("five".into())).await.refused_at("/input/amount");
    run.decide(&approved(4.into())).await.ok();
    run.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(shop.params("tools/call")[0]["arguments"], json!({"amount": 4}));
}

#[tokio::test]
async fn without_a_server_that_it_can_do_without_a_run_goes_on() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    mcp.server(&world, "files", &["read"]).await;
    world.client.put("/v1/mcp_servers/gone", &json!({"url": "http://127.0.0.1:9/mcp"})).await.ok();
    world.model.script("m", [ModelReply::calls([("files__read", json!({}))]), ModelReply::text("Read.")]);
    let both = |required: bool| json!({"mcp": [{"server": "files", "allow": ["*"]}, {"server": "gone", "allow": ["*"], "required": required}]});
    let run = world.start(&world.agent(&[]).with(both(false))).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    let step = world.client.get(&run.path("/steps/1")).await.ok();
    step.fits(&json!({"context": {"missing_servers": [{"server": "gone", "reason": "*"}]}}));
    let lost = world.start(&world.agent(&[]).with(both(true))).await;
    let end = lost.ended().await;
    end.fits(&json!({"status": "failed", "stop_reason": "tools_unavailable", "error": {"step": null}}));
    let answer = end["final_answer"].as_str().expect("a sentence");
    assert!(
        answer.contains("gone") && !answer.contains("127.0.0.1") && !answer.contains("canary"),
        "{answer}"
    );
    assert_eq!(world.model.requests_for("m").len(), 2, "the model was not asked in vain");
}

#[tokio::test]
async fn one_session_serves_a_tenants_runs_and_no_other_tenants() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let files = mcp.server(&world, "files", &["read"]).await;
    let agent = takes(&world, "files", reads());
    for _ in 0..2 {
        world.model.script("m", [ModelReply::calls([("files__read", json!({}))]), ModelReply::text("Read.")]);
        world.start(&agent).await.ended().await.fits(&json!({"status": "finished"}));
    }
    assert_eq!(files.requests("initialize").len(), 1, "a session is shared");
    let (_, stranger) = world.neighbour(&json!({})).await;
    stranger.get("/v1/mcp_servers/files").await.refused(404, "not_found");
    stranger.post("/v1/agents", &agent).await.refused_at("/mcp/0/server");
}
