use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::otlp::wire::Taken;
use opentelemetry_proto::tonic::trace::v1::Span as ProtoSpan;

type Answer = Result<Taken, NotTaken>;

/// A collector that answers by a rule, and remembers what it was asked.
struct Scripted<F> {
    rule: F,
    asked: Mutex<Vec<Vec<i64>>>,
}

impl<F: Fn(&[i64]) -> Answer + Send + Sync> Scripted<F> {
    fn new(rule: F) -> Self {
        Self { rule, asked: Mutex::default() }
    }

    fn asked(&self) -> Vec<Vec<i64>> {
        self.asked.lock().expect("a lock").clone()
    }

    async fn deliver(&self, parcels: Vec<Parcel>) -> Delivered {
        deliver(self, parcels, Instant::now() + Duration::from_secs(10)).await
    }
}

impl<F: Fn(&[i64]) -> Answer + Send + Sync> Sink for Scripted<F> {
    async fn send(&self, parcels: &[Parcel]) -> Answer {
        let asked = numbers(parcels);
        self.asked.lock().expect("a lock").push(asked.clone());
        (self.rule)(&asked)
    }
}

fn parcel(number: i64, spans: usize, bytes: usize) -> Parcel {
    Parcel { number, spans: vec![ProtoSpan::default(); spans], bytes }
}

fn parcels(count: i64) -> Vec<Parcel> {
    (1..=count).map(|number| parcel(number, 2, 1000)).collect()
}

fn ok() -> Answer {
    Ok(Taken::default())
}

fn refused() -> Answer {
    Err(NotTaken::Refused("no such thing".into()))
}

fn sorted(numbers: &[i64]) -> BTreeSet<i64> {
    numbers.iter().copied().collect()
}

#[tokio::test]
async fn many_commits_go_in_one_request() {
    let collector = Scripted::new(|_: &[i64]| ok());
    let delivered = collector.deliver(parcels(100)).await;
    assert_eq!(collector.asked().len(), 1);
    let expected = Delivered { arrived: (1..=100).collect(), exported: 200, ..Delivered::default() };
    assert_eq!(delivered, expected);
}

#[tokio::test]
async fn a_request_has_a_size() {
    let collector = Scripted::new(|_: &[i64]| ok());
    let sizes = [1 << 20, 1 << 20, 1, 5 << 20, 10];
    let all = (1..).zip(sizes).map(|(number, bytes)| parcel(number, 1, bytes)).collect();
    assert_eq!(collector.deliver(all).await.exported, 5);
    assert_eq!(collector.asked(), [vec![1, 2], vec![3], vec![4], vec![5]]);
}

#[tokio::test]
async fn commits_without_spans_need_no_request() {
    let collector = Scripted::new(|_: &[i64]| ok());
    let delivered = collector.deliver(vec![parcel(1, 0, 0), parcel(2, 0, 0)]).await;
    assert_eq!((delivered.arrived, collector.asked().len()), (vec![1, 2], 0));
}

#[tokio::test]
async fn only_the_batch_that_is_refused_alone_is_dropped() {
    for bad in 1..=17 {
        let collector =
            Scripted::new(move |asked: &[i64]| if asked.contains(&bad) { refused() } else { ok() });
        let delivered = collector.deliver(parcels(17)).await;
        assert_eq!(delivered.refused, [bad]);
        assert_eq!(sorted(&delivered.arrived), (1..=17).filter(|number| *number != bad).collect());
        assert_eq!((delivered.exported, delivered.dropped), (32, 2));
        assert_eq!((delivered.left.len(), delivered.trouble), (0, None));
        assert_eq!(delivered.remark.as_deref(), Some("no such thing"));
        assert!(collector.asked().len() <= 12, "{bad}: {:?}", collector.asked());
    }
}

#[tokio::test]
async fn several_are_found_and_nothing_is_sent_twice_that_was_taken() {
    let bad = [3, 4, 9, 16];
    let collector =
        Scripted::new(
            move |asked: &[i64]| {
                if asked.iter().any(|number| bad.contains(number)) { refused() } else { ok() }
            },
        );
    let delivered = collector.deliver(parcels(16)).await;
    assert_eq!(sorted(&delivered.refused), sorted(&bad));
    let good: Vec<i64> = (1..=16).filter(|number| !bad.contains(number)).collect();
    assert_eq!(sorted(&delivered.arrived), sorted(&good));
    let taken =
        collector.asked().into_iter().filter(|asked| !asked.iter().any(|number| bad.contains(number)));
    assert_eq!(taken.flatten().count(), good.len());
}

#[tokio::test]
async fn a_collector_that_refuses_everything_costs_no_span() {
    for count in [1, 2, 500] {
        let collector = Scripted::new(|_: &[i64]| refused());
        let delivered = collector.deliver(parcels(count)).await;
        assert_eq!(sorted(&delivered.left), (1..=count).collect());
        assert_eq!((delivered.arrived.len(), delivered.refused.len(), delivered.dropped), (0, 0, 0));
        assert_eq!(delivered.trouble, Some(Trouble { why: "no such thing".into(), after: None }));
        assert!(collector.asked().len() <= 32, "{}", collector.asked().len());
    }
}

#[tokio::test]
async fn whoever_is_away_is_not_asked_again_at_once() {
    let pause = Some(Duration::from_secs(9));
    let collector = Scripted::new(|asked: &[i64]| {
        if asked.contains(&1) { ok() } else { Err(NotTaken::NotNow { why: "away".into(), after: pause }) }
    });
    let all = (1..=4).map(|number| parcel(number, 1, 2 << 20)).collect();
    let delivered = collector.deliver(all).await;
    assert_eq!((delivered.arrived, delivered.left), (vec![1], vec![2, 3, 4]));
    assert_eq!(delivered.trouble, Some(Trouble { why: "away".into(), after: pause }));
    assert_eq!(collector.asked(), [vec![1], vec![2]]);
}

#[tokio::test]
async fn what_was_refused_before_the_collector_went_away_is_not_dropped_for_that() {
    let collector = Scripted::new(|asked: &[i64]| match asked {
        [1] | [_, _] => refused(),
        _ => Err(NotTaken::not_now("away")),
    });
    let delivered = collector.deliver(parcels(2)).await;
    assert_eq!(sorted(&delivered.left), sorted(&[1, 2]));
    assert_eq!((delivered.refused.len(), delivered.dropped), (0, 0));
    assert_eq!(delivered.trouble.map(|trouble| trouble.why).as_deref(), Some("away"));
}

#[tokio::test]
async fn a_part_that_is_rejected_is_counted_and_not_sent_again() {
    let collector = Scripted::new(|_: &[i64]| Ok(Taken { rejected: 3, message: "too old".into() }));
    let delivered = collector.deliver(parcels(5)).await;
    assert_eq!((delivered.exported, delivered.dropped, delivered.arrived.len()), (7, 3, 5));
    assert_eq!((delivered.remark.as_deref(), collector.asked().len()), (Some("too old"), 1));
}

#[tokio::test]
async fn no_request_begins_when_it_is_late() {
    let collector = Scripted::new(|_: &[i64]| ok());
    let delivered = deliver(&collector, parcels(3), Instant::now()).await;
    assert_eq!((delivered.left, delivered.trouble), (vec![1, 2, 3], None));
    assert_eq!(collector.asked().len(), 0);
}
