//! Where a tenant's day is limited, a model is asked with an allowance, and never without.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::budget::DayLimit;
use answerable_core::model::ModelRequest;
use answerable_core::run::{Event, StopReason};
use answerable_core::tool::{Attempt, Output};
use answerable_ports::Allowance;

use crate::desk::{Desk, Heard};

const LEASE: Duration = Duration::from_secs(5);

/// A desk that says this of the day.
fn desk(allowance: Allowance) -> Arc<Desk> {
    let desk = Desk::new();
    desk.now(|ways| {
        ways.answer = Some(Attempt::Succeeded(Output::plain("paid")));
        ways.allowance = Some(allowance);
    });
    desk
}

fn asked(desk: &Desk) -> Vec<ModelRequest> {
    let request = |heard| match heard {
        Heard::Asked(request) => Some(*request),
        _ => None,
    };
    desk.all().into_iter().filter_map(request).collect()
}

async fn asks(desk: &Desk, times: usize) {
    desk.until_heard(times, |heard| matches!(heard, Heard::AsksAllowance(_))).await;
}

fn events(desk: &Desk) -> Vec<Event> {
    desk.commits().into_iter().flat_map(|commit| commit.events).collect()
}

#[tokio::test]
async fn each_attempt_has_its_own_and_keeps_to_it() {
    let desk = desk(Allowance::Given(Some(7)));
    let engine = desk.start(LEASE);
    desk.ended().await;
    engine.drain().await;
    let caps: Vec<_> = asked(&desk).iter().map(|request| request.max_output_tokens).collect();
    assert_eq!(caps, [Some(7), Some(7)], "for the call, then for the answer");
    let wanted = |heard| match heard {
        Heard::AsksAllowance(wanted) => Some(wanted),
        _ => None,
    };
    let wanted: Vec<_> = desk.all().into_iter().filter_map(wanted).collect();
    assert_eq!(wanted.len(), 2);
    assert!(wanted[1].input_tokens > wanted[0].input_tokens && wanted[0].input_tokens > 0, "{wanted:?}");
    assert_eq!(wanted[0].output_microusd_per_mtok, None, "it has no price");
}

#[tokio::test]
async fn who_has_no_quota_asks_for_none() {
    let desk = Desk::new();
    desk.now(|ways| ways.answer = Some(Attempt::Succeeded(Output::plain("paid"))));
    let engine = desk.start(LEASE);
    desk.ended().await;
    engine.drain().await;
    assert!(!desk.all().iter().any(|heard| matches!(heard, Heard::AsksAllowance(_))));
}

#[tokio::test]
async fn who_waits_asks_again_and_loses_nothing() {
    let desk = desk(Allowance::Wait);
    let engine = desk.start(LEASE);
    asks(&desk, 3).await;
    assert_eq!(asked(&desk), []);
    desk.now(|ways| ways.allowance = Some(Allowance::Given(None)));
    let state = desk.ended().await;
    engine.drain().await;
    assert_eq!((state.used.steps, state.used.model_calls), (2, 2));
    assert!(!events(&desk).iter().any(|event| matches!(event, Event::ModelFailed { .. })));
}

#[tokio::test]
async fn a_day_that_is_used_up_ends_the_run_unasked() {
    let desk = desk(Allowance::UsedUp(DayLimit::Money, Duration::from_secs(9)));
    let engine = desk.start(LEASE);
    let end = desk.ended().await.end.expect("an end");
    engine.drain().await;
    assert_eq!((end.reason, end.code.as_str()), (StopReason::MaxCost, "quota_exceeded"));
    assert_eq!(asked(&desk), []);
}

#[tokio::test]
async fn who_waits_can_be_cancelled() {
    let desk = desk(Allowance::Wait);
    let engine = desk.start(LEASE);
    asks(&desk, 1).await;
    desk.cancel();
    let end = desk.ended().await.end.expect("an end");
    engine.drain().await;
    assert_eq!((end.reason, asked(&desk).len()), (StopReason::Cancelled, 0));
}

/// A server that stops doesn't wait for a tenant's day: the run is given back as it is.
#[tokio::test]
async fn who_waits_holds_no_server_up() {
    let desk = desk(Allowance::Wait);
    let engine = desk.start(LEASE);
    asks(&desk, 1).await;
    let began = std::time::Instant::now();
    engine.drain().await;
    desk.until_heard(1, |heard| matches!(heard, Heard::HandedBack(_))).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(asked(&desk), []);
}

/// A lease that is lost ends the wait; whoever has the run next asks by itself.
#[tokio::test]
async fn nobody_asks_a_model_for_a_run_that_is_anothers() {
    let desk = desk(Allowance::Lost);
    let engine = desk.start(LEASE);
    asks(&desk, 1).await;
    let lease = desk.lease(1);
    desk.now(|ways| ways.taken.extend([lease]));
    desk.until_heard(1, |heard| matches!(heard, Heard::LeaseLost)).await;
    engine.drain().await;
    assert_eq!(asked(&desk), []);
}
