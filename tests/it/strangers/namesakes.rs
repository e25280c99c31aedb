//! Two tenants who name and write everything alike: what befalls the one, and what it changes, stays its own.

use answerable_testkit::{ModelReply, ScriptedModel, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::{Client, Fits, Run, With, World, until};
use crate::mcp::Mcp;

/// A run of this agent, of a tenant's own, at its end.
async fn ended<'w>(world: &'w World, client: &Client, agent: &Value) -> (Run<'w>, Value) {
    let run = client.post("/v1/runs", &json!({"agent": agent, "input": "go"})).await.is(201);
    let run = world.run(&run).through(client);
    let shown = run.ended().await;
    (run, shown)
}

#[tokio::test]
async fn a_provider_of_one_that_fails_is_still_asked_for_the_other() {
    let world = World::shared().await;
    let (_, other) = world.neighbour(&json!({})).await;
    let broken = ScriptedModel::start().await.expect("a model");
    broken.script("m", [ModelReply::status(500)]);
    broken.repeat_last("m");
    world.provider(&world.client, json!({"base_url": broken.base_url()})).await;
    for client in [&world.client, &other] {
        let spare = json!({"kind": "scripted", "script": [{"final": "Spare."}]});
        client.put("/v1/providers/spare", &spare).await.ok();
    }
    let agent = world.agent(&[]).with(json!({"model": {"retry": {"max_attempts": 10, "backoff_ms": 1},
        "fallbacks": [{"provider": "spare", "model": "m"}]}}));
    until("nobody is let through to the broken one", async || {
        let (run, shown) = ended(&world, &world.client, &agent).await;
        shown.fits(&json!({"status": "finished", "final_answer": "Spare."}));
        run.list("steps").await[0]["model"]["failures"].to_string().contains("not asked")
    })
    .await;
    world.model.script("m", [ModelReply::text("Main.")]);
    let (run, shown) = ended(&world, &other, &agent).await;
    shown.fits(&json!({"status": "finished", "final_answer": "Main."}));
    run.list("steps").await.fits(&json!([{"model": {"provider": "main", "attempts": 1, "failures": []}}]));
    assert_eq!(world.model.requests_for("m").len(), 1);
}

/// Stores a tenant's secret, and the header of its MCP server, under the names that both have.
async fn keep(client: &Client, mcp_url: &str, value: &str) {
    client.put("/v1/secrets/shop", &json!({"value": value})).await.ok();
    let server = json!({"url": mcp_url, "headers": {"x-token": value}});
    client.put("/v1/mcp_servers/shop", &server).await.ok();
}

#[tokio::test]
async fn a_secret_that_one_changes_is_not_the_others() {
    let world = World::shared().await;
    let (_, other) = world.neighbour(&json!({})).await;
    let mcp = Mcp::start().await;
    let shop = mcp.server(&world, "shop", &["pay"]).await;
    keep(&world.client, &mcp.url("shop"), "first-of-one").await;
    keep(&other, &mcp.url("shop"), "first-of-other").await;
    let look = world.read("look").with(json!({"http": {"headers": {"x-shop": "{{secret.shop}}"}}}));
    let agent = world.agent(&[look]).with(json!({"mcp": [{"server": "shop", "allow": ["*"]}]}));
    world.tools.script("look", [ToolAnswer::text("seen")]);
    let mut rounds = vec![(&world.client, "first-of-one"), (&other, "first-of-other")];
    // Both have what they had in use, so that something may be kept of it.
    let changes =
        [(&world.client, "second-of-one"), (&other, "first-of-other"), (&world.client, "second-of-one")];
    rounds.extend(changes);
    for (nth, (client, value)) in rounds.into_iter().enumerate() {
        if nth == 2 {
            keep(&world.client, &mcp.url("shop"), value).await;
        }
        let calls = ModelReply::calls([("look", json!({})), ("shop__pay", json!({}))]);
        world.model.script("m", [calls, ModelReply::text("Done.")]);
        let (_, shown) = ended(&world, client, &agent).await;
        shown.fits(&json!({"status": "finished"}));
        let (looks, pays) = (world.tools.requests("look"), shop.requests("tools/call"));
        assert_eq!((looks.len(), pays.len()), (nth + 1, nth + 1));
        assert_eq!(looks[nth].header("x-shop"), Some(value), "round {nth}");
        assert_eq!(pays[nth].header("x-token"), Some(value), "round {nth}");
    }
}
