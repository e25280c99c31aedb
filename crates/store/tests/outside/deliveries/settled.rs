//! What came of tries, and what follows for the delivery and its endpoint.

use std::time::Duration;

use answerable_core::id::{DeliveryId, WebhookId};
use answerable_store::{
    AfterTry, DeliveryFilter, Health, NewWebhook, NotQueued, Outgoing, Tried, WebhookChange,
};
use chrono::Utc;
use secrecy::ExposeSecret as _;

use super::{PLACES, claim, endpoint, is, list, of_run, settle, tried};
use crate::world::World;

#[tokio::test]
async fn a_late_word_of_a_slow_sender_undoes_no_arrival() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 1).await;
    let outgoing = claim(&world, PLACES).await.remove(0);
    settle(&world, &outgoing, AfterTry::Delivered).await;
    settle(&world, &outgoing, AfterTry::Again(Utc::now())).await;
    let row = list(&world, hook).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts.as_array().map(Vec::len)), ("delivered", Some(2)));
    assert_eq!(row.attempts[0]["duration_ms"], 7);
    assert_eq!(row.attempts[0]["response"], "so");
    assert_eq!(world.store.deliveries_next().await.expect("an answer"), None);
}

#[tokio::test]
async fn what_a_dead_server_had_out_is_taken_over_and_its_late_word_changes_nothing() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 1).await;
    let dead = claim(&world, PLACES).await.remove(0);
    assert!(claim(&world, PLACES).await.is_empty());
    sqlx::query("UPDATE deliveries SET lease_until = now() - interval '1 ms'")
        .execute(&mut world.superuser().await)
        .await
        .expect("half a minute later");
    let taken = claim(&world, PLACES).await.remove(0);
    assert_eq!(taken.delivery_id, dead.delivery_id);
    // It is still out at the second server: the first one's failure neither queues it nor ends it.
    settle(&world, &dead, AfterTry::Failed).await;
    assert_eq!(list(&world, hook).await.remove(0).status, "pending");
    assert!(claim(&world, PLACES).await.is_empty());
    settle(&world, &taken, AfterTry::Delivered).await;
    assert_eq!(list(&world, hook).await.remove(0).status, "delivered");
}

#[tokio::test]
async fn a_place_that_is_gone_switches_off_what_is_there_and_nothing_else() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 3).await;
    let outgoing = claim(&world, PLACES).await.remove(0);
    // Meanwhile it moved: the old place is gone, the new one isn't.
    let mut tx = world.tx().await;
    let change = WebhookChange { url: Some("https://new.example/".into()), ..WebhookChange::default() };
    tx.webhook_update(hook, &change).await.expect("changed");
    tx.commit().await.expect("committed");
    settle(&world, &outgoing, AfterTry::Gone).await;
    let shown = world.tx().await.webhook_fetch(hook).await.expect("read").expect("a webhook");
    assert_eq!((shown.disabled_at, shown.disabled_reason), (None, None));
    let outgoing = claim(&world, PLACES).await.remove(0);
    assert_eq!(outgoing.url, "https://new.example/");
    settle(&world, &outgoing, AfterTry::Gone).await;
    let shown = world.tx().await.webhook_fetch(hook).await.expect("read").expect("a webhook");
    assert_eq!(shown.disabled_reason.as_deref(), Some("gone"));
    assert!(list(&world, hook).await.iter().all(|row| row.status == "failed"));
    let mut tx = world.tx().await;
    let refused = tx.delivery_create(hook, "webhook.test", "{}").await.expect("an answer");
    assert_eq!(refused.map(|row| row.kind), Err(NotQueued::SwitchedOff));
    assert!(claim(&world, PLACES).await.is_empty());
}

#[tokio::test]
async fn gone_endpoints_in_parallel_do_not_wait_for_each_other_in_a_circle() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 4).await;
    is(&world, Health::Answers, &[hook]).await;
    let claimed = claim(&world, PLACES).await;
    assert_eq!(claimed.len(), 4);
    let settled = claimed.iter().map(|outgoing| settle(&world, outgoing, AfterTry::Gone));
    futures::future::join_all(settled).await;
    let rows = list(&world, hook).await;
    assert!(
        rows.iter().all(|row| row.status == "failed" && row.attempts.as_array().map(Vec::len) == Some(1))
    );
}

#[tokio::test]
async fn an_endpoint_that_asks_for_a_rest_has_it_until_somebody_asks_otherwise() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 2).await;
    let outgoing = claim(&world, PLACES).await.remove(0);
    let later = Utc::now() + Duration::from_secs(600);
    let busy = Tried { rest_until: Some(later), ..tried(AfterTry::Again(later)) };
    world.store.delivery_tried(&outgoing, &busy).await.expect("written");
    assert!(claim(&world, PLACES).await.is_empty(), "the other one waits, too");
    let mut tx = world.tx().await;
    tx.delivery_again(hook, outgoing.delivery_id).await.expect("an answer").expect("queued");
    tx.commit().await.expect("committed");
    let next = claim(&world, PLACES).await;
    assert_eq!((next.len(), next[0].health), (1, Health::Fails), "one at a time, for it failed");
}

#[tokio::test]
async fn what_is_sent_again_is_tried_for_as_long_as_a_new_one_and_a_hundred_tries_are_kept() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 1).await;
    let id = DeliveryId(list(&world, hook).await[0].delivery_id);
    for round in 0..12 {
        for tries in 0..9 {
            let outgoing = claim(&world, PLACES).await.remove(0);
            assert_eq!((outgoing.delivery_id, outgoing.tries), (id, tries), "round {round}");
            settle(
                &world,
                &outgoing,
                if tries == 8 { AfterTry::Failed } else { AfterTry::Again(Utc::now()) },
            )
            .await;
        }
        assert!(claim(&world, PLACES).await.is_empty());
        let mut tx = world.tx().await;
        tx.delivery_again(hook, id).await.expect("an answer").expect("queued");
        tx.commit().await.expect("committed");
    }
    assert_eq!(list(&world, hook).await[0].attempts.as_array().map(Vec::len), Some(100));
}

#[tokio::test]
async fn two_secrets_live_after_a_rotation_and_never_three() {
    let world = World::new().await;
    let mut tx = world.tx().await;
    let new = NewWebhook {
        url: "https://hooks.example/".into(),
        events: vec!["*".into()],
        description: None,
        include_input: false,
    };
    let (row, first) = tx.webhook_create(&new).await.expect("made");
    let hook = WebhookId(row.webhook_id);
    let (_, second) = tx.webhook_rotate(hook).await.expect("rotated").expect("a webhook");
    let (row, third) = tx.webhook_rotate(hook).await.expect("rotated").expect("a webhook");
    assert!(row.before_until.is_some_and(|until| until > Utc::now() + Duration::from_secs(86_000)));
    tx.delivery_create(hook, "webhook.test", "{}").await.expect("an answer").expect("queued");
    tx.commit().await.expect("committed");
    let secrets = |outgoing: &Outgoing| -> Vec<String> {
        outgoing.secrets.iter().map(|secret| secret.expose_secret().to_owned()).collect()
    };
    let outgoing = claim(&world, PLACES).await.remove(0);
    assert_eq!(secrets(&outgoing), [third.expose_secret(), second.expose_secret()]);
    assert_ne!(first.expose_secret(), second.expose_secret());
    settle(&world, &outgoing, AfterTry::Again(Utc::now())).await;
    sqlx::query("UPDATE webhooks SET before_until = now()")
        .execute(&mut world.superuser().await)
        .await
        .expect("a day later");
    assert_eq!(secrets(&claim(&world, PLACES).await[0]), [third.expose_secret()]);
    let shown = world.tx().await.webhook_fetch(hook).await.expect("read").expect("a webhook");
    assert_eq!(shown.before_until, None);
}

#[tokio::test]
async fn deliveries_are_found_by_status_and_type() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 1).await;
    of_run(&world, hook, 2).await;
    let found = async |status: Option<&str>, kind: Option<&str>| {
        let filter = DeliveryFilter { status: status.map(str::to_owned), kind: kind.map(str::to_owned) };
        world.tx().await.delivery_list(hook, &filter, None, 9).await.expect("deliveries").len()
    };
    assert_eq!(found(None, None).await, 3);
    assert_eq!(found(Some("pending"), Some("run.*")).await, 2);
    assert_eq!(found(Some("failed"), None).await, 0);
    assert_eq!(found(None, Some("webhook.test")).await, 1);
    assert_eq!(found(None, Some("run.finished")).await, 0);
}
