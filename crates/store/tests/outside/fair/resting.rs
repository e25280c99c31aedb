//! A suspended tenant's runs rest: nobody claims them, and who has them is told.

use answerable_core::id::TenantId;
use answerable_ports::{Room, RunStore as _};
use uuid::Uuid;

use super::model::Queued;
use super::queue::{LONG, Queue, claims, claims_in, owner};

async fn suspend(queue: &Queue, tenant: Uuid, suspended: bool) {
    let mut tx = queue.world.store.system().await.expect("a transaction");
    assert!(tx.tenant_suspend(TenantId(tenant), suspended).await.expect("an answer"));
    tx.commit().await.expect("committed");
}

#[tokio::test]
async fn nothing_of_a_suspended_tenant_is_claimed() {
    let mut queue = Queue::new().await;
    let (rests, works) = (owner(1), owner(1));
    for owner in [&rests, &works] {
        queue.tenant(owner).await;
        queue.fill(owner, 2).await;
    }
    let cancelled = Queued { urgent: true, ..Queued::plain(rests.id) };
    queue.put(&cancelled).await;
    suspend(&queue, rests.id, true).await;
    let server = queue.server();
    assert!(claims_in(&server, &Room { limit: 9, pressing: true, except: &[] }).await.is_empty());
    let claimed = claims(&server, 9).await;
    assert_eq!(claimed.len(), 2);
    assert!(claimed.iter().all(|claimed| claimed.lease.tenant_id.0 == works.id));
    suspend(&queue, rests.id, false).await;
    assert_eq!(claims(&server, 9).await.len(), 3, "all of it goes on");
}

#[tokio::test]
async fn what_a_dead_server_left_of_a_suspended_tenant_rests_and_holds_nobody_up() {
    let mut queue = Queue::new().await;
    let (rests, works) = (owner(1), owner(1));
    for owner in [&rests, &works] {
        queue.tenant(owner).await;
        queue.fill(owner, 3).await;
    }
    let server = queue.server();
    claims(&server, 9).await;
    queue
        .tell("UPDATE run_queue SET lease_until = now() - interval '1 hour' WHERE tenant_id = $1", rests.id)
        .await;
    queue
        .tell("UPDATE run_queue SET lease_until = now() - interval '1 minute' WHERE tenant_id = $1", works.id)
        .await;
    suspend(&queue, rests.id, true).await;
    let taken = server.reclaim(Uuid::now_v7(), 3, LONG, &[]).await.expect("claims");
    assert_eq!(taken.len(), 3);
    assert!(taken.iter().all(|claimed| claimed.lease.tenant_id.0 == works.id));
    suspend(&queue, rests.id, false).await;
    assert_eq!(server.reclaim(Uuid::now_v7(), 9, LONG, &[]).await.expect("claims").len(), 3);
}

#[tokio::test]
async fn who_renews_is_told_whose_tenants_are_suspended() {
    let mut queue = Queue::new().await;
    let (rests, works) = (owner(1), owner(1));
    for owner in [&rests, &works] {
        queue.tenant(owner).await;
        queue.fill(owner, 1).await;
    }
    let (server, id) = (queue.server(), Uuid::now_v7());
    let room = Room { limit: 9, ..Room::default() };
    let claimed = server.claim(id, &room, LONG).await.expect("claims").runs;
    let leases: Vec<_> = claimed.iter().map(|claimed| claimed.lease).collect();
    assert!(server.renew(id, &leases, LONG).await.expect("renewed").suspended.is_empty());
    suspend(&queue, rests.id, true).await;
    let renewal = server.renew(id, &leases, LONG).await.expect("renewed");
    assert_eq!(renewal.renewed.len(), 2, "calls that are out are waited for");
    let told: Vec<Uuid> = renewal.suspended.iter().map(|lease| lease.tenant_id.0).collect();
    assert_eq!(told, [rests.id]);
}
