//! Requests a minute: never more than may be, whichever servers take them and whatever they give back.

use std::time::Duration;

use answerable_store::{RequestsTaken, RequestsUnused};
use sqlx::Executor as _;

use crate::world::World;

async fn take(world: &World, most: u64, wanted: u64, unused: Option<RequestsUnused>) -> RequestsTaken {
    let mut tx = world.tx().await;
    let taken = tx.requests_take(most, wanted, unused).await.expect("an answer").expect("a tenant");
    tx.commit().await.expect("committed");
    taken
}

/// The tenant's minute began so long ago.
async fn age(world: &World, interval: &str) {
    let query = format!("UPDATE request_windows SET began = clock_timestamp() - interval '{interval}'");
    world.superuser().await.execute(sqlx::AssertSqlSafe(query)).await.expect("aged");
}

#[tokio::test]
async fn a_hundred_at_the_last_place_admit_one() {
    let world = World::new().await;
    take(&world, 50, 49, None).await;
    let asked = (0..100).map(|_| take(&world, 50, 1, None));
    let granted = futures::future::join_all(asked).await;
    assert_eq!(granted.iter().map(|taken| taken.granted).sum::<u64>(), 1);
    assert!(granted.iter().all(|taken| taken.remaining == 0));
}

#[tokio::test]
async fn a_tenants_first_requests_race_for_its_row() {
    let world = World::new().await;
    let granted = futures::future::join_all((0..30).map(|_| take(&world, 20, 1, None))).await;
    assert_eq!(granted.iter().map(|taken| taken.granted).sum::<u64>(), 20);
    let began: Vec<_> = granted.iter().map(|taken| taken.began).collect();
    assert!(began.windows(2).all(|two| two[0] == two[1]), "they are of one minute: {began:?}");
}

#[tokio::test]
async fn what_is_given_back_can_be_taken_in_the_same_minute_alone() {
    let world = World::new().await;
    let first = take(&world, 100, 60, None).await;
    assert_eq!((first.granted, first.remaining), (60, 40));
    assert!(first.ends_in <= Duration::from_secs(60) && first.ends_in > Duration::from_secs(50));
    let unused = RequestsUnused { count: 25, began: first.began };
    let second = take(&world, 100, 100, Some(unused)).await;
    assert_eq!((second.granted, second.remaining, second.began), (65, 0, first.began));
    age(&world, "59 seconds").await;
    assert_eq!(take(&world, 100, 1, None).await.granted, 0);
    age(&world, "60 seconds").await;
    // The next minute is as long as any, whatever comes back from the one before.
    let third = take(&world, 100, 100, Some(unused)).await;
    assert_eq!((third.granted, third.remaining), (100, 0));
    assert_ne!(third.began, first.began);
    assert_eq!(take(&world, 100, 1, Some(unused)).await.granted, 0);
}

#[tokio::test]
async fn a_clock_that_is_set_back_stretches_no_minute() {
    let world = World::new().await;
    take(&world, 10, 10, None).await;
    age(&world, "-1 hour").await;
    let taken = take(&world, 10, 4, None).await;
    assert_eq!((taken.granted, taken.remaining), (4, 6));
    assert!(taken.ends_in <= Duration::from_secs(60));
}

#[tokio::test]
async fn a_limit_that_was_lowered_or_is_nothing_grants_nothing() {
    let world = World::new().await;
    take(&world, 100, 60, None).await;
    let taken = take(&world, 50, 1, None).await;
    assert_eq!((taken.granted, taken.remaining), (0, 0));
    assert_eq!(take(&world, 0, 1, None).await.granted, 0);
    assert_eq!(take(&world, 100, 1, None).await.remaining, 39);
}

#[tokio::test]
async fn each_tenant_has_its_own_and_one_that_is_gone_has_none() {
    let world = World::new().await;
    take(&world, 10, 10, None).await;
    let other = world.another_tenant().await;
    let mut tx = world.store.tenant(other).await.expect("a transaction");
    let taken = tx.requests_take(10, 3, None).await.expect("an answer").expect("a tenant");
    assert_eq!((taken.granted, taken.remaining), (3, 7));
    tx.commit().await.expect("committed");
    let mut tx = world.store.tenant(other).await.expect("a transaction");
    assert!(tx.tenant_delete().await.expect("an answer"));
    tx.commit().await.expect("committed");
    let mut tx = world.store.tenant(other).await.expect("a transaction");
    assert_eq!(tx.requests_take(10, 1, None).await.expect("an answer"), None);
}

#[tokio::test]
async fn a_tenant_whose_transactions_all_wait_leaves_connections_to_others() {
    let world = World::new().await;
    let other = world.another_tenant().await;
    // As many as it gets of the world's twenty connections, held open as by a lock.
    let mut held = Vec::new();
    while let Ok(tx) =
        tokio::time::timeout(Duration::from_millis(200), world.store.tenant(world.tenant)).await
    {
        held.push(tx.expect("a transaction"));
    }
    assert_eq!(held.len(), 15);
    for _ in 0..3 {
        let others = world.store.tenant(other);
        let tx = tokio::time::timeout(Duration::from_secs(2), others).await.expect("in time");
        held.push(tx.expect("a transaction"));
    }
}
