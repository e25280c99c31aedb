//! Runs that stand on runs with listed tools: continued, forked, played again, exported.

use answerable_testkit::{McpAnswer, ModelReply};
use serde_json::json;

use super::{Mcp, reads, takes};
use crate::harness::recorded::{replay, same_again};
use crate::harness::{Fits, With, World};

#[tokio::test]
async fn an_heir_lists_anew_and_makes_no_effect_twice() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let shop = mcp.server(&world, "shop", &["pay"]).await;
    shop.script("pay", [McpAnswer::text("paid 1")]);
    world.model.script(
        "m",
        [
            ModelReply::calls([("shop__pay", json!({"n": 1}))]),
            ModelReply::text("Paid."),
            ModelReply::calls([("shop__pay", json!({"n": 1})), ("shop__refund", json!({}))]),
            ModelReply::text("Paid once."),
        ],
    );
    let run = world.start(&takes(&world, "shop", json!({}))).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    shop.offers([json!({"name": "pay"}), json!({"name": "refund"})]);
    let fork = world.client.post(&run.path("/fork"), &json!({"after_step": 0})).await.is(201);
    let fork = world.run(&fork);
    fork.ended().await.fits(&json!({"status": "finished", "final_answer": "Paid once."}));
    fork.calls().await.fits(&json!([
        {"tool_name": "shop__pay", "result": {"status": "succeeded", "content": "paid 1"}},
        {"tool_name": "shop__refund", "result": {"status": "succeeded"}},
    ]));
    let names: Vec<_> = shop.params("tools/call").iter().map(|params| params["name"].clone()).collect();
    assert_eq!(names, ["pay", "refund"]);
    assert!(fork.event_types().await.contains(&"tools.listed".to_owned()));
}

#[tokio::test]
async fn a_replay_plays_the_list_of_then_and_asks_nobody() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let files = mcp.server(&world, "files", &["unlock"]).await;
    let more = [json!({"name": "unlock"}), json!({"name": "Treasure chest"})];
    files.script("unlock", [McpAnswer::text("unlocked").changing_tools(more)]);
    world.model.script(
        "m",
        [
            ModelReply::calls([("files__unlock", json!({}))]),
            ModelReply::calls([("files__Treasure chest", json!({}))]),
            ModelReply::text("Gold."),
        ],
    );
    let agent = takes(&world, "files", reads());
    let run = world.start(&agent).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(run.event_types().await.iter().filter(|kind| *kind == "tools.listed").count(), 2);
    let asked = files.requests("tools/list").len() + files.requests("tools/call").len();
    same_again(&run).await;
    // Under an agent that takes less, what it doesn't take is no tool.
    let less = json!({"mcp": [{"server": "files", "allow": ["unlock"], "defaults": reads()}]});
    let other = replay(&run, json!({"agent": agent.with(less)})).await;
    other.now().await.fits(&json!({"replay": {"first_difference": {"step": 2}}}));
    other.calls().await.fits(&json!([{"validation": "ok"}, {"validation": "unknown_tool"}]));
    assert_eq!(files.requests("tools/list").len() + files.requests("tools/call").len(), asked);
}

#[tokio::test]
async fn an_exported_case_has_the_tools_as_its_own() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let files = mcp.server(&world, "files", &["read", "Docker scan"]).await;
    files.script("Docker scan", [McpAnswer::text("clean")]);
    world
        .model
        .script("m", [ModelReply::calls([("files__Docker scan", json!({}))]), ModelReply::text("Clean.")]);
    let run = world.start(&takes(&world, "files", reads())).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    let case = world.client.get(&run.path("/export")).await.ok();
    let tools = case["agent"]["tools"].as_array().expect("tools");
    let named = tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect::<Vec<_>>();
    let legal =
        |name: &str| name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    assert!(named.len() == 2 && named.iter().all(|name| legal(name)), "{named:?}");
    assert_eq!((&case["agent"]["mcp"], named[0]), (&json!([]), "files__read"));
    case.fits(&json!({
        "tools": [{"tool_name": named[1], "content": "clean"}], "model": [{"tool_calls": [{"name": named[1]}]}, {}],
        "outcome": {"ledger": [{"tool_name": named[1]}]},
    }));
    // It is an agent that can be stored as it is.
    world.client.post("/v1/agents", &case["agent"]).await.is(201);
}
