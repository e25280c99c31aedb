//! A tenant's requests and its runs have connections apart.

use std::time::Duration;

use answerable_ports::RunStore as _;
use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::world::World;

/// What a tenant's requests may hold of a world's connections.
const PART: u32 = 15;
/// Shorter than anybody waits for a connection.
const SOON: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_tenants_requests_do_not_stand_before_its_runs() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let (done, held) = watch::channel(false);
    let requests = (0..3 * PART).map(|_| {
        let (store, tenant, mut held) = (world.store.clone(), world.tenant, held.clone());
        tokio::spawn(async move {
            let tx = store.tenant(tenant).await;
            held.wait_for(|done| *done).await.expect("a word");
            drop(tx);
        })
    });
    let requests: Vec<_> = requests.collect();
    let deadline = Instant::now() + SOON;
    while world.store.pool_use().0 < PART {
        assert!(Instant::now() < deadline, "{:?} are in use", world.store.pool_use());
        tokio::task::yield_now().await;
    }
    let loaded = timeout(SOON, world.engine.load(lease)).await.expect("in time");
    assert!(loaded.expect("an answer").is_some());
    done.send(true).expect("they hear");
    join_all(requests).await.into_iter().for_each(|ended| ended.expect("no panic"));
}
