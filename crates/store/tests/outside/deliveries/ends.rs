//! How deliveries end that don't arrive, and what begins anew.

use answerable_core::id::{DeliveryId, WebhookId};
use answerable_store::{AfterTry, Health, Keep, WebhookChange};
use chrono::{TimeDelta, Utc};

use super::{PLACES, claim, endpoint, ids, is, list, of_run, settle};
use crate::world::World;

async fn switch(world: &World, webhook: WebhookId, off: bool) {
    let mut tx = world.tx().await;
    let change = WebhookChange { disabled: Some(off), ..WebhookChange::default() };
    tx.webhook_update(webhook, &change).await.expect("changed").expect("a webhook");
    tx.commit().await.expect("committed");
}

async fn prune(world: &World) {
    let keep = Keep { journal_days: 30, runs_days: None };
    world.store.prune(world.url(), keep, 10).await.expect("pruned").expect("nobody else is at it");
}

/// The statuses of a webhook's deliveries, the oldest first.
async fn statuses(world: &World, webhook: WebhookId) -> Vec<String> {
    list(world, webhook).await.into_iter().rev().map(|row| row.status).collect()
}

#[tokio::test]
async fn what_is_asked_for_anew_while_a_try_is_out_is_not_ended_by_it() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 1).await;
    let out = claim(&world, PLACES).await.remove(0);
    let mut tx = world.tx().await;
    tx.delivery_again(hook, out.delivery_id).await.expect("an answer").expect("queued");
    tx.commit().await.expect("committed");
    settle(&world, &out, AfterTry::Failed).await;
    let row = list(&world, hook).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts.as_array().map(Vec::len)), ("pending", Some(1)));
    let again = claim(&world, PLACES).await.remove(0);
    assert_eq!((again.delivery_id, again.tries), (out.delivery_id, 0), "for as long as a new one");
    assert!(again.queued_at > out.queued_at);
}

#[tokio::test]
async fn what_a_failing_endpoint_did_not_take_in_time_is_over() {
    let world = World::new().await;
    let dead = endpoint(&world, world.tenant, 3).await;
    let away = endpoint(&world, world.tenant, 1).await;
    let well = endpoint(&world, world.tenant, 1).await;
    is(&world, Health::Fails, &[dead, away]).await;
    is(&world, Health::Answers, &[well]).await;
    let mut superuser = world.superuser().await;
    // Two of the dead one's are old; of the other one nothing is known since: it was not tried for want of a server.
    let newest = list(&world, dead).await[0].delivery_id;
    for (passes, id) in [
        ("UPDATE deliveries SET queued_at = now() - interval '40 hours' WHERE delivery_id <> $1", newest),
        ("UPDATE webhooks SET failed_at = now() - interval '10 hours' WHERE webhook_id = $1", away.0),
    ] {
        sqlx::query(passes).bind(id).execute(&mut superuser).await.expect("time passes");
    }
    prune(&world).await;
    assert_eq!(statuses(&world, dead).await, ["failed", "failed", "pending"]);
    assert_eq!(statuses(&world, away).await, ["pending"]);
    assert_eq!(statuses(&world, well).await, ["pending"]);
    // Asked for anew, it has its time again.
    let mut tx = world.tx().await;
    let oldest = list(&world, dead).await[2].delivery_id;
    tx.delivery_again(dead, DeliveryId(oldest)).await.expect("an answer").expect("queued");
    tx.commit().await.expect("committed");
    prune(&world).await;
    assert_eq!(statuses(&world, dead).await, ["pending", "failed", "pending"]);
}

#[tokio::test]
async fn a_late_word_that_it_is_gone_does_not_undo_that_it_is_on_again() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 2).await;
    is(&world, Health::Answers, &[hook]).await;
    let out = claim(&world, PLACES).await;
    settle(&world, &out[0], AfterTry::Gone).await;
    let shown = world.tx().await.webhook_fetch(hook).await.expect("read").expect("a webhook");
    assert_eq!(shown.disabled_reason.as_deref(), Some("gone"));
    switch(&world, hook, false).await;
    let asked = of_run(&world, hook, 1).await;
    settle(&world, &out[1], AfterTry::Gone).await;
    let shown = world.tx().await.webhook_fetch(hook).await.expect("read").expect("a webhook");
    assert_eq!(shown.disabled_at, None);
    assert_eq!(statuses(&world, hook).await, ["failed", "failed", "pending"]);
    assert_eq!(ids(&claim(&world, PLACES).await), asked);
}

#[tokio::test]
async fn a_failure_of_before_the_switching_off_queues_nothing_again() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 1).await;
    let out = claim(&world, PLACES).await.remove(0);
    switch(&world, hook, true).await;
    settle(&world, &out, AfterTry::Again(Utc::now() - TimeDelta::seconds(1))).await;
    assert_eq!(statuses(&world, hook).await, ["failed"]);
    switch(&world, hook, false).await;
    assert!(claim(&world, PLACES).await.is_empty());
}

#[tokio::test]
async fn what_a_commit_queued_beside_the_switching_off_does_not_stay() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 0).await;
    switch(&world, hook, true).await;
    // A commit that still saw the webhook on.
    of_run(&world, hook, 1).await;
    prune(&world).await;
    assert_eq!(statuses(&world, hook).await, ["failed"]);
    of_run(&world, hook, 1).await;
    switch(&world, hook, false).await;
    assert_eq!(statuses(&world, hook).await, ["failed", "failed"]);
    // On already: nothing that waits is ended.
    let waiting = of_run(&world, hook, 1).await;
    switch(&world, hook, false).await;
    assert_eq!(ids(&claim(&world, PLACES).await), waiting);
}
