//! Places among a tool's calls: as many as its limits let out, in the order in which they were asked for.

use std::time::Duration;

use answerable_core::agent::RateSpec;
use answerable_core::id::CallId;
use answerable_core::ledger::Outcome;
use answerable_ports::commit::Release;
use answerable_ports::{Lease, PlaceTaken, PlaceWanted, Placed, RunStore, StoreError};
use serde_json::json;

use crate::world::{World, first_step, late, new_call};

/// A call of `mail` that is written down as out.
async fn out(world: &World) -> (Lease, PlaceWanted) {
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let call = new_call(&world.registry(), "mail", &json!({}), at);
    let wanted = wanted(call.id);
    world.fold(lease, first_step(at, vec![call]), Release::Park { wake_at: None }).await;
    (lease, wanted)
}

fn wanted(call_id: CallId) -> PlaceWanted {
    PlaceWanted {
        tool_name: "mail".into(),
        call_id,
        attempt: 1,
        max_concurrent: Some(1),
        rate: None,
        hold: Duration::from_secs(60),
    }
}

fn taken(wanted: &PlaceWanted) -> PlaceTaken {
    PlaceTaken { tool_name: wanted.tool_name.clone(), call_id: wanted.call_id, attempt: wanted.attempt }
}

async fn ask(world: &World, (lease, wanted): &(Lease, PlaceWanted)) -> Placed {
    world.engine.take_place(*lease, wanted).await.expect("an answer")
}

async fn free(world: &World, (lease, wanted): &(Lease, PlaceWanted), left: bool) {
    world.engine.free_place(*lease, &taken(wanted), left).await.expect("an answer");
}

fn waits(placed: Placed) -> bool {
    matches!(placed, Placed::Wait(pause) if pause <= Duration::from_secs(5))
}

#[tokio::test]
async fn who_came_first_is_served_first() {
    let world = World::new().await;
    let (a, b, c) = (out(&world).await, out(&world).await, out(&world).await);
    assert_eq!(ask(&world, &a).await, Placed::Taken);
    assert_eq!(ask(&world, &a).await, Placed::Taken, "asked twice, because the answer was lost");
    assert!(waits(ask(&world, &b).await) && waits(ask(&world, &c).await));
    free(&world, &a, true).await;
    assert!(waits(ask(&world, &c).await), "another was there before");
    assert_eq!(ask(&world, &b).await, Placed::Taken);
    free(&world, &b, false).await;
    assert_eq!(ask(&world, &c).await, Placed::Taken);
    // It was used, and that stays written down; what was not is forgotten.
    assert_eq!(world.engine.places(a.0).await.expect("places"), [taken(&a.1)]);
    assert_eq!(world.engine.places(b.0).await.expect("places"), []);
}

#[tokio::test]
async fn a_call_whose_outcome_is_known_has_no_place() {
    let world = World::new().await;
    let (a, b) = (out(&world).await, out(&world).await);
    assert_eq!(ask(&world, &a).await, Placed::Taken);
    assert!(waits(ask(&world, &b).await));
    // Its server never gave it back.
    world.cut(a.0.run_id, a.1.call_id).await;
    world.engine.late_outcome(a.0, &late(a.1.call_id, Outcome::succeeded(true), None)).await.expect("told");
    assert_eq!(ask(&world, &b).await, Placed::Taken);
    assert_eq!(world.engine.places(a.0).await.expect("places"), []);
}

#[tokio::test]
async fn a_server_that_lost_the_run_takes_nothing_and_gives_nothing_back() {
    let world = World::new().await;
    let (first, old) = (out(&world).await, out(&world).await);
    assert_eq!(ask(&world, &first).await, Placed::Taken);
    assert!(waits(ask(&world, &old).await));
    world.wake(old.0.run_id).await;
    let new = (world.claim(old.0.run_id).await, old.1.clone());
    // Nobody else has asked since, and the place is free.
    free(&world, &first, true).await;
    assert_eq!(ask(&world, &old).await, Placed::Lost);
    let line = "SELECT epoch FROM tool_places WHERE left_at IS NULL";
    let epoch: i64 = sqlx::query_scalar(line).fetch_one(&mut world.superuser().await).await.expect("a row");
    assert_eq!((epoch, new.0.epoch), (old.0.epoch, old.0.epoch + 1), "its place in line is kept");
    let third = out(&world).await;
    assert!(waits(ask(&world, &third).await), "for who took the run over");
    assert_eq!(ask(&world, &new).await, Placed::Taken);
    free(&world, &old, false).await;
    assert!(waits(ask(&world, &third).await));
}

/// A far side may be asked twice what became of one call.
#[tokio::test]
async fn what_was_given_back_is_asked_for_anew() {
    let world = World::new().await;
    let (a, b) = (out(&world).await, out(&world).await);
    assert_eq!(ask(&world, &a).await, Placed::Taken);
    free(&world, &a, true).await;
    assert_eq!(ask(&world, &b).await, Placed::Taken);
    assert!(waits(ask(&world, &a).await));
    free(&world, &b, true).await;
    assert_eq!(ask(&world, &a).await, Placed::Taken);
}

/// Without that an attempt that has left would be taken for one that hasn't.
#[tokio::test]
async fn an_attempt_that_is_given_back_late_leaves_the_next_ones_place() {
    let world = World::new().await;
    let (first, other) = (out(&world).await, out(&world).await);
    let second = (first.0, PlaceWanted { attempt: 2, ..first.1.clone() });
    assert!(waits({
        assert_eq!(ask(&world, &other).await, Placed::Taken);
        ask(&world, &first).await
    }));
    free(&world, &other, true).await;
    assert_eq!(ask(&world, &second).await, Placed::Taken);
    for left in [false, true] {
        free(&world, &first, left).await;
        assert_eq!(world.engine.places(first.0).await.expect("places"), [taken(&second.1)]);
        assert!(waits(ask(&world, &other).await), "it is out");
    }
}

/// As another agent's tool of that name.
async fn under(world: &World, max_concurrent: Option<u32>, rate: Option<RateSpec>) -> (Lease, PlaceWanted) {
    let (lease, wanted) = out(world).await;
    (lease, PlaceWanted { max_concurrent, rate, ..wanted })
}

#[tokio::test]
async fn who_waits_for_a_tighter_limit_is_in_nobodys_way() {
    let world = World::new().await;
    let first = under(&world, Some(1), None).await;
    assert_eq!(ask(&world, &first).await, Placed::Taken);
    for _ in 0..3 {
        assert!(waits(ask(&world, &under(&world, Some(1), None).await).await));
    }
    let (wide, next) = (under(&world, Some(2), None).await, under(&world, Some(2), None).await);
    assert_eq!(ask(&world, &wide).await, Placed::Taken, "one is out, and two may be");
    assert!(waits(ask(&world, &next).await));
    // Of the three that were there before, one may go now.
    free(&world, &first, true).await;
    free(&world, &wide, true).await;
    assert_eq!(ask(&world, &next).await, Placed::Taken);
}

#[tokio::test]
async fn who_waits_for_a_slower_rate_is_in_nobodys_way() {
    let world = World::new().await;
    let (slow, fast) = (RateSpec { calls: 1, per_ms: 60_000 }, RateSpec { calls: 3, per_ms: 60_000 });
    assert_eq!(ask(&world, &under(&world, None, Some(slow)).await).await, Placed::Taken);
    for _ in 0..4 {
        assert!(waits(ask(&world, &under(&world, None, Some(slow)).await).await));
    }
    for _ in 0..2 {
        assert_eq!(ask(&world, &under(&world, None, Some(fast)).await).await, Placed::Taken);
    }
    assert!(waits(ask(&world, &under(&world, None, Some(fast)).await).await), "three have begun");
}

/// Whoever asks holds one of few connections.
#[tokio::test]
async fn who_asks_does_not_wait_long_for_others_who_ask() {
    let world = World::new().await;
    let a = out(&world).await;
    assert_eq!(ask(&world, &a).await, Placed::Taken);
    let mut other = world.superuser().await;
    sqlx::raw_sql("BEGIN; SELECT FROM tool_limits FOR UPDATE").execute(&mut other).await.expect("locked");
    let began = std::time::Instant::now();
    let (lease, wanted) = &a;
    let asked = world.engine.take_place(*lease, wanted).await;
    assert!(matches!(asked, Err(StoreError::Away(_))), "to be asked again: {asked:?}");
    let freed = world.engine.free_place(*lease, &taken(wanted), true).await;
    assert!(matches!(freed, Err(StoreError::Away(_))), "{freed:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    sqlx::raw_sql("COMMIT").execute(&mut other).await.expect("let go");
    assert_eq!(ask(&world, &a).await, Placed::Taken);
}

#[tokio::test]
async fn a_tool_that_is_forgotten_meanwhile_is_known_anew() {
    let world = World::new().await;
    let (a, b) = (out(&world).await, out(&world).await);
    assert_eq!(ask(&world, &a).await, Placed::Taken);
    free(&world, &a, true).await;
    let mut sweep = world.superuser().await;
    sqlx::raw_sql("BEGIN; DELETE FROM tool_limits").execute(&mut sweep).await.expect("deleted");
    let sweeping = async {
        let blocked = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        while sqlx::query_scalar(blocked).fetch_one(&mut world.superuser().await).await.ok() != Some(true) {}
        sqlx::raw_sql("COMMIT").execute(&mut sweep).await.expect("swept");
    };
    let asking = async {
        loop {
            match world.engine.take_place(b.0, &b.1).await {
                Err(StoreError::Away(_)) => {}
                placed => return placed.expect("an answer"),
            }
        }
    };
    let (placed, ()) = tokio::join!(asking, sweeping);
    assert_eq!(placed, Placed::Taken);
    let known = "SELECT count(*) FROM tool_limits";
    let known: i64 =
        sqlx::query_scalar(known).fetch_one(&mut world.superuser().await).await.expect("a count");
    assert_eq!(known, 1, "there is a row to lock");
    assert!(waits(ask(&world, &a).await));
}

#[tokio::test]
async fn no_more_begin_in_any_span_than_may() {
    let world = World::new().await;
    let rate = Some(RateSpec { calls: 2, per_ms: 400 });
    let mut calls = Vec::new();
    for _ in 0..4 {
        let (lease, wanted) = out(&world).await;
        calls.push((lease, PlaceWanted { max_concurrent: None, rate, ..wanted }));
    }
    let began = std::time::Instant::now();
    for call in &calls {
        while let Placed::Wait(pause) = ask(&world, call).await {
            tokio::time::sleep(pause).await;
        }
    }
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    let spans = "SELECT min(later.at - b.at) >= interval '400 ms' FROM tool_begun b
         JOIN tool_begun later ON later.tool_name = b.tool_name AND later.number = b.number + 1";
    let far: bool = sqlx::query_scalar(spans).fetch_one(&mut world.superuser().await).await.unwrap_or(false);
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM tool_begun")
        .fetch_one(&mut world.superuser().await)
        .await
        .expect("a count");
    assert_eq!((far, kept), (false, 2), "two begin together, and no more is kept than is looked back on");
}
