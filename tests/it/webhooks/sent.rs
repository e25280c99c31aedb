//! Deliveries of a run: in its order, at least once, signed.

use answerable_testkit::{Document, HookAnswer, ModelReply, WebhookReceiver};
use serde_json::json;

use super::{heard, hook, is_signed};
use crate::harness::{With, World};

#[tokio::test]
async fn a_runs_events_come_in_their_order_from_whichever_server() {
    let world = World::alone().await;
    let beside = [world.server.beside().await, world.server.beside().await];
    let (receiver, _, _) = heard(&world, json!({"events": ["*"]})).await;
    world.model.script(
        "m",
        [
            ModelReply::calls([("pay", json!({"amount": 5}))]),
            ModelReply::calls([("pay", json!({"amount": 6}))]),
            ModelReply::text("So be it."),
        ],
    );
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    run.approve().await;
    run.deny("enough").await;
    run.ended().await;
    let mut wanted = run.event_types().await;
    wanted.retain(|kind| kind.starts_with("run.") || kind.starts_with("approval."));
    receiver.received(wanted.len()).await;
    assert_eq!(receiver.types(), wanted);
    for sent in receiver.deliveries() {
        assert_eq!(Document::load().judge_value("WebhookPayload", &sent.json()), Ok(()));
    }
    drop(beside);
}

#[tokio::test]
async fn a_server_killed_in_mid_delivery_sends_it_again_under_the_same_id() {
    let world = World::alone().await;
    let receiver = WebhookReceiver::scripted([HookAnswer::never(), HookAnswer::status(200)]);
    let receiver = receiver.await.expect("a receiver");
    hook(&world, &receiver.url(), json!({})).await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    receiver.received(1).await;
    world.server.kill();
    // Half a minute later it is anybody's again.
    let later =
        "UPDATE deliveries SET lease_until = now() WHERE run_id = $1 AND lease_until > now() RETURNING true";
    assert_eq!(world.sql::<bool>(later, &run.id).await, Some(true));
    world.server.start_again().await;
    receiver.received(2).await;
    let sent = receiver.deliveries();
    assert_eq!((sent[0].header("webhook-id"), &sent[0].body), (sent[1].header("webhook-id"), &sent[1].body));
}

#[tokio::test]
async fn the_reference_takes_what_tools_and_webhooks_are_sent() {
    let world = World::shared().await;
    let (receiver, _, made) = heard(&world, json!({})).await;
    world.model.script(
        "m",
        [ModelReply::calls([("look", json!({"name": "Zoë \u{1f980}"}))]), ModelReply::text("Seen.")],
    );
    let former = world.client.get("/v1/signing_secret").await.ok();
    let now = world.client.post("/v1/signing_secret/rotate", &json!({})).await.ok();
    world.start(&world.agent(&[world.read("look")])).await.ended().await;
    let sent = receiver.first_of("run.finished").await;
    assert!(is_signed(&sent, &made["signing_secret"]) && !is_signed(&sent, &now["signing_secret"]));
    let call = &world.tools.requests("look")[0];
    assert!(is_signed(call, &now["signing_secret"]) && is_signed(call, &former["signing_secret"]));
    assert!(!is_signed(call, &made["signing_secret"]));
}
