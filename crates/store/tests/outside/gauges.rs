//! What is counted for those who watch the service.

use std::time::Duration;

use answerable_core::id::CallId;
use answerable_core::run::ApprovalKind;
use answerable_ports::{Gauges, Waiting};
use serde_json::json;
use sqlx::AssertSqlSafe;

use crate::world::World;

/// Puts a moment of the database back, as if time had passed since.
async fn long_ago(world: &World, change: &str) {
    let mut connection = world.superuser().await;
    sqlx::query(AssertSqlSafe(change.to_owned())).execute(&mut connection).await.expect("a change");
}

async fn gauges(world: &World) -> Gauges {
    world.store.gauges().await.expect("gauges")
}

fn pending(gauges: &Gauges, kind: ApprovalKind) -> Waiting {
    gauges.approvals.into_iter().find(|(known, _)| *known == kind).expect("every kind").1
}

fn is_about(waiting: Waiting, count: u64, seconds: u64) {
    let longest = waiting.longest;
    assert_eq!(waiting.count, count, "{waiting:?}");
    assert!((seconds..seconds + 60).contains(&longest.as_secs()), "{waiting:?}, and not {seconds} s");
}

#[tokio::test]
async fn an_empty_database_has_nothing_that_waits() {
    let world = World::new().await;
    let gauges = gauges(&world).await;
    let all = [gauges.queue, gauges.uncertain, gauges.deliveries];
    assert!(all.iter().all(|waiting| *waiting == Waiting::default()), "{gauges:?}");
    assert_eq!(pending(&gauges, ApprovalKind::Budget), Waiting::default());
}

#[tokio::test]
async fn a_run_waits_until_it_is_claimed_and_again_when_something_comes_in() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    world
        .start(|new| new.not_before = Some(chrono::Utc::now() + chrono::TimeDelta::hours(1)))
        .await
        .expect("a run");
    long_ago(&world, "UPDATE run_queue SET wake_at = wake_at - interval '10 minutes' WHERE wake_at < now()")
        .await;
    is_about(gauges(&world).await.queue, 1, 600);
    world.claim(run).await;
    assert_eq!(gauges(&world).await.queue, Waiting::default());
    let parked = world.waiting(&[("pay", json!({"amount": 1}))]).await;
    assert_eq!(gauges(&world).await.queue, Waiting::default());
    world.wake(parked).await;
    is_about(gauges(&world).await.queue, 1, 0);
}

#[tokio::test]
async fn what_is_held_back_makes_the_queue_long_and_not_old() {
    let world = World::with_quotas(json!({"max_concurrent_runs": 1})).await;
    let (mut held, mut thread) = (Vec::new(), None);
    for _ in 0..3 {
        let key = thread.get_or_insert_with(|| "one at a time".to_owned()).clone();
        held.push(world.start(|new| new.concurrency_key = Some(key)).await.expect("a run"));
    }
    // The second and third wait for the first, which could be claimed.
    long_ago(&world, "UPDATE run_queue SET wake_at = now() - interval '10 minutes'").await;
    long_ago(
        &world,
        "UPDATE run_queue SET wake_at = now() - interval '5 minutes' WHERE ord = (SELECT min(ord) FROM run_queue)",
    )
    .await;
    is_about(gauges(&world).await.queue, 3, 300);
    // Now the tenant has its one place taken.
    world.claim(held[0]).await;
    let queue = gauges(&world).await.queue;
    assert_eq!(queue, Waiting { count: 2, longest: Duration::ZERO });
}

#[tokio::test]
async fn people_and_what_they_are_asked() {
    let world = World::new().await;
    let paid = world.waiting(&[("pay", json!({"amount": 1}))]).await;
    world.asking_for_steps().await;
    let sent = world.waiting(&[("mail", json!({}))]).await;
    long_ago(
        &world,
        "UPDATE approvals SET created_at = created_at - interval '1 hour' WHERE kind = 'tool_call'",
    )
    .await;
    let now = gauges(&world).await;
    is_about(pending(&now, ApprovalKind::ToolCall), 1, 3600);
    is_about(pending(&now, ApprovalKind::Budget), 1, 0);
    assert_eq!(pending(&now, ApprovalKind::UncertainEffect), Waiting::default());
    assert_eq!(now.uncertain, Waiting::default());

    let call = CallId(world.tx().await.call_list(sent, 1, 1).await.expect("calls")[0].call_id);
    world.cut(sent, call).await;
    long_ago(
        &world,
        "UPDATE ledger SET finished_at = finished_at - interval '2 hours' WHERE status = 'uncertain'",
    )
    .await;
    is_about(gauges(&world).await.uncertain, 1, 7200);
    long_ago(&world, "UPDATE ledger SET resolution = '{}' WHERE status = 'uncertain'").await;
    assert_eq!(gauges(&world).await.uncertain, Waiting::default());

    world.end(paid).await;
    assert_eq!(pending(&gauges(&world).await, ApprovalKind::ToolCall), Waiting::default());
}

#[tokio::test]
async fn deliveries_wait_and_are_late_once_they_are_due() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let (tenant, run) = (world.tenant.0, run.0);
    let delivery = |status: &str, due: &str| {
        format!(
            "INSERT INTO deliveries (tenant_id, delivery_id, webhook_id, run_id, type, body, status, next_attempt_at, created_at)
             SELECT '{tenant}', uuid_v7(), webhook_id, '{run}', 'run.failed', '{{}}', '{status}', {due}, now() FROM webhooks"
        )
    };
    long_ago(
        &world,
        &format!(
            "INSERT INTO webhooks (tenant_id, webhook_id, url, events, sealed) VALUES ('{tenant}', uuid_v7(), 'https://a.example', '{{*}}', '')"
        ),
    )
    .await;
    long_ago(&world, &delivery("pending", "now() + interval '1 hour'")).await;
    long_ago(&world, &delivery("delivered", "NULL")).await;
    assert_eq!(gauges(&world).await.deliveries, Waiting { count: 1, longest: Duration::ZERO });
    long_ago(&world, &delivery("pending", "now() - interval '1 hour'")).await;
    is_about(gauges(&world).await.deliveries, 2, 3600);
}
