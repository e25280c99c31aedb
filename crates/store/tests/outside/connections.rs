//! A tenant's requests and its runs have connections apart.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::id::CallId;
use answerable_ports::{McpServers as _, RunStore as _, WorkspaceStore as _};
use answerable_store::Workspaces;
use futures::future::join_all;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::files::shelf::Shelf;
use crate::world::World;

/// What a tenant's requests may hold of a world's connections.
const PART: u32 = 15;
/// Shorter than anybody waits for a connection.
const SOON: Duration = Duration::from_secs(3);
/// Time for all that they may hold to be opened, however busy the machine is.
const OPENED: Duration = Duration::from_secs(60);

/// Requests of the tenant that hold all that they may and wait for more, until the word.
async fn full(world: &World, held: watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
    let requests = (0..3 * PART).map(|_| {
        let (store, tenant, mut held) = (world.store.clone(), world.tenant, held.clone());
        tokio::spawn(async move {
            // Who has waited for too long asks again.
            let tx = loop {
                if let Ok(tx) = store.tenant(tenant).await {
                    break tx;
                }
            };
            held.wait_for(|done| *done).await.expect("a word");
            drop(tx);
        })
    });
    let requests = requests.collect();
    let deadline = Instant::now() + OPENED;
    while world.store.pool_use().0 < PART {
        assert!(Instant::now() < deadline, "{:?} are in use", world.store.pool_use());
        tokio::task::yield_now().await;
    }
    requests
}

#[tokio::test]
async fn a_tenants_requests_do_not_stand_before_its_runs() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let (done, held) = watch::channel(false);
    let requests = full(&world, held).await;
    let loaded = timeout(SOON, world.engine.load(lease)).await.expect("in time");
    assert!(loaded.expect("an answer").is_some());
    let server = timeout(SOON, world.store.mcp_target(world.tenant, "nobodys")).await.expect("in time");
    assert!(server.expect("an answer").is_none());
    let files = Workspaces::new(world.store.clone(), Arc::new(Shelf::default())).for_runs();
    let outcome = timeout(SOON, files.outcome(world.tenant, CallId(run.0))).await.expect("in time");
    assert!(outcome.expect("an answer").is_none());
    done.send(true).expect("they hear");
    join_all(requests).await.into_iter().for_each(|ended| ended.expect("no panic"));
}
