//! What becomes of leases when others are at their rows, and of those that their server doesn't know of.

use std::time::{Duration, Instant};

use answerable_core::id::RunId;
use answerable_ports::commit::{CommitOutcome, Release};
use answerable_ports::{Lease, Room, RunStore, StoreError};
use sqlx::{Acquire as _, PgConnection};
use uuid::Uuid;

use crate::world::{World, first_step, room};

const LONG: Duration = Duration::from_secs(60);

async fn two(world: &World) -> [Lease; 2] {
    let mut leases = Vec::new();
    for _ in 0..2 {
        let run = world.start(|_| ()).await.expect("a run");
        leases.push(world.claim(run).await);
    }
    [leases[0], leases[1]]
}

/// Who has the run, whether it is urgent, and how far its lease goes, in seconds from now.
async fn place(world: &World, run: RunId) -> (Option<Uuid>, bool, Option<f64>) {
    let row = "SELECT lease_owner, urgent, extract(epoch FROM lease_until - now())::float8 FROM run_queue WHERE run_id = $1";
    sqlx::query_as(row).bind(run.0).fetch_one(&mut world.superuser().await).await.expect("a row")
}

async fn execute(connection: &mut PgConnection, query: &'static str, run: RunId) {
    sqlx::query(query).bind(run.0).execute(connection).await.expect("done");
}

/// A server that stands still within a transaction (a cancel, say) keeps its locks until the database gives up on it.
#[tokio::test]
async fn whoever_is_at_one_run_does_not_hold_up_the_leases_of_others() {
    let world = World::new().await;
    let [busy, free] = two(&world).await;
    let mut frozen = world.superuser().await;
    let mut tx = frozen.begin().await.expect("a transaction");
    execute(&mut tx, "UPDATE run_queue SET urgent = true WHERE run_id = $1", busy.run_id).await;
    let until = place(&world, busy.run_id).await.2;
    let span = Duration::from_secs(300);
    let both = [busy, free];
    let renewal = tokio::time::timeout(LONG, world.engine.renew(world.server, &both, span));
    let renewal = renewal.await.expect("at once").expect("an answer");
    assert!(renewal.renewed.contains(&free) && renewal.renewed.len() == 1, "{renewal:?}");
    assert!(renewal.lost.is_empty(), "whether it is lost nobody could see: {renewal:?}");
    assert!(place(&world, busy.run_id).await.2 <= until);
    assert!(place(&world, free.run_id).await.2 > Some(250.0));
    tx.rollback().await.expect("gone");
    let renewal = world.engine.renew(world.server, &both, span).await.expect("an answer");
    assert_eq!(renewal.renewed.len(), 2);
}

/// The same for its own word that it lives, which a renewal that was given up may still be at.
#[tokio::test]
async fn a_renewal_that_hangs_does_not_hold_up_the_next() {
    let world = World::new().await;
    let [one, _] = two(&world).await;
    world.engine.renew(world.server, &[one], LONG).await.expect("an answer");
    let mut frozen = world.superuser().await;
    let mut tx = frozen.begin().await.expect("a transaction");
    let own = "UPDATE servers SET seen_at = seen_at WHERE server_id = $1";
    execute(&mut tx, own, RunId(world.server)).await;
    let leases = [one];
    let renewal = tokio::time::timeout(LONG, world.engine.renew(world.server, &leases, LONG));
    assert!(renewal.await.expect("at once").expect("an answer").renewed.contains(&one));
}

#[tokio::test]
async fn of_two_leases_of_one_run_the_newest_is_renewed() {
    let world = World::new().await;
    let [new, other] = two(&world).await;
    let old = Lease { epoch: new.epoch - 1, ..new };
    let gone = Lease { run_id: RunId(Uuid::now_v7()), ..new };
    let renewal = world.engine.renew(world.server, &[old, new, gone], LONG).await.expect("an answer");
    assert_eq!(renewal.renewed, [new].into());
    assert_eq!(renewal.lost, [old, gone].into());
    let stranger = world.engine.renew(Uuid::now_v7(), &[other], LONG).await.expect("an answer");
    assert_eq!((stranger.renewed.len(), stranger.lost), (0, [other].into()));
}

#[tokio::test]
async fn what_a_server_has_unknowingly_is_put_back_and_counts_no_death() {
    let world = World::new().await;
    let [known, unknown] = two(&world).await;
    let ended = world.start(|_| ()).await.expect("a run");
    let ended = world.claim(ended).await;
    let at = world.now().await;
    let cancelled = vec![answerable_core::run::Event::CancelRequested { at, reason: None }];
    world.fold(ended, cancelled, Release::EndWithLateCalls).await;
    let mut tx = world.tx().await;
    assert!(tx.run_cancel(unknown.run_id, None).await.expect("an answer"));
    tx.commit().await.expect("committed");

    let other = Uuid::now_v7();
    assert_eq!(world.engine.put_back(other, &[]).await.expect("an answer"), 0, "it is somebody else's");
    let held = [known.run_id.0];
    assert_eq!(world.engine.put_back(world.server, &held).await.expect("an answer"), 1);
    assert_eq!(world.engine.put_back(world.server, &held).await.expect("an answer"), 0);
    assert_eq!(place(&world, known.run_id).await.0, Some(world.server));
    assert_eq!(place(&world, ended.run_id).await.0, Some(world.server), "late calls keep it");
    let (owner, urgent, _) = place(&world, unknown.run_id).await;
    assert_eq!((owner, urgent), (None, true), "its cancel is as urgent as before");
    // Whoever thought it had it can do nothing to the next owner.
    let taken =
        world.engine.claim(other, &Room { pressing: true, ..room(9) }, LONG).await.expect("claims").runs;
    assert!(
        matches!(&taken[..], [one] if one.lease.run_id == unknown.run_id && one.deaths == 0),
        "{taken:?}"
    );
    world.engine.hand_back(unknown, answerable_ports::Wake::Now, 0).await.expect("an answer");
    assert_eq!(place(&world, unknown.run_id).await.0, Some(other));
}

#[tokio::test]
async fn an_old_owner_that_repeats_its_commit_is_not_told_to_go_on() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let events = first_step(at, Vec::new()).into_iter().take(2).collect();
    let (seq, commit) = world.draft(lease, events, Release::Keep).await;
    let id = Uuid::now_v7();
    let send = || world.engine.commit(lease, seq, commit.clone(), id);
    assert_eq!(send().await.expect("an answer"), CommitOutcome::Stored);
    assert_eq!(send().await.expect("an answer"), CommitOutcome::Stored, "its answer was lost");
    let ran_out = "UPDATE run_queue SET lease_until = now() - interval '1 second' WHERE run_id = $1";
    execute(&mut world.superuser().await, ran_out, run).await;
    let taken = world.engine.reclaim(Uuid::now_v7(), 9, LONG, &[]).await.expect("claims");
    assert_eq!(taken.len(), 1);
    assert_eq!(send().await.expect("an answer"), CommitOutcome::LeaseLost);
}

#[tokio::test]
async fn a_claim_does_not_wait_for_ever_behind_one_that_stands_still() {
    let world = World::new().await;
    world.start(|_| ()).await.expect("a run");
    let mut frozen = world.superuser().await;
    let mut tx = frozen.begin().await.expect("a transaction");
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(0x616e_7377_636c_616d_i64)
        .execute(&mut *tx)
        .await
        .expect("locked");
    let began = Instant::now();
    let refused = world.engine.claim(world.server, &room(9), LONG).await;
    assert!(matches!(refused, Err(StoreError::Away(_))), "it may pass: {refused:?}");
    assert!(began.elapsed() < Duration::from_secs(5));
    tx.rollback().await.expect("gone");
    assert_eq!(world.engine.claim(world.server, &room(9), LONG).await.expect("claims").runs.len(), 1);
}
