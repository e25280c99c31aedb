//! Collectors that are away, slow, choosy or wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use answerable_telemetry::otlp::Pace;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use crate::outbox::batch;
use crate::receiver::{Answer, spans_of};
use crate::world::{PACE, World, target};

/// HTTP's status and gRPC's code for the same.
const UNAVAILABLE: [u16; 2] = [503, 14];
const BAD_REQUEST: [u16; 2] = [400, 3];
const TOO_LARGE: [u16; 2] = [413, 8];
const UNAUTHENTICATED: [u16; 2] = [401, 16];

fn of(both: [u16; 2], grpc: bool) -> u16 {
    both[usize::from(grpc)]
}

fn ids(spans: &[Span]) -> BTreeSet<Vec<u8>> {
    spans.iter().map(|span| span.span_id.clone()).collect()
}

#[tokio::test]
async fn what_a_collector_misses_it_gets_when_it_returns_byte_for_byte() {
    for grpc in [false, true] {
        let world = World::new(grpc, (1..=5).map(batch).collect()).await;
        world.receiver.answers(move |_| Answer::Status(of(UNAVAILABLE, grpc), None));
        let task = world.export(&target(&world.receiver, grpc), PACE);
        world.receiver.until(2).await;
        assert_eq!(world.outbox.waiting().len(), 5);
        world.receiver.answers(|_| Answer::Ok);
        world.outbox.until(0).await;
        let got = world.receiver.got();
        assert!(got.iter().all(|again| again.body == got[0].body), "each try is the same");
        assert_eq!(ids(&world.receiver.spans()).len(), 10);
        assert_eq!(world.measured("answerable_trace_exported_total"), Some(10.0));
        let failures = world.measured("answerable_trace_export_failures_total").expect("counted");
        assert_eq!(failures, (got.len() - 1) as f64);
        assert_eq!(world.measured(r#"answerable_trace_dropped_total{reason="refused"}"#), Some(0.0));
        world.stop.cancel();
        task.await.expect("it ends");
    }
}

#[tokio::test]
async fn nobody_is_there_at_first() {
    let world = World::new(false, vec![batch(1)]).await;
    let mut nowhere = target(&world.receiver, false);
    // Nothing listens at the port of a listener that is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    nowhere.endpoint.set_port(Some(gone.port())).expect("a port");
    let task = world.export(&nowhere, PACE);
    while world.measured("answerable_trace_export_failures_total") == Some(0.0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.stop.cancel();
    task.await.expect("it ends");
    assert_eq!(world.outbox.waiting(), [(1, false)], "it waits for whoever comes next");
}

#[tokio::test]
async fn a_slow_collector_has_its_time_and_no_more() {
    for grpc in [false, true] {
        let world = World::new(grpc, vec![batch(1)]).await;
        world.receiver.answers(|_| Answer::Nothing);
        let task = world.export(&target(&world.receiver, grpc), PACE);
        world.receiver.until(1).await;
        world.receiver.answers(|_| Answer::Ok);
        world.outbox.until(0).await;
        assert_eq!(world.receiver.got().len(), 2);
        world.stop.cancel();
        task.await.expect("it ends");
    }
}

#[tokio::test]
async fn a_batch_that_is_refused_for_good_stops_nobody() {
    for grpc in [false, true] {
        for status in [BAD_REQUEST, TOO_LARGE] {
            let world = World::new(grpc, (1..=20).map(batch).collect()).await;
            let bad = |span: &Span| span.span_id[6] == 0 && span.span_id[7] >> 4 == 5;
            world.receiver.answers(move |spans| match spans.iter().any(bad) {
                true => Answer::Status(of(status, grpc), None),
                false => Answer::Ok,
            });
            let task = world.export(&target(&world.receiver, grpc), PACE);
            world.outbox.until(0).await;
            world.stop.cancel();
            task.await.expect("it ends");
            let spans = world.receiver.spans();
            assert_eq!((spans.len(), ids(&spans).len()), (38, 38), "all others, once");
            assert_eq!(world.measured("answerable_trace_exported_total"), Some(38.0));
            assert_eq!(world.measured(r#"answerable_trace_dropped_total{reason="refused"}"#), Some(2.0));
        }
    }
}

#[tokio::test]
async fn a_wrong_key_costs_no_span() {
    for grpc in [false, true] {
        let world = World::new(grpc, (1..=4).map(batch).collect()).await;
        world.receiver.answers(move |_| Answer::Status(of(UNAUTHENTICATED, grpc), None));
        let task = world.export(&target(&world.receiver, grpc), PACE);
        world.receiver.until(1).await;
        world.receiver.answers(|_| Answer::Ok);
        world.outbox.until(0).await;
        assert_eq!(world.receiver.spans().len(), 8);
        world.stop.cancel();
        task.await.expect("it ends");
    }
}

#[tokio::test]
async fn a_part_that_is_rejected_is_not_sent_again() {
    for grpc in [false, true] {
        let world = World::new(grpc, (1..=4).map(batch).collect()).await;
        world.receiver.answers(|_| Answer::Partly(3, "too old"));
        let task = world.export(&target(&world.receiver, grpc), PACE);
        world.outbox.until(0).await;
        world.stop.cancel();
        task.await.expect("it ends");
        assert_eq!(world.receiver.got().len(), 1);
        assert_eq!(world.measured("answerable_trace_exported_total"), Some(5.0));
        assert_eq!(world.measured(r#"answerable_trace_dropped_total{reason="refused"}"#), Some(3.0));
    }
}

#[tokio::test]
async fn a_pause_that_is_asked_for_is_kept() {
    let world = World::new(false, vec![batch(1)]).await;
    world.receiver.answers(|_| Answer::Status(429, Some("2")));
    let task = world.export(&target(&world.receiver, false), PACE);
    world.receiver.until(1).await;
    let asked = std::time::Instant::now();
    world.receiver.until(2).await;
    assert!(asked.elapsed() >= Duration::from_millis(1900), "{:?}", asked.elapsed());
    world.stop.cancel();
    task.await.expect("it ends");
}

#[tokio::test]
async fn full_batches_go_on_at_once() {
    let world = World::new(false, (1..=64).map(batch).collect()).await;
    let pace = Pace { every: Duration::from_secs(3600), batch: 8, backlog: 1000 };
    let task = world.export(&target(&world.receiver, false), pace);
    world.outbox.until(0).await;
    assert_eq!(world.receiver.got().len(), 8);
    assert!(world.receiver.got().iter().all(|got| spans_of(&got.body).len() == 16));
    world.stop.cancel();
    task.await.expect("it ends");
}

#[tokio::test]
async fn the_backlog_is_bounded_and_counted() {
    let world = World::new(false, (1..=30).map(batch).collect()).await;
    world.receiver.answers(|_| Answer::Status(503, None));
    let pace = Pace { backlog: 12, ..PACE };
    let task = world.export(&target(&world.receiver, false), pace);
    world.receiver.until(1).await;
    world.outbox.until(12).await;
    assert_eq!(world.outbox.trimmed_to(), [12]);
    assert_eq!(world.measured(r#"answerable_trace_dropped_total{reason="backlog"}"#), Some(18.0));
    assert_eq!(world.measured("answerable_trace_backlog"), Some(12.0));
    assert_eq!(world.measured("answerable_trace_backlog_age_seconds"), Some(1.5));
    world.stop.cancel();
    task.await.expect("it ends");
}

#[tokio::test]
async fn large_spans_are_spread_over_requests() {
    let large = |number| {
        let mut batch = batch(number);
        let text = serde_json::Value::String("x".repeat(700_000));
        batch.spans[0].attributes.insert("answerable.input".into(), text);
        batch
    };
    let world = World::new(false, (1..=6).map(large).collect()).await;
    let task = world.export(&target(&world.receiver, false), PACE);
    world.outbox.until(0).await;
    let sizes: Vec<usize> = world.receiver.got().iter().map(|got| got.body.len()).collect();
    assert!(sizes.len() == 3 && sizes.iter().all(|size| *size < 4 << 20), "{sizes:?}");
    assert_eq!(world.receiver.spans().iter().map(Span::encoded_len).filter(|len| *len > 700_000).count(), 6);
    world.stop.cancel();
    task.await.expect("it ends");
}
