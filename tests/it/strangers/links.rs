//! A link decides the one approval that it was made for, and shows no other.

use answerable_testkit::{ModelReply, WebhookReceiver};
use serde_json::{Value, json};

use crate::harness::{Client, Fits, With, World};

/// A run of a tenant that waits for a person, and its link's path and token.
async fn asks(world: &World, client: &Client, model: &str) -> (Value, String, String) {
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let hook = json!({"url": receiver.url(), "events": ["approval.requested"]});
    client.post("/v1/webhooks", &hook).await.is(201);
    world
        .model
        .script(model, [ModelReply::calls([("pay", json!({"to": model}))]), ModelReply::text("So be it.")]);
    let agent = world.agent(&[world.write("pay").with(json!({"risk": "high"}))]);
    let agent = agent.with(json!({"model": {"provider": "main", "model": model}}));
    let run = client.post("/v1/runs", &json!({"agent": agent, "input": "go"})).await.is(201);
    let told = receiver.first_of("approval.requested").await.json();
    let url = told["data"]["decision_url"].as_str().expect("a link");
    let (path, query) = url.split_once('?').expect("a query");
    let path = path.strip_prefix(world.server.url()).expect("the server's").to_owned();
    (run, path, query.to_owned())
}

#[tokio::test]
async fn a_link_of_one_tenant_opens_nothing_of_another() {
    let world = World::shared().await;
    let (_, stranger) = world.neighbour(&json!({})).await;
    let (ours, path, token) = asks(&world, &world.client, "owners-model").await;
    let (_, others_path, others_token) = asks(&world, &stranger, "strangers-model").await;
    let nobody = world.server.stranger();
    let approve = json!({"decision": "approve"});
    for (path, token, mark) in
        [(&path, &others_token, "owners-model"), (&others_path, &token, "strangers-model")]
    {
        let link = format!("{path}?{token}");
        for answer in [
            nobody.get(&link).await,
            nobody.get(&link).header("accept", "text/html").await,
            nobody.post(&link, &approve).await,
        ] {
            assert_eq!(answer.status, 404, "{answer}");
            assert!(!answer.holds(mark), "{answer}");
        }
    }
    // A key that is no good here isn't made good by a link, nor the other way round.
    let link = format!("{path}?{token}");
    stranger.post(&link, &approve).await.refused(404, "not_found");
    world.client.with_key("garbage").post(&link, &approve).await.refused(401, "unauthorized");
    let run = world.run(&ours);
    run.now()
        .await
        .fits(&json!({"status": "waiting_approval", "pending_approvals": [{"status": "pending"}]}));
    nobody.post(&link, &approve).await.fits(&json!({"status": "approved", "decided_by": "link"}));
    run.ended().await;
}
