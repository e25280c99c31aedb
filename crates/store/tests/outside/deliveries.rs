//! What is on its way to endpoints: nobody's backlog keeps another's back.

use answerable_core::id::{TenantId, WebhookId};
use answerable_store::{AfterTry, NewWebhook, Outgoing, Tried};

use crate::world::World;

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
        tx.delivery_create(id, "webhook.test", "{}").await.expect("a delivery");
    }
    tx.commit().await.expect("committed");
    id
}

async fn claim(world: &World, limit: i64) -> Vec<Outgoing> {
    world.store.deliveries_claim(limit, 4, 6).await.expect("claims")
}

fn of(claimed: &[Outgoing], webhook: WebhookId) -> usize {
    claimed.iter().filter(|outgoing| outgoing.webhook_id == webhook).count()
}

#[tokio::test]
async fn a_backlog_keeps_nobody_else_back() {
    let world = World::new().await;
    let (slow, dead) =
        (endpoint(&world, world.tenant, 1_200).await, endpoint(&world, world.tenant, 20).await);
    let other = world.another_tenant().await;
    let quick = endpoint(&world, other, 1).await;
    let claimed = claim(&world, 64).await;
    assert_eq!(of(&claimed, quick), 1);
    assert_eq!((of(&claimed, slow), claimed.len()), (4, 7), "four of an endpoint, six of a tenant");
    assert_eq!(of(&claimed, dead), 2);
    assert!(claim(&world, 64).await.is_empty(), "all of them are out");
    // With one place left it is whoever has least out.
    let late = endpoint(&world, other, 1).await;
    assert_eq!(of(&claim(&world, 1).await, late), 1);
}

#[tokio::test]
async fn a_late_word_of_a_slow_sender_undoes_no_arrival() {
    let world = World::new().await;
    let hook = endpoint(&world, world.tenant, 1).await;
    let outgoing = claim(&world, 1).await.remove(0);
    let arrived = Tried { status: Some(200), error: None, then: AfterTry::Delivered };
    let failed = Tried { status: None, error: Some("cut".into()), then: AfterTry::Again(chrono::Utc::now()) };
    world.store.delivery_tried(&outgoing, &arrived).await.expect("written");
    world.store.delivery_tried(&outgoing, &failed).await.expect("written");
    let row = world.tx().await.delivery_list(hook, None, 9).await.expect("deliveries").remove(0);
    assert_eq!(row.status, "delivered");
    assert_eq!(world.store.deliveries_next().await.expect("an answer"), None);
}
