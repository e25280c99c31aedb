//! Calls of a tool that has limits: what of them waits for its turn has not left, whoever has the run.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::ledger::Outcome;
use answerable_core::run::StopReason;
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_engine::Engine;
use answerable_ports::{Claimed, Placed};
use serde_json::json;

use crate::desk::{Commits, Desk, Heard, is_out};

const LEASE: Duration = Duration::from_millis(900);

/// A run that calls a tool with limits, and what it is told of its turn.
fn asking(place: Option<Placed>) -> Arc<Desk> {
    let desk = Desk::new();
    desk.now(|ways| {
        ways.tool = "queue";
        ways.place = place;
    });
    desk
}

/// A run whose call has had its turn and is being prepared.
async fn in_preparation() -> (Arc<Desk>, Engine) {
    let desk = asking(Some(Placed::Taken));
    desk.now(|ways| {
        ways.gives_secrets = false;
        ways.frees_take = Duration::from_millis(300);
    });
    let engine = desk.start(LEASE);
    desk.until_heard(1, |heard| matches!(heard, Heard::Prepares)).await;
    (desk, engine)
}

/// The run's next owner takes what it finds, which is written down as out.
fn claimed_anew(desk: &Desk) {
    let state = desk.commits().pop().expect("the intent").state;
    let claimed = Claimed { lease: desk.lease(2), deaths: 1, may_start: true };
    let mut run = desk.run.lock().expect("no panic");
    run.inputs = state.calls.iter().map(|call| (call.id, json!({}))).collect();
    run.state = state;
    drop(run);
    desk.claims.lock().expect("no panic").push(claimed);
}

/// The next owner finds that it has not left and sends the same attempt: what comes of it is not the first one's to say.
#[tokio::test]
async fn nothing_is_owed_of_a_turn_that_did_not_come() {
    let desk = asking(Some(Placed::Wait(Duration::from_millis(50))));
    let engine = desk.start(LEASE);
    desk.until_heard(1, |heard| matches!(heard, Heard::AsksPlace)).await;
    desk.now(|ways| ways.commits = Commits::Away);
    desk.until_heard(1, |heard| matches!(heard, Heard::CommitFailed)).await;
    desk.now(|ways| ways.taken.extend([desk.lease(1)]));
    desk.until_heard(1, |heard| matches!(heard, Heard::LeaseLost)).await;
    desk.now(|ways| {
        ways.commits = Commits::Stored;
        ways.place = Some(Placed::Taken);
        ways.answer = Some(Attempt::Unclear(ErrorCode::Timeout, "the line was cut".into()));
    });
    claimed_anew(&desk);
    let state = desk.ended().await;
    engine.drain().await;
    assert_eq!(state.end.map(|end| end.reason), Some(StopReason::SideEffectUncertain));
    assert_eq!((desk.sent_count(), desk.closed()), (1, vec![Outcome::uncertain()]));
    let told = desk.all().into_iter().find(|heard| matches!(heard, Heard::Late(_)));
    assert!(told.is_none(), "{told:?}");
}

#[tokio::test]
async fn a_server_that_stops_gives_the_place_back_before_the_run() {
    let (desk, engine) = in_preparation().await;
    engine.drain().await;
    let heard = desk.all();
    let freed = heard.iter().position(|heard| matches!(heard, Heard::Freed { left: false }));
    let handed_back = heard.iter().position(|heard| matches!(heard, Heard::HandedBack(_)));
    assert!(freed.is_some() && freed < handed_back, "given back {freed:?}, handed back {handed_back:?}");
    assert_eq!(desk.sent_count(), 0);
}

#[tokio::test]
async fn a_server_does_not_go_before_its_places_are_given_back() {
    let (desk, engine) = in_preparation().await;
    desk.now(|ways| ways.taken.extend([desk.lease(1)]));
    desk.until_heard(1, |heard| matches!(heard, Heard::LeaseLost)).await;
    engine.drain().await;
    assert!(desk.all().iter().any(|heard| matches!(heard, Heard::Freed { left: false })));
}

/// Each question holds a connection to the database.
#[tokio::test]
async fn one_question_at_a_time_about_a_tools_places() {
    let desk = asking(None);
    let newer = Claimed { lease: desk.lease(2), deaths: 0, may_start: true };
    desk.claims.lock().expect("no panic").push(newer);
    let engine = desk.start(Duration::from_secs(5));
    desk.until_heard(2, |heard| matches!(heard, Heard::Commit(commit) if is_out(commit))).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let asked = desk.all().iter().filter(|heard| matches!(heard, Heard::AsksPlace)).count();
    assert_eq!(asked, 1, "two wait");
    desk.now(|ways| ways.place = Some(Placed::Taken));
    desk.until_heard(2, |heard| matches!(heard, Heard::Sent)).await;
    desk.now(|ways| ways.answer = Some(Attempt::NotDone(ErrorCode::Unavailable, "closed".into(), None)));
    engine.drain().await;
}
