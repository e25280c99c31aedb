//! What tenants store of their servers.

use answerable_testkit::{McpAnswer, ModelReply};
use serde_json::json;

use super::{Mcp, reads, takes};
use crate::harness::{Fits, World};

#[tokio::test]
async fn headers_are_sent_and_never_shown_and_may_name_secrets() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let files = mcp.server(&world, "files", &["read"]).await;
    let shown = world.client.get("/v1/mcp_servers/files").await.ok();
    shown.fits(&json!({"headers": {"authorization": "***"}, "timeout_ms": 30000, "stdio": null}));
    let body = |value: &str| json!({"url": shown["url"], "headers": {"X-Key": value}});
    world
        .client
        .put("/v1/mcp_servers/files", &body("k {{secret.nobodys}}"))
        .await
        .refused_at("/headers/X-Key");
    world.client.put("/v1/secrets/files", &json!({"value": "canary-1"})).await.ok();
    world.client.put("/v1/mcp_servers/files", &body("k {{secret.files}}")).await.ok();
    world.model.script("m", [ModelReply::text("Nothing."), ModelReply::text("Nothing.")]);
    world.start(&takes(&world, "files", reads())).await.ended().await.fits(&json!({"status": "finished"}));
    // A secret that was changed is used from the next run on.
    world.client.put("/v1/secrets/files", &json!({"value": "canary-2"})).await.ok();
    world.start(&takes(&world, "files", reads())).await.ended().await.fits(&json!({"status": "finished"}));
    let keys: Vec<_> = files
        .requests("initialize")
        .iter()
        .map(|request| request.header("x-key").map(str::to_owned))
        .collect();
    assert_eq!(keys, [Some("k canary-1".to_owned()), Some("k canary-2".to_owned())]);
    assert!(!world.client.get("/v1/mcp_servers").await.ok().to_string().contains("canary"));
}

#[tokio::test]
async fn what_a_server_offers_is_shown_with_what_it_says_of_it() {
    let world = World::shared().await;
    let mcp = Mcp::start().await;
    let files = mcp.server(&world, "files", &[]).await;
    files.offers([
        json!({"name": "read", "annotations": {"readOnlyHint": true}}),
        json!({"name": "odd", "inputSchema": [1]}),
    ]);
    world.client.get("/v1/mcp_servers/files/tools").await.ok().fits(&json!({"next_cursor": null, "data": [
        {"name": "files__read", "own_name": "read", "suggested": {"risk": "low", "side_effect": "none", "idempotent": false}},
        {"name": "files__odd", "input_schema": [1], "suggested": null},
    ]}));
    world.client.get("/v1/mcp_servers/nobodys/tools").await.refused(404, "not_found");
    world.client.put("/v1/mcp_servers/gone", &json!({"url": "http://127.0.0.1:9/mcp"})).await.ok();
    world.client.get("/v1/mcp_servers/gone/tools").await.refused(503, "unavailable");
    files.script("initialize", [McpAnswer::status(401, "no")]);
    world.client.put("/v1/mcp_servers/files", &json!({"url": mcp.0.url("files")})).await.ok();
    world.client.get("/v1/mcp_servers/files/tools").await.refused(409, "conflict");
    let plain = world.key(&["runs:write", "runs:read", "agents:write"]).await;
    plain.get("/v1/mcp_servers/files/tools").await.refused(403, "forbidden");
}
