//! Webhooks, and links in them that decide without a key.

use answerable_testkit::{Document, ModelReply, WebhookReceiver, signature};
use serde_json::{Value, json};

use crate::harness::{Client, Fits, Run, With, World};

/// A run that waits, its webhook's receiver, and the receiver's secret.
async fn asks(world: &World) -> (Run<'_>, WebhookReceiver, String) {
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let body = json!({"url": receiver.url(), "events": ["approval.*", "run.finished"]});
    let hook = world.client.post("/v1/webhooks", &body).await.is(201);
    world
        .model
        .script("m", [ModelReply::calls([("pay", json!({"amount": 5}))]), ModelReply::text("So be it.")]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    let secret = hook["signing_secret"].as_str().expect("a secret").to_owned();
    (run, receiver, secret)
}

/// The path and query of a link that the server gave out.
fn path(world: &World, delivery: &Value) -> String {
    let url = delivery["data"]["decision_url"].as_str().expect("a decision_url");
    url.strip_prefix(world.server.url()).unwrap_or_else(|| panic!("{url} is not the server's")).to_owned()
}

async fn post(client: &Client, path: &str, decision: &str) -> crate::harness::Answer {
    client.post(path, &json!({"decision": decision})).await
}

#[tokio::test]
async fn a_link_decides_once_and_needs_no_key() {
    let world = World::shared().await;
    let (run, receiver, secret) = asks(&world).await;
    let delivery = receiver.first_of("approval.requested").await;
    assert_eq!(signature::verify(&delivery, &secret), Ok(()));
    let told = delivery.json();
    assert_eq!(Document::load().judge_value("WebhookPayload", &told), Ok(()));
    told.fits(&json!({"data": {"approval": {"run_id": run.id, "tool_name": "pay", "status": "pending"}}}));
    assert!(told["data"]["approval"].get("input").is_none_or(Value::is_null), "the input stays here: {told}");
    let (link, stranger) = (path(&world, &told), world.server.stranger());
    // A tampered link, no link, and looking at it decide nothing.
    post(&stranger, &format!("{link}0"), "approve").await.refused(404, "not_found");
    let bare = link.split('?').next().expect("a path");
    post(&stranger, bare, "approve").await.refused(401, "unauthorized");
    let page = stranger.get(&link).await;
    assert!(page.status == 200 && page.text.contains("pay"), "{page}");
    run.now().await.fits(&json!({"status": "waiting_approval"}));
    post(&stranger, &link, "approve").await.fits(&json!({"status": "approved", "decided_by": "link"}));
    run.ended().await.fits(&json!({"status": "finished"}));
    let again = post(&stranger, &link, "deny").await;
    assert!(matches!(again.status, 409 | 410), "{again}");
    receiver.first_of("run.finished").await;
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn a_link_opens_nothing_but_its_own_call() {
    let world = World::shared().await;
    let (run, receiver, _) = asks(&world).await;
    let (link, stranger) =
        (path(&world, &receiver.first_of("approval.requested").await.json()), world.server.stranger());
    for scope in ["run", "tenant"] {
        let remember = json!({"scope": scope, "match": "tool"});
        let wide = json!({"decision": "approve", "remember": remember});
        stranger.post(&link, &wide).await.refused_at("/remember");
    }
    run.waiting().await.fits(&json!({"pending_approvals": [{"votes": []}]}));
    post(&stranger, &link, "approve")
        .await
        .fits(&json!({"status": "approved", "votes": [{"remember": null}]}));
    run.ended().await.fits(&json!({"status": "finished"}));
    world.client.get("/v1/grants?include=all").await.fits(&json!({"data": []}));
    // A grant as a server of before made it by a link.
    let old = "INSERT INTO grants (tenant_id, grant_id, tool_name, scope, match, created_by, deciders, decider_keys,
            max_risk)
        SELECT tenant_id, gen_random_uuid(), 'pay', 'tenant', 'tool', 'link', '{link}', '{NULL}', 'high' FROM runs
        WHERE run_id = $1 RETURNING true";
    assert_eq!(world.sql::<bool>(old, &run.id).await, Some(true));
    let (other, _, _) = asks(&world).await;
    other.deny("people are asked").await;
    other.ended().await.fits(&json!({"denied": {"$len": 1}}));
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn a_link_of_a_cancelled_run_has_expired() {
    let world = World::shared().await;
    let (run, receiver, _) = asks(&world).await;
    let link = path(&world, &receiver.first_of("approval.requested").await.json());
    run.cancel().await;
    run.ended().await;
    post(&world.server.stranger(), &link, "approve").await.refused(410, "expired");
    world.server.stranger().get(&link).await.refused(410, "expired");
    assert_eq!(world.tools.effects("pay"), 0);
}

#[tokio::test]
async fn a_failing_receiver_delays_no_run_and_hears_the_same_again() {
    let world = World::shared().await;
    let slow = std::time::Duration::from_millis(10);
    let receiver = WebhookReceiver::answering([(500, slow), (200, slow)]).await.expect("a receiver");
    let body = json!({"url": receiver.url(), "events": ["run.finished"], "description": "the desk"});
    let hook = world.client.post("/v1/webhooks", &body).await.is(201);
    let hook = hook["id"].as_str().expect("an id").to_owned();
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    receiver.received(1).await;
    let path = format!("/v1/webhooks/{hook}/deliveries");
    let delivery =
        world.client.get(&path).await.fits(&json!({"data": [{"type": "run.finished"}]}))["data"][0].clone();
    let id = delivery["id"].as_str().expect("an id");
    world.client.post(&format!("{path}/{id}/redeliver"), &json!({})).await.is(202);
    receiver.received(2).await;
    let sent = receiver.deliveries();
    assert_eq!(sent[0].header("webhook-id"), Some(id));
    assert_eq!((sent[1].header("webhook-id"), &sent[1].body), (Some(id), &sent[0].body));
}

#[tokio::test]
async fn a_webhook_is_tried_changed_and_removed() {
    let world = World::shared().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let body = json!({"url": receiver.url(), "events": ["run.failed"]});
    let hook = world.client.post("/v1/webhooks", &body).await.is(201);
    let path = format!("/v1/webhooks/{}", hook["id"].as_str().expect("an id"));
    world.client.post(&format!("{path}/test"), &json!({})).await.is(202);
    receiver.first_of("webhook.test").await;
    world.client.patch(&path, &json!({"events": ["run.*"]})).await.fits(&json!({"events": ["run.*"]}));
    let shown = world.client.get(&path).await.ok();
    assert!(shown.get("signing_secret").is_none(), "a secret is shown once: {shown}");
    world
        .client
        .post("/v1/webhooks", &json!({"url": "http://10.0.0.1/", "events": ["*"]}))
        .await
        .refused_at("/url");
    world.client.delete(&path).await.is(204);
    world.client.get(&path).await.refused(404, "not_found");
}
