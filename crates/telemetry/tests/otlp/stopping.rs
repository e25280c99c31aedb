//! The end of the server, and a database that is away.

use std::time::{Duration, Instant};

use answerable_telemetry::otlp::Pace;

use crate::outbox::batch;
use crate::receiver::Answer;
use crate::world::{PACE, World, target};

#[tokio::test]
async fn what_is_there_at_the_end_still_leaves() {
    let world = World::new(true, Vec::new()).await;
    let pace = Pace { every: Duration::from_secs(3600), ..PACE };
    let task = world.export(&target(&world.receiver, true), pace);
    // The first look found nothing; what comes now is for the last one.
    while world.outbox.trimmed_to().is_empty() {
        tokio::task::yield_now().await;
    }
    world.outbox.add((1..=20).map(batch).collect());
    world.stop.cancel();
    task.await.expect("it ends");
    assert_eq!(world.outbox.waiting(), []);
    assert_eq!(world.receiver.spans().len(), 40);
}

#[tokio::test]
async fn the_end_waits_two_seconds_for_a_collector_and_gives_back_what_it_holds() {
    for grpc in [false, true] {
        let world = World::new(grpc, (1..=3).map(batch).collect()).await;
        world.receiver.answers(|_| Answer::Nothing);
        let mut patient = target(&world.receiver, grpc);
        patient.timeout = Duration::from_secs(30);
        let task = world.export(&patient, PACE);
        world.receiver.until(1).await;
        assert_eq!(world.outbox.waiting(), [(1, true), (2, true), (3, true)]);
        let stopped = Instant::now();
        world.stop.cancel();
        task.await.expect("it ends");
        assert!((1900..10_000).contains(&stopped.elapsed().as_millis()), "{:?}", stopped.elapsed());
        assert_eq!(world.outbox.waiting(), [(1, false), (2, false), (3, false)]);
    }
}

#[tokio::test]
async fn a_database_that_is_away_is_asked_again() {
    let world = World::new(false, vec![batch(1)]).await;
    world.outbox.goes_away(true);
    let task = world.export(&target(&world.receiver, false), PACE);
    while world.measured("answerable_trace_export_failures_total") == Some(0.0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.outbox.goes_away(false);
    world.outbox.until(0).await;
    assert_eq!(world.receiver.spans().len(), 2);
    world.stop.cancel();
    task.await.expect("it ends");
}
