//! Lines: the runs of a thread, and those under a concurrency key, go one after another.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use answerable_core::id::RunId;
use answerable_core::run::Event;
use answerable_ports::commit::Release;
use answerable_ports::{Claimed, RunStore as _};
use futures::future::join_all;
use uuid::Uuid;

use super::model::Queued;
use super::queue::{Queue, claims, owner, shown};
use crate::world::World;

/// What is claimed now, by id.
async fn now(queue: &Queue) -> BTreeSet<Uuid> {
    claims(&queue.server(), 99).await.into_iter().map(|claimed| claimed.lease.run_id.0).collect()
}

#[tokio::test]
async fn whoever_leaves_a_line_lets_the_next_one_step_up() {
    let mut queue = Queue::new().await;
    let owner = owner(1);
    queue.tenant(&owner).await;
    let of = |thread: Option<i32>, key: Option<&str>| Queued {
        thread,
        key: key.map(str::to_owned),
        ..Queued::plain(owner.id)
    };
    // The third stands in both lines, the fourth in one of them behind it.
    let runs = [of(Some(1), None), of(None, Some("a")), of(Some(1), Some("a")), of(None, Some("a"))];
    for run in &runs {
        queue.put(run).await;
    }
    let ids = runs.each_ref().map(|run| run.id);
    assert_eq!(now(&queue).await, [ids[0], ids[1]].into());
    queue.end(RunId(ids[0])).await;
    assert_eq!(now(&queue).await, [].into(), "it waits for the other one as well");
    queue.end(RunId(ids[1])).await;
    assert_eq!(now(&queue).await, [ids[2]].into());
    // Ended with calls still out is ended.
    queue.tell("UPDATE run_queue SET ended = true WHERE run_id = $1", ids[2]).await;
    assert_eq!(now(&queue).await, [ids[3]].into());
}

#[tokio::test]
async fn whoever_leaves_the_middle_of_a_line_lets_nobody_past() {
    let mut queue = Queue::new().await;
    let owner = owner(1);
    queue.tenant(&owner).await;
    let runs = [(); 4].map(|()| Queued { key: Some("a".into()), ..Queued::plain(owner.id) });
    for run in &runs {
        queue.put(run).await;
    }
    let ids = runs.each_ref().map(|run| run.id);
    assert_eq!(now(&queue).await, [ids[0]].into());
    // It is cancelled while it waits: that needs no turn.
    queue.tell("UPDATE run_queue SET urgent = true WHERE run_id = $1", ids[1]).await;
    assert_eq!(now(&queue).await, [ids[1]].into());
    queue.end(RunId(ids[1])).await;
    assert_eq!(now(&queue).await, [].into(), "the first one still works");
    queue.end(RunId(ids[0])).await;
    assert_eq!(now(&queue).await, [ids[2]].into());
    // Time that is over needs no turn either, and may not begin for it.
    queue
        .tell("UPDATE run_queue SET expires_at = now() - interval '1 second' WHERE run_id = $1", ids[3])
        .await;
    let over = claims(&queue.server(), 9).await;
    assert!(matches!(&over[..], [one] if one.lease.run_id.0 == ids[3] && !one.may_start), "{over:?}");
}

#[tokio::test]
async fn a_key_is_held_while_its_run_waits_for_people_and_is_each_tenants_own() {
    let mut queue = Queue::new().await;
    let [one, other] = [owner(1), owner(1)];
    let keyed = |tenant: Uuid| Queued { key: Some("a".into()), ..Queued::plain(tenant) };
    let [first, second, theirs] = [keyed(one.id), keyed(one.id), keyed(other.id)];
    for owner in [&one, &other] {
        queue.tenant(owner).await;
    }
    let waits = Queued { started: true, wakes: None, ..first };
    for run in [&waits, &second, &theirs] {
        queue.put(run).await;
    }
    assert_eq!(now(&queue).await, [theirs.id].into(), "{}", shown(&mut queue, second.id).await);
}

/// One server's life: it claims, and what it has claimed ends soon after.
async fn work(world: &World, left: &AtomicUsize, at_once: &AtomicUsize, until: Instant) {
    let server = Uuid::now_v7();
    while left.load(Ordering::SeqCst) > 0 {
        assert!(
            Instant::now() < until,
            "{} runs are left, and nobody may take them",
            left.load(Ordering::SeqCst)
        );
        let room = crate::world::room(3);
        let claimed = world.engine.claim(server, &room, Duration::from_secs(60)).await.unwrap_or_default();
        for claimed in &claimed.runs {
            assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0, "two of a line work at once");
            end(world, claimed, at_once).await;
            left.fetch_sub(1, Ordering::SeqCst);
        }
        tokio::task::yield_now().await;
    }
}

async fn end(world: &World, claimed: &Claimed, at_once: &AtomicUsize) {
    let at = world.now().await;
    let cancelled = vec![Event::CancelRequested { at, reason: None }];
    let (seq, commit) = world.draft(claimed.lease, cancelled, Release::End).await;
    // What follows may be claimed as soon as this is committed.
    at_once.fetch_sub(1, Ordering::SeqCst);
    world.engine.commit(claimed.lease, seq, commit, Uuid::now_v7()).await.expect("an answer");
}

#[tokio::test]
async fn a_line_never_stands_still_whoever_comes_and_goes_at_once() {
    const RUNS: usize = 40;
    let world = World::new().await;
    let (left, at_once) = (Arc::new(AtomicUsize::new(RUNS)), AtomicUsize::new(0));
    let until = Instant::now() + Duration::from_secs(60);
    let accepting = join_all((0..4).map(|_| async {
        for _ in 0..RUNS / 4 {
            world.start(|new| new.concurrency_key = Some("one".into())).await.expect("a run");
        }
    }));
    let working = join_all((0..4).map(|_| work(&world, &left, &at_once, until)));
    tokio::join!(accepting, working);
    assert_eq!(left.load(Ordering::SeqCst), 0);
}
