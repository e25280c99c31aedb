//! Endpoints: registered, changed, switched off and on, and how each is.

use std::time::Duration;

use answerable_testkit::{HookAnswer, ModelReply, WebhookReceiver};
use serde_json::{Value, json};

use super::{heard, hook, is_signed, text};
use crate::harness::{Fits, World};

#[tokio::test]
async fn a_new_secret_signs_beside_the_one_before() {
    let world = World::shared().await;
    let (receiver, path, made) = heard(&world, json!({})).await;
    assert_eq!(made["previous_secret_valid_until"], Value::Null);
    let rotate = format!("{path}/rotate_secret");
    let rotated = world.client.post(&rotate, &json!({})).once("rotate-1").await.is(200);
    rotated.fits(&json!({"id": made["id"], "signing_secret": "~whsec_", "previous_secret_valid_until": "*"}));
    // The same request again rotates nothing.
    let again = world.client.post(&rotate, &json!({})).once("rotate-1").await.is(200);
    assert_eq!(again, rotated);
    world.client.post(&format!("{path}/test"), &json!({})).await.is(202);
    let sent = receiver.first_of("webhook.test").await;
    assert!(is_signed(&sent, &made["signing_secret"]) && is_signed(&sent, &rotated["signing_secret"]));
    let newest = world.client.post(&rotate, &json!({})).await.is(200);
    world.client.post(&format!("{path}/test"), &json!({})).await.is(202);
    receiver.received(2).await;
    let sent = receiver.deliveries().remove(1);
    assert!(is_signed(&sent, &newest["signing_secret"]) && is_signed(&sent, &rotated["signing_secret"]));
    assert!(!is_signed(&sent, &made["signing_secret"]), "two live, never three");
    let shown = world.client.get(&path).await.ok().to_string();
    assert!(!shown.contains("whsec_"), "{shown}");
}

#[tokio::test]
async fn a_webhook_asks_for_what_there_is() {
    let world = World::shared().await;
    let (_, path, _) = heard(&world, json!({"events": ["*", "approval.*", "approval.expiring"]})).await;
    for (events, pointer) in [
        (json!(["run.flew"]), "/events/0"),
        (json!(["run.*", "approval.remind"]), "/events/1"),
        (json!(["*.finished"]), "/events/0"),
        (json!(["webhook.test"]), "/events/0"),
        (json!(["tool.completed"]), "/events/0"),
        (json!([]), "/events"),
    ] {
        let body = json!({"url": "https://hooks.example/", "events": events});
        world.client.post("/v1/webhooks", &body).await.refused_at(pointer);
        world.client.patch(&path, &json!({"events": events})).await.refused_at(pointer);
    }
}

#[tokio::test]
async fn a_webhook_that_is_off_hears_nothing_until_it_is_on_again() {
    let world = World::shared().await;
    let (receiver, path, _) = heard(&world, json!({})).await;
    let off = json!({"disabled_at": "*", "disabled_reason": "requested"});
    world.client.patch(&path, &json!({"disabled": true})).await.ok().fits(&off);
    world.client.patch(&path, &json!({"description": "off"})).await.ok().fits(&off);
    world.model.script("m", [ModelReply::text("Done."), ModelReply::text("Done.")]);
    world.start(&world.agent(&[])).await.ended().await;
    world.client.post(&format!("{path}/test"), &json!({})).await.refused(409, "conflict");
    world.client.get(&format!("{path}/deliveries")).await.fits(&json!({"data": []}));
    let on = json!({"disabled_at": null, "disabled_reason": null});
    world.client.patch(&path, &json!({"disabled": false})).await.ok().fits(&on);
    world.model.script("m", [ModelReply::text("Done.")]);
    world.start(&world.agent(&[])).await.ended().await;
    receiver.first_of("run.finished").await;
    assert_eq!(receiver.deliveries().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_told_nothing_more() {
    let world = World::shared().await;
    let receiver = WebhookReceiver::scripted([HookAnswer::status(410), HookAnswer::status(200)]);
    let receiver = receiver.await.expect("a receiver");
    let (path, _) = hook(&world, &receiver.url(), json!({})).await;
    let queued = world.client.post(&format!("{path}/test"), &json!({})).await.is(202);
    receiver.received(1).await;
    let log = log_when(&world, &path, |log| log["data"][0]["status"] == "failed").await;
    log.fits(
        &json!({"data": [{"status": "failed", "next_attempt_at": null, "attempts": [{"status": 410}]}]}),
    );
    world.client.get(&path).await.ok().fits(&json!({"disabled_at": "*", "disabled_reason": "gone"}));
    let again = format!("{path}/deliveries/{}/redeliver", text(&queued["id"]));
    world.client.post(&again, &json!({})).await.refused(409, "conflict");
    // Another address alone doesn't switch it on: that is said in so many words.
    world
        .client
        .patch(&path, &json!({"description": "?"}))
        .await
        .ok()
        .fits(&json!({"disabled_reason": "gone"}));
    world.client.patch(&path, &json!({"disabled": false})).await.ok();
    world.client.post(&again, &json!({})).await.is(202);
    receiver.received(2).await;
    let log = log_when(&world, &path, |log| log["data"][0]["status"] == "delivered").await;
    log.fits(&json!({"data": [{"id": queued["id"], "attempts": [{"status": 410}, {"status": 200}]}]}));
}

#[tokio::test]
async fn the_log_tells_of_each_try() {
    let world = World::shared().await;
    let answers =
        [HookAnswer::status(500).body("out of paper"), HookAnswer::status(201).body("{\"ok\":true}")];
    let receiver = WebhookReceiver::scripted(answers).await.expect("a receiver");
    let (path, _) = hook(&world, &receiver.url(), json!({"events": ["run.*"]})).await;
    world.client.post(&format!("{path}/test"), &json!({})).await.is(202);
    receiver.received(2).await;
    let log = log_when(&world, &path, |log| log["data"][0]["status"] == "delivered").await;
    log.fits(&json!({"data": [{
        "type": "webhook.test", "run_id": null, "status": "delivered", "next_attempt_at": null, "attempts": [
            {"at": "*", "status": 500, "error": "not accepted", "duration_ms": "*", "response": "out of paper"},
            {"at": "*", "status": 201, "error": null, "duration_ms": "*", "response": "{\"ok\":true}"},
        ],
    }]}));
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    log_when(&world, &path, |log| log["data"].as_array().is_some_and(|all| all.len() == 4)).await;
    for (query, wanted) in [
        (
            "type=run.*",
            json!([{"type": "run.finished", "run_id": run.id}, {"type": "run.started"}, {"type": "run.queued"}]),
        ),
        ("type=run.finished", json!([{"type": "run.finished"}])),
        ("type=webhook.test&status=delivered", json!([{"type": "webhook.test"}])),
        ("type=approval.*", json!([])),
        ("status=failed", json!([])),
    ] {
        world.client.get(&format!("{path}/deliveries?{query}")).await.fits(&json!({"data": wanted}));
    }
    world.client.get(&format!("{path}/deliveries?status=lost")).await.refused_at("/query/status");
    world.client.get(&format!("{path}/deliveries?type=run.flew")).await.refused_at("/query/type");
    let first = world.client.get(&format!("{path}/deliveries?type=run.*&limit=1")).await.ok();
    let cursor = text(&first["next_cursor"]);
    world
        .client
        .get(&format!("{path}/deliveries?type=run.*&limit=1&cursor={cursor}"))
        .await
        .fits(&json!({"data": [{"type": "run.started"}]}));
    world.client.get(&format!("{path}/deliveries?limit=1&cursor={cursor}")).await.refused_at("/query/cursor");
}

#[tokio::test]
async fn a_hundred_dead_endpoints_delay_no_run_and_no_other_endpoint() {
    let world = World::alone().await;
    let dead = WebhookReceiver::scripted([HookAnswer::never()]).await.expect("a receiver");
    let (live, path, _) = heard(&world, json!({})).await;
    world.client.post(&format!("{path}/test"), &json!({})).await.is(202);
    log_when(&world, &path, |log| log["data"][0]["status"] == "delivered").await;
    for n in 0..100 {
        hook(&world, &format!("{}/{n}", dead.url()), json!({})).await;
    }
    world.model.script("m", (0..5).map(|_| ModelReply::text("Done.")));
    // Of the tenant's 64 places, half are for those that are new and a quarter for those that fail; each has one.
    let within = "SELECT coalesce(sum(n), 0) <= 48 AND coalesce(max(n), 0) <= 1 FROM (
             SELECT count(*) AS n FROM deliveries d JOIN webhooks w USING (tenant_id, webhook_id)
             WHERE d.status = 'pending' AND d.lease_until > now() AND w.answers_since IS NULL AND $1::uuid IS NOT NULL
             GROUP BY webhook_id) out";
    for n in 2..=6 {
        let run = world.start(&world.agent(&[])).await;
        run.ended().await;
        live.received(n).await;
        assert_eq!(world.sql::<bool>(within, &run.id).await, Some(true));
    }
    dead.received(32).await;
    world.client.get(&path).await.fits(&json!({"failing_since": null}));
}

/// A webhook's deliveries as soon as `holds` is true of them.
async fn log_when(world: &World, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        let log = world.client.get(&format!("{path}/deliveries")).await.ok();
        if holds(&log) {
            return log;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{path} stayed {:#}", world.client.get(&format!("{path}/deliveries")).await.ok());
}
