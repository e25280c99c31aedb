//! Who has a run, and when the next one may: parked, handed back, waking.

use std::time::Duration;

use answerable_core::id::RunId;
use answerable_ports::commit::{CommitOutcome, Release};
use answerable_ports::{Claimed, Room, RunStore, Wake};
use serde_json::json;
use uuid::Uuid;

use crate::world::{World, first_step, new_call, room};

const LONG: Duration = Duration::from_secs(60);

/// Claims what is due; the claim of `run`, if it was.
async fn claimed(world: &World, run: RunId) -> Option<Claimed> {
    let all = world.engine.claim(world.server, &room(100), LONG).await.expect("claims");
    all.runs.into_iter().find(|claimed| claimed.lease.run_id == run)
}

#[tokio::test]
async fn a_message_that_waits_for_its_step_wakes_a_run_once() {
    let world = World::new().await;
    let run = world.waiting(&[("ask_user", json!({}))]).await;
    assert_eq!(claimed(&world, run).await, None, "it waits");
    world.wake(run).await;
    let lease = claimed(&world, run).await.expect("it hears the message").lease;
    let loaded = world.engine.load(lease).await.expect("an answer").expect("the lease");
    assert_eq!(loaded.inbox.len(), 1);
    world.engine.hand_back(lease, Wake::OnInbox, loaded.known_inbox).await.expect("handed back");
    assert_eq!(claimed(&world, run).await, None, "the message is known");
    // One that came in while the run was held is not.
    world.wake(run).await;
    let lease = claimed(&world, run).await.expect("another one").lease;
    world.wake(run).await;
    world.engine.hand_back(lease, Wake::OnInbox, loaded.known_inbox + 1).await.expect("handed back");
    assert!(claimed(&world, run).await.is_some(), "a lost wake-up");
}

#[tokio::test]
async fn a_cancel_of_a_run_that_is_being_handed_back_stays_urgent() {
    let world = World::new().await;
    let run = world.start(|new| new.concurrency_key = Some("one".into())).await.expect("a run");
    let lease = claimed(&world, run).await.expect("due").lease;
    let mut tx = world.tx().await;
    assert!(tx.run_cancel(run, None).await.expect("an answer"));
    tx.commit().await.expect("committed");
    let late = chrono::Utc::now().timestamp_millis() + 3_600_000;
    world.engine.hand_back(lease, Wake::At(late), 0).await.expect("handed back");
    assert!(
        world
            .engine
            .claim(world.server, &Room { pressing: true, ..room(1) }, LONG)
            .await
            .expect("claims")
            .runs
            .iter()
            .any(|c| c.lease.run_id == run)
    );
}

#[tokio::test]
async fn a_server_whose_clock_is_behind_does_not_spin() {
    let world = World::new().await;
    let run = world.waiting(&[("ask_user", json!({}))]).await;
    world.wake(run).await;
    let lease = claimed(&world, run).await.expect("due").lease;
    world.engine.hand_back(lease, Wake::At(1_000), 1).await.expect("handed back");
    assert_eq!(claimed(&world, run).await, None);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(claimed(&world, run).await.is_some());
}

#[tokio::test]
async fn a_parked_run_wakes_at_its_time_or_by_what_comes_in() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let call = new_call(&world.registry(), "ask_user", &json!({}), at);
    let park = Release::Park { wake_at: Some(at + 400) };
    let (seq, commit) = world.draft(lease, first_step(at, vec![call]), park).await;
    let stored = world.engine.commit(lease, seq, commit, Uuid::now_v7()).await.expect("an answer");
    assert_eq!(stored, CommitOutcome::Stored);
    assert_eq!(claimed(&world, run).await, None);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let again = claimed(&world, run).await.expect("its time has come");
    assert_eq!((again.lease.epoch, again.deaths, again.may_start), (lease.epoch + 1, 0, true));
}

#[tokio::test]
async fn a_heartbeat_brings_what_a_lost_signal_did_not() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let inbox = world.store.signals().own_inbox(run);
    let heard = || tokio::time::timeout(Duration::from_millis(50), inbox.came());
    world.engine.renew(world.server, &[lease], LONG).await.expect("renewed");
    assert!(heard().await.is_err(), "nothing came in");
    let mut tx = world.tx().await;
    assert!(tx.run_cancel(run, None).await.expect("an answer"));
    tx.commit().await.expect("committed");
    heard().await.expect("its own signal");
    world.engine.renew(world.server, &[lease], LONG).await.expect("renewed");
    heard().await.expect("the heartbeat's");
}

#[tokio::test]
async fn a_dead_servers_run_is_another_ones_with_a_death() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let brief =
        world.engine.claim(world.server, &room(1), Duration::from_millis(20)).await.expect("claims").runs;
    tokio::time::sleep(Duration::from_millis(60)).await;
    let other = Uuid::now_v7();
    assert!(
        world.engine.reclaim(other, 9, LONG, &[run.0]).await.expect("claims").is_empty(),
        "its own, still at work"
    );
    let taken = world.engine.reclaim(other, 9, LONG, &[]).await.expect("claims");
    assert!(
        matches!(&taken[..], [one] if one.deaths == 1 && one.lease.epoch > brief[0].lease.epoch),
        "{taken:?}"
    );
    let held = world.engine.renew(world.server, &[brief[0].lease], LONG).await.expect("renewed");
    assert!(held.lost.contains(&brief[0].lease) && held.renewed.is_empty(), "the old owner has lost it");
}

#[tokio::test]
async fn a_run_that_needs_a_newer_binary_is_left_to_one() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    needs(&world, run, 99).await;
    assert_eq!(claimed(&world, run).await, None);
    needs(&world, run, 2).await;
    let lease = claimed(&world, run).await.expect("this one understands it").lease;
    // A newer binary had it, and died.
    needs(&world, run, 99).await;
    expire(&world, run, "-1 second").await;
    assert_eq!(reclaimed(&world, run).await, None);
    // What is stored says what it needs.
    needs(&world, run, 1).await;
    let lease = reclaimed(&world, run).await.map_or(lease, |claimed| claimed.lease);
    let at = world.now().await;
    let (seq, mut commit) =
        world.draft(lease, first_step(at, Vec::new()).into_iter().take(1).collect(), Release::Keep).await;
    commit.state.version = 7;
    let stored = world.engine.commit(lease, seq, commit, Uuid::now_v7()).await.expect("an answer");
    assert_eq!(stored, CommitOutcome::Stored);
    expire(&world, run, "-1 second").await;
    assert_eq!(reclaimed(&world, run).await, None, "it needs version 7 now");
}

#[tokio::test]
async fn a_clock_that_was_set_back_leaves_no_run_lying() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = claimed(&world, run).await.expect("due").lease;
    // As it looks when an hour was taken off the clock after the last renewal.
    expire(&world, run, "1 hour").await;
    assert_eq!(reclaimed(&world, run).await, None, "its server may live: it has a whole lease to say so");
    let until = "SELECT lease_until < now() + interval '2 minutes' FROM run_queue WHERE run_id = $1";
    let mended: bool =
        sqlx::query_scalar(until).bind(run.0).fetch_one(&mut world.superuser().await).await.expect("a row");
    assert!(mended);
    let held = world.engine.renew(world.server, &[lease], LONG).await.expect("an answer");
    assert!(held.renewed.contains(&lease), "nothing was taken from it");
}

async fn reclaimed(world: &World, run: RunId) -> Option<Claimed> {
    let all = world.engine.reclaim(Uuid::now_v7(), 100, LONG, &[]).await.expect("claims");
    all.into_iter().find(|claimed| claimed.lease.run_id == run)
}

async fn needs(world: &World, run: RunId, version: i16) {
    let query = sqlx::query("UPDATE run_queue SET needs = $2 WHERE run_id = $1").bind(run.0).bind(version);
    query.execute(&mut world.superuser().await).await.expect("changed");
}

/// Moves the end of the run's lease to that far from now.
async fn expire(world: &World, run: RunId, from_now: &str) {
    let query = sqlx::query("UPDATE run_queue SET lease_until = now() + $2::interval WHERE run_id = $1");
    query.bind(run.0).bind(from_now).execute(&mut world.superuser().await).await.expect("changed");
}

#[tokio::test]
async fn only_a_server_that_never_comes_back_has_died() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    assert_eq!(claimed(&world, run).await.expect("due").deaths, 0);
    // Its owner dies, and so does the next one; the third was only away.
    for (deaths, comes_back) in [(1, false), (2, false), (3, true), (3, false), (4, false)] {
        expire(&world, run, "-1 second").await;
        let owner: Uuid = sqlx::query_scalar("SELECT lease_owner FROM run_queue WHERE run_id = $1")
            .bind(run.0)
            .fetch_one(&mut world.superuser().await)
            .await
            .expect("an owner");
        let next = reclaimed(&world, run).await.expect("taken over");
        assert_eq!(next.deaths, deaths);
        if comes_back {
            world.engine.renew(owner, &[], LONG).await.expect("it is there again");
        }
    }
    // The last one is back as well: it counts no more when the run is claimed anew.
    let owner: Uuid = sqlx::query_scalar("SELECT suspect FROM run_queue WHERE run_id = $1")
        .bind(run.0)
        .fetch_one(&mut world.superuser().await)
        .await
        .expect("a suspect");
    world.engine.renew(owner, &[], LONG).await.expect("it is there again");
    let hand_back =
        "UPDATE run_queue SET lease_owner = NULL, lease_until = NULL, wake_at = now() WHERE run_id = $1";
    sqlx::query(hand_back).bind(run.0).execute(&mut world.superuser().await).await.expect("given back");
    assert_eq!(claimed(&world, run).await.expect("due").deaths, 3);
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_a_silent_servers_lease() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = claimed(&world, run).await.expect("due").lease;
    assert_eq!(reclaimed(&world, run).await, None);
    let mut tx = world.tx().await;
    assert!(tx.run_cancel(run, None).await.expect("an answer"));
    tx.commit().await.expect("committed");
    world.engine.renew(world.server, &[lease], LONG).await.expect("it lives");
    assert_eq!(reclaimed(&world, run).await, None, "its server will see to it");
    let silent = "UPDATE servers SET seen_at = now() - interval '2 seconds'";
    sqlx::query(silent).execute(&mut world.superuser().await).await.expect("changed");
    assert!(reclaimed(&world, run).await.is_some(), "its server doesn't");
}
