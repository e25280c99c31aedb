//! Places among a tool's calls: as many as its limits let out, in the order in which they were asked for.

use std::time::Duration;

use answerable_core::agent::RateSpec;
use answerable_core::id::CallId;
use answerable_core::ledger::Outcome;
use answerable_ports::commit::Release;
use answerable_ports::{Lease, PlaceTaken, PlaceWanted, Placed, RunStore};
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

async fn ask(world: &World, (lease, wanted): &(Lease, PlaceWanted)) -> Placed {
    world.engine.take_place(*lease, wanted).await.expect("an answer")
}

async fn free(world: &World, (lease, wanted): &(Lease, PlaceWanted), left: bool) {
    world.engine.free_place(*lease, &wanted.tool_name, wanted.call_id, left).await.expect("an answer");
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
    let taken = |(_, wanted): &(Lease, PlaceWanted)| PlaceTaken {
        tool_name: wanted.tool_name.clone(),
        call_id: wanted.call_id,
        attempt: 1,
    };
    assert_eq!(world.engine.places(a.0).await.expect("places"), [taken(&a)]);
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
    let old = out(&world).await;
    assert!(waits({
        let first = out(&world).await;
        assert_eq!(ask(&world, &first).await, Placed::Taken);
        ask(&world, &old).await
    }));
    let new = (Lease { epoch: old.0.epoch + 1, ..old.0 }, old.1.clone());
    assert!(waits(ask(&world, &new).await), "with the place in line that the call had");
    assert_eq!(ask(&world, &old).await, Placed::Lost);
    free(&world, &old, false).await;
    let kept = "SELECT epoch FROM tool_places WHERE left_at IS NULL";
    let epoch: i64 = sqlx::query_scalar(kept).fetch_one(&mut world.superuser().await).await.expect("a row");
    assert_eq!(epoch, new.0.epoch);
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
