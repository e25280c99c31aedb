//! What is on its way to endpoints: nobody's backlog keeps another's back, and a run's events go in their order.

mod ends;
mod settled;
mod turns;

use std::time::Duration;

use answerable_core::id::{DeliveryId, RunId, TenantId, WebhookId};
use answerable_store::{AfterTry, DeliveryFilter, Health, NewWebhook, Outgoing, PlacesLeft, Tried};
use chrono::Utc;
use uuid::Uuid;

use crate::world::World;

const PLACES: PlacesLeft = PlacesLeft { all: 64, new: 64, failing: 64, each: 4, of_tenant: 8 };

async fn endpoint(world: &World, tenant: TenantId, waiting: usize) -> WebhookId {
    let mut tx = world.store.tenant(tenant).await.expect("a transaction");
    let new = NewWebhook {
        url: "https://hooks.example/".into(),
        events: vec!["*".into()],
        description: None,
        include_input: false,
    };
    let id = WebhookId(tx.webhook_create(&new).await.expect("a webhook").0.webhook_id);
    for _ in 0..waiting {
        tx.delivery_create(id, "webhook.test", "{}").await.expect("an answer").expect("a delivery");
    }
    tx.commit().await.expect("committed");
    id
}

/// What was found of endpoints before.
async fn is(world: &World, health: Health, webhooks: &[WebhookId]) {
    let (answers, fails) = (health == Health::Answers, health == Health::Fails);
    let ids: Vec<Uuid> = webhooks.iter().map(|id| id.0).collect();
    sqlx::query(
        "UPDATE webhooks SET answers_since = CASE WHEN $2 THEN now() END, failing_since = CASE WHEN $3 THEN now() END,
             failed_at = CASE WHEN $3 THEN now() END
         WHERE webhook_id = ANY($1)",
    )
    .bind(ids)
    .bind(answers)
    .bind(fails)
    .execute(&mut world.superuser().await)
    .await
    .expect("changed");
}

/// Deliveries of one run to an endpoint, in their order.
async fn of_run(world: &World, webhook: WebhookId, count: usize) -> Vec<DeliveryId> {
    let mut superuser = world.superuser().await;
    let (run, mut ids) = (RunId(Uuid::now_v7()), Vec::new());
    for _ in 0..count {
        let id: Uuid = sqlx::query_scalar(
            "INSERT INTO deliveries (tenant_id, delivery_id, webhook_id, run_id, type, body, next_attempt_at, created_at)
             VALUES ($1, gen_random_uuid(), $2, $3, 'run.started', '{}', now(), now()) RETURNING delivery_id",
        )
        .bind(world.tenant.0)
        .bind(webhook.0)
        .bind(run.0)
        .fetch_one(&mut superuser)
        .await
        .expect("a delivery");
        ids.push(DeliveryId(id));
    }
    ids
}

async fn claim(world: &World, places: PlacesLeft) -> Vec<Outgoing> {
    world.store.deliveries_claim(&places).await.expect("claims")
}

fn of(claimed: &[Outgoing], webhook: WebhookId) -> usize {
    claimed.iter().filter(|outgoing| outgoing.webhook_id == webhook).count()
}

fn ids(claimed: &[Outgoing]) -> Vec<DeliveryId> {
    claimed.iter().map(|outgoing| outgoing.delivery_id).collect()
}

fn tried(then: AfterTry) -> Tried {
    let error = (then != AfterTry::Delivered).then(|| "not accepted".to_owned());
    let (status, response) = (Some(if error.is_some() { 500 } else { 200 }), Some("so".to_owned()));
    Tried { at: Utc::now(), status, error, duration_ms: 7, response, then, rest_until: None }
}

async fn settle(world: &World, outgoing: &Outgoing, then: AfterTry) {
    world.store.delivery_tried(outgoing, &tried(then)).await.expect("written");
}

async fn list(world: &World, webhook: WebhookId) -> Vec<answerable_store::DeliveryRow> {
    let all = DeliveryFilter::default();
    world.tx().await.delivery_list(webhook, &all, None, 200).await.expect("deliveries")
}

#[tokio::test]
async fn a_backlog_keeps_nobody_else_back() {
    let world = World::new().await;
    let (slow, dead) =
        (endpoint(&world, world.tenant, 1_200).await, endpoint(&world, world.tenant, 20).await);
    is(&world, Health::Answers, &[slow, dead]).await;
    let other = world.another_tenant().await;
    let quick = endpoint(&world, other, 1).await;
    let places = PlacesLeft { of_tenant: 6, ..PLACES };
    let claimed = claim(&world, places).await;
    assert_eq!(of(&claimed, quick), 1);
    assert_eq!((of(&claimed, slow), claimed.len()), (4, 7), "four of an endpoint, six of a tenant");
    assert_eq!(of(&claimed, dead), 2);
    assert!(claim(&world, places).await.is_empty(), "all of them are out");
    // With one place left it is whoever has least out.
    let late = endpoint(&world, other, 1).await;
    assert_eq!(of(&claim(&world, PlacesLeft { all: 1, ..places }).await, late), 1);
}

#[tokio::test]
async fn endpoints_that_do_not_answer_have_few_places() {
    let world = World::new().await;
    let (mut new, mut failing) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        new.push(endpoint(&world, world.tenant, 3).await);
        failing.push(endpoint(&world, world.tenant, 3).await);
    }
    is(&world, Health::Fails, &failing).await;
    let live = endpoint(&world, world.tenant, 5).await;
    is(&world, Health::Answers, &[live]).await;
    // The one that answers comes first; the others have one place each and never all of their tenant's.
    let claimed = claim(&world, PLACES).await;
    let count = |health| claimed.iter().filter(|outgoing| outgoing.health == health).count();
    assert_eq!((of(&claimed, live), count(Health::New), count(Health::Fails)), (4, 4, 0));
    for outgoing in claimed.iter().filter(|outgoing| outgoing.health == Health::Answers) {
        settle(&world, outgoing, AfterTry::Delivered).await;
    }
    let next = claim(&world, PLACES).await;
    assert_eq!((of(&next, live), next.len()), (1, 3), "a quarter of eight for those that fail");
    assert!(next.iter().all(|outgoing| outgoing.health != Health::New), "half of eight are out");
    // Nor all of a server's.
    let other = world.another_tenant().await;
    let (dead, well) = (endpoint(&world, other, 1).await, endpoint(&world, other, 1).await);
    is(&world, Health::Fails, &[dead]).await;
    is(&world, Health::Answers, &[well]).await;
    let places = PlacesLeft { failing: 0, new: 0, ..PLACES };
    assert_eq!(ids(&claim(&world, places).await).len(), 1, "only what is to an endpoint that answers");
    assert_eq!(of(&claim(&world, PLACES).await, dead), 1);
}

#[tokio::test]
async fn a_runs_events_go_in_their_order_while_the_endpoint_takes_them() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 0).await;
    is(&world, Health::Answers, &[hook]).await;
    let (run, another) = (of_run(&world, hook, 3).await, of_run(&world, hook, 1).await);
    let claimed = claim(&world, PLACES).await;
    assert_eq!(ids(&claimed), [run[0], another[0]], "one of each run at a time");
    settle(&world, &claimed[0], AfterTry::Delivered).await;
    let mut second = claim(&world, PLACES).await;
    assert_eq!(ids(&second), [run[1]]);
    // Three tries are waited for.
    for _ in 0..3 {
        let outgoing = second.remove(0);
        settle(&world, &outgoing, AfterTry::Again(Utc::now() + Duration::from_millis(1))).await;
        is(&world, Health::Answers, &[hook]).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        second = claim(&world, PLACES).await;
        assert_eq!(second[0].delivery_id, run[1]);
    }
    assert_eq!(ids(&second), [run[1], run[2]], "then what comes later goes ahead");
}

#[tokio::test]
async fn what_is_tried_again_much_later_is_not_waited_for() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 0).await;
    let run = of_run(&world, hook, 2).await;
    let first = claim(&world, PLACES).await.remove(0);
    settle(&world, &first, AfterTry::Again(Utc::now() + Duration::from_secs(3600))).await;
    assert_eq!(ids(&claim(&world, PLACES).await), [run[1]]);
}
