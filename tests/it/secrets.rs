//! What is secret is nowhere.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::json;

use crate::harness::{Fits, With, World};

#[tokio::test]
async fn secrets_reach_the_tool_and_nobody_else() {
    let world = World::shared().await;
    let secret = "tok-8d1f0c2b7e";
    world.client.put("/v1/secrets/shop", &json!({"value": secret})).await.ok();
    let tool =
        world.write("pay").with(json!({"http": {"headers": {"authorization": "Bearer {{secret.shop}}"}}}));
    // The far side and the model say it aloud.
    let echo = format!("your key is {secret}");
    world.tools.script("pay", [ToolAnswer::text(&echo), ToolAnswer::text(&echo).with_status(409)]);
    let call = || ModelReply::calls([("pay", json!({}))]);
    world.model.script("m", [call(), call(), ModelReply::text(&format!("It is {}.", world.provider_key()))]);
    let run = world.start(&world.agent(&[tool])).await;
    let shown = run.ended().await;
    shown.fits(&json!({"status": "finished"}));
    assert_eq!(
        world.tools.requests("pay")[0].header("authorization"),
        Some(format!("Bearer {secret}").as_str())
    );
    let mut said = shown.to_string();
    for list in ["messages", "steps", "ledger", "events", "artifacts", "checkpoints"] {
        said += &run.list(list).await.to_string();
    }
    for request in world.model.requests_for("m") {
        said += &request.to_string();
    }
    for path in ["/v1/secrets", "/v1/secrets/shop", "/v1/providers", "/v1/providers/main", "/metrics"] {
        said += &world.client.get(path).await.text;
    }
    said += &world.log();
    for word in [secret, world.provider_key(), world.server.operator_key()] {
        assert!(!said.contains(word), "{word} in {said}");
    }
}

#[tokio::test]
async fn headers_and_keys_of_providers_are_shown_as_stars() {
    let world = World::shared().await;
    world.provider(&world.client, json!({"headers": {"x-team": "t-51"}})).await;
    world.client.get("/v1/providers/main").await.fits(&json!({
        "name": "main", "kind": "openai_chat", "api_key": "***", "headers": {"x-team": "***"},
    }));
    world.model.script("m", [ModelReply::text("Done.")]);
    world.start(&world.agent(&[])).await.ended().await.fits(&json!({"status": "finished"}));
    assert_eq!(world.model.requests()[0].header("x-team"), Some("t-51"));
    world.client.delete("/v1/providers/main").await.is(204);
    world.client.get("/v1/providers/main").await.refused(404, "not_found");
}

#[tokio::test]
async fn a_secret_is_only_for_headers() {
    let world = World::shared().await;
    let tool = world.read("t").with(json!({"http": {"url": world.tools.url("t") + "/{{secret.shop}}"}}));
    let body = json!({"agent": world.agent(&[tool]), "input": "go"});
    world.client.post("/v1/runs", &body).await.refused_at("/agent/tools/0/http/url");
}

#[tokio::test]
async fn the_signing_secret_is_rotated_and_both_hold_for_a_while() {
    let world = World::shared().await;
    let first = world.client.get("/v1/signing_secret").await.fits(&json!({"previous": null}));
    let second = world.client.post("/v1/signing_secret/rotate", &json!({})).await.ok();
    second.fits(&json!({"previous": {"signing_secret": first["signing_secret"], "valid_until": "*"}}));
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("Seen.")]);
    world.start(&world.agent(&[world.read("look")])).await.ended().await;
    let request = &world.tools.requests("look")[0];
    for secret in [&first, &second] {
        let secret = secret["signing_secret"].as_str().expect("a secret");
        assert_eq!(answerable_testkit::signature::verify(request, secret), Ok(()));
    }
}
