//! Many endpoints, many runs, many servers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use answerable_delivery::Limits;
use answerable_testkit::{HookAnswer, RecordedRequest, WebhookReceiver};
use serde_json::json;

use crate::world::{LIMITS, NO_END, World, is_tried};

/// Numbers of each run's events in the order in which they came.
fn by_run(deliveries: &[RecordedRequest]) -> BTreeMap<String, Vec<u64>> {
    let mut runs: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for delivery in deliveries {
        let body = delivery.json();
        let run = body["run"].as_str().unwrap_or_default().to_owned();
        runs.entry(run).or_default().push(body["n"].as_u64().unwrap_or_default());
    }
    runs
}

#[tokio::test]
async fn a_hundred_dead_endpoints_delay_nobody() {
    let world = World::new().await;
    let dead = WebhookReceiver::scripted([HookAnswer::never()]).await.expect("a receiver");
    let live = WebhookReceiver::start().await.expect("a receiver");
    let (hook, _) = world.hook(&live.url()).await;
    world.tell(hook, &json!({})).await;
    let _sender = world.sender(NO_END);
    world.log_when(hook, is_tried).await;
    // A hundred that nobody knows, with three deliveries each, all of them ahead of the live one's.
    for n in 0..100 {
        let (hook, _) = world.hook(&format!("{}/{n}", dead.url())).await;
        for _ in 0..3 {
            world.tell(hook, &json!({})).await;
        }
    }
    dead.received(LIMITS.at_once / 2).await;
    for n in 2..=20 {
        world.tell(hook, &json!({})).await;
        live.received(n).await;
    }
    // No dead one has given its place back, so none was waited for.
    assert_eq!(dead.deliveries().len(), LIMITS.at_once / 2, "half of the places, and one try each");
    let paths: BTreeSet<String> = dead.deliveries().into_iter().map(|sent| sent.path).collect();
    assert_eq!(paths.len(), LIMITS.at_once / 2);
}

#[tokio::test]
async fn those_that_fail_have_a_quarter_of_the_places() {
    let world = World::new().await;
    let limits = Limits { answer_within: Duration::from_millis(200), ..LIMITS };
    let dead = WebhookReceiver::scripted([HookAnswer::never()]).await.expect("a receiver");
    let mut hooks = Vec::new();
    for n in 0..12 {
        let (hook, _) = world.hook(&format!("{}/{n}", dead.url())).await;
        world.tell(hook, &json!({})).await;
        hooks.push(hook);
    }
    let sender = world.sender(limits);
    for hook in &hooks {
        world.log_when(*hook, is_tried).await;
    }
    sender.stop().await;
    // All are due again, now that they are known.
    sqlx::query("UPDATE deliveries SET next_attempt_at = now()")
        .execute(&mut world.superuser().await)
        .await
        .expect("time passes");
    let known = dead.deliveries().len();
    let _sender = world.sender(NO_END);
    dead.received(known + LIMITS.at_once / 4).await;
    // A new endpoint is heard beside them; what it takes is signal enough that the sender has looked again.
    let live = WebhookReceiver::start().await.expect("a receiver");
    let (hook, _) = world.hook(&live.url()).await;
    for n in 1..=3 {
        world.tell(hook, &json!({})).await;
        live.received(n).await;
    }
    assert_eq!(dead.deliveries().len(), known + LIMITS.at_once / 4);
}

#[tokio::test]
async fn several_servers_send_each_delivery_once_and_each_run_in_its_order() {
    let world = World::new().await;
    let receiver = WebhookReceiver::start().await.expect("a receiver");
    let (hook, _) = world.hook(&receiver.url()).await;
    for _ in 0..8 {
        world.tell_of_run(hook, 12).await;
    }
    let senders = [world.sender(LIMITS), world.sender(LIMITS), world.sender(LIMITS)];
    receiver.received(96).await;
    for sender in senders {
        sender.stop().await;
    }
    let runs = by_run(&receiver.deliveries());
    assert_eq!(runs.len(), 8);
    for (run, numbers) in runs {
        assert_eq!(numbers, (1..=12).collect::<Vec<u64>>(), "{run}");
    }
    assert!(world.log(hook).await.iter().all(|row| row.status == "delivered"));
}

#[tokio::test]
async fn a_short_failure_does_not_change_the_order() {
    let world = World::new().await;
    let answers = [HookAnswer::status(200), HookAnswer::status(503), HookAnswer::status(200)];
    let receiver = WebhookReceiver::scripted(answers).await.expect("a receiver");
    let (hook, _) = world.hook(&receiver.url()).await;
    world.tell_of_run(hook, 4).await;
    let _sender = world.sender(LIMITS);
    receiver.received(5).await;
    let numbers = by_run(&receiver.deliveries()).into_values().next();
    assert_eq!(numbers, Some(vec![1, 2, 2, 3, 4]));
}

#[tokio::test]
async fn what_a_dead_server_had_out_is_sent_again_under_the_same_id() {
    let world = World::new().await;
    let receiver = WebhookReceiver::scripted([HookAnswer::never(), HookAnswer::status(200)]);
    let receiver = receiver.await.expect("a receiver");
    let (hook, _) = world.hook(&receiver.url()).await;
    let id = world.tell(hook, &json!({"n": 1})).await.to_string();
    let sender = world.sender(LIMITS);
    receiver.received(1).await;
    drop(sender);
    sqlx::query("UPDATE deliveries SET lease_until = now()")
        .execute(&mut world.superuser().await)
        .await
        .expect("half a minute later");
    let _sender = world.sender(LIMITS);
    receiver.received(2).await;
    let sent = receiver.deliveries();
    assert!(sent.iter().all(|sent| sent.header("webhook-id") == Some(id.as_str())));
    assert_eq!(sent[0].body, sent[1].body);
    let row = world.log_when(hook, is_tried).await;
    assert_eq!((row.status.as_str(), row.attempts.as_array().map(Vec::len)), ("delivered", Some(1)));
}
