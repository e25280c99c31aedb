//! A server that loses its lease, or may have: nothing more leaves, and what has left is not forgotten.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::ledger::{EntryStatus, Outcome};
use answerable_core::run::Record;
use answerable_core::tool::{Attempt, ErrorCode, Output};
use answerable_engine::Engine;
use answerable_ports::Claimed;
use answerable_ports::commit::Commit;

use crate::desk::{Commits, Desk, Heard, Renewals, is_out};

/// Two thirds of it are time enough for a renewal also on a busy machine.
const LEASE: Duration = Duration::from_millis(900);

fn done() -> Option<Attempt> {
    Some(Attempt::Succeeded(Output::plain("done")))
}

async fn lost(desk: &Desk) {
    desk.until_heard(1, |heard| matches!(heard, Heard::LeaseLost)).await;
}

/// A run whose call waits for its secrets.
async fn preparing(tool: &'static str) -> (Arc<Desk>, Engine) {
    let desk = Desk::new();
    desk.now(|ways| {
        ways.tool = tool;
        ways.gives_secrets = false;
    });
    let engine = desk.start(LEASE);
    desk.until_heard(1, |heard| matches!(heard, Heard::Prepares)).await;
    assert!(is_out(&desk.commits().pop().expect("the intent")), "it is written down as out");
    (desk, engine)
}

/// A run whose call is at the far side.
async fn open(tool: &'static str) -> (Arc<Desk>, Engine) {
    let desk = Desk::new();
    desk.now(|ways| ways.tool = tool);
    let engine = desk.start(LEASE);
    desk.sent().await;
    (desk, engine)
}

#[tokio::test]
async fn a_call_in_preparation_when_the_lease_is_lost_never_leaves() {
    for renewals in [Renewals::Refused, Renewals::Silent, Renewals::Busy] {
        for tool in ["pay", "file"] {
            let (desk, engine) = preparing(tool).await;
            desk.now(|ways| ways.renewals = renewals);
            lost(&desk).await;
            desk.until_heard(1, |heard| matches!(heard, Heard::PreparationDropped)).await;
            desk.now(|ways| ways.gives_secrets = true);
            engine.drain().await;
            assert_eq!(desk.sent_count(), 0, "{tool}, {renewals:?}");
        }
    }
}

#[tokio::test]
async fn that_a_plain_write_never_left_is_known() {
    let (desk, engine) = preparing("pay").await;
    desk.now(|ways| ways.renewals = Renewals::Refused);
    let late = desk.late().await;
    assert_eq!((late.attempts, late.outcome), (1, Outcome::failed(ErrorCode::Unavailable)));
    engine.drain().await;
    assert_eq!(desk.sent_count(), 0);
}

#[tokio::test]
async fn a_plain_write_that_has_left_is_let_finish_and_its_outcome_is_told() {
    let (desk, engine) = open("pay").await;
    let intents = desk.commits().len();
    desk.now(|ways| {
        ways.renewals = Renewals::Refused;
        ways.owner_spoke = false;
    });
    lost(&desk).await;
    desk.now(|ways| ways.answer = done());
    let late = desk.late().await;
    assert_eq!((late.attempts, late.outcome), (1, Outcome::succeeded(true)));
    assert_eq!(late.content.as_deref(), Some("done"));
    // Before the new owner has spoken it is too early: it is told again.
    desk.until_heard(2, |heard| matches!(heard, Heard::Late(_))).await;
    desk.now(|ways| ways.owner_spoke = true);
    desk.until_heard(3, |heard| matches!(heard, Heard::Late(_))).await;
    engine.drain().await;
    assert_eq!((desk.sent_count(), desk.commits().len()), (1, intents), "nothing else was begun or written");
    assert!(!desk.all().iter().any(|heard| matches!(heard, Heard::RequestDropped | Heard::HandedBack(_))));
}

#[tokio::test]
async fn an_idempotent_write_is_dropped() {
    let (desk, engine) = open("file").await;
    desk.now(|ways| ways.renewals = Renewals::Silent);
    lost(&desk).await;
    desk.until_heard(1, |heard| matches!(heard, Heard::RequestDropped)).await;
    engine.drain().await;
    assert!(!desk.all().iter().any(|heard| matches!(heard, Heard::Late(_))), "the next owner sends it again");
}

#[tokio::test]
async fn an_outcome_that_could_not_be_committed_in_time_is_told() {
    let (desk, engine) = open("pay").await;
    desk.now(|ways| {
        ways.commits = Commits::Away;
        ways.answer = done();
    });
    // It is in, and what it leads to is being committed, in vain.
    desk.until_heard(1, |heard| matches!(heard, Heard::CommitFailed)).await;
    desk.now(|ways| ways.renewals = Renewals::Silent);
    lost(&desk).await;
    let late = desk.late().await;
    assert_eq!((late.attempts, late.outcome), (1, Outcome::succeeded(true)));
    engine.drain().await;
    assert_eq!(desk.sent_count(), 1);
}

#[tokio::test]
async fn an_outcome_that_was_committed_is_not_told_again() {
    let (desk, engine) = open("pay").await;
    desk.now(|ways| {
        ways.concludes = false;
        ways.answer = done();
    });
    let is_closed = |commit: &Commit| commit.records.iter().any(|r| matches!(r, Record::LedgerClosed { .. }));
    desk.until_heard(1, |heard| matches!(heard, Heard::Commit(commit) if is_closed(commit))).await;
    desk.now(|ways| ways.renewals = Renewals::Refused);
    lost(&desk).await;
    engine.drain().await;
    assert!(!desk.all().iter().any(|heard| matches!(heard, Heard::Late(_))));
}

#[tokio::test]
async fn a_lost_lease_is_not_renewed() {
    // Given up because it could not be renewed, while a write is waited for.
    let (desk, engine) = open("pay").await;
    desk.now(|ways| ways.renewals = Renewals::Silent);
    lost(&desk).await;
    desk.now(|ways| ways.renewals = Renewals::Granted);
    for leases in desk.next_renewals(3).await.into_iter().skip(1) {
        assert!(leases.is_empty(), "{leases:?}");
    }
    desk.now(|ways| ways.answer = done());
    desk.late().await;
    engine.drain().await;
}

#[tokio::test]
async fn a_run_that_can_not_be_written_is_not_kept() {
    let (desk, engine) = open("pay").await;
    desk.now(|ways| {
        ways.owner_spoke = false;
        ways.commits = Commits::Broken;
        ways.answer = done();
    });
    lost(&desk).await;
    // Its server still has something to tell, and nobody works on the run: another must be able to have it.
    assert_eq!(desk.late().await.outcome, Outcome::succeeded(true));
    for leases in desk.next_renewals(3).await.into_iter().skip(1) {
        assert!(leases.is_empty(), "{leases:?}");
    }
    desk.now(|ways| ways.owner_spoke = true);
    engine.drain().await;
}

/// A server that stood still may claim a run anew before it has heard that it lost it.
#[tokio::test]
async fn a_lease_is_not_renewed_by_a_newer_one_of_the_same_run() {
    let (desk, engine) = preparing("pay").await;
    let (old, new) = (desk.lease(1), desk.lease(3));
    desk.claims.lock().expect("no panic").push(Claimed { lease: new, deaths: 0, may_start: true });
    desk.until_heard(1, |heard| matches!(heard, Heard::Loaded(lease) if *lease == new)).await;
    desk.now(|ways| ways.taken.extend([old]));
    desk.until_heard(1, |heard| matches!(heard, Heard::PreparationDropped)).await;
    desk.now(|ways| {
        ways.gives_secrets = true;
        ways.answer = done();
    });
    desk.ended().await;
    engine.drain().await;
    assert_eq!(desk.sent_count(), 1, "the newer one's");
}

#[tokio::test]
async fn a_cancelled_runs_call_that_has_not_left_never_leaves() {
    for tool in ["pay", "file"] {
        let (desk, engine) = preparing(tool).await;
        desk.cancel();
        let late = desk.late().await;
        assert_eq!((late.attempts, late.outcome), (1, Outcome::failed(ErrorCode::Cancelled)), "{tool}");
        desk.until_heard(1, |heard| matches!(heard, Heard::PreparationDropped)).await;
        desk.until_heard(1, |heard| matches!(heard, Heard::Settled)).await;
        desk.now(|ways| ways.gives_secrets = true);
        engine.drain().await;
        assert_eq!(desk.sent_count(), 0, "{tool}");
        assert!(!desk.all().iter().any(|heard| matches!(heard, Heard::CalledOff)), "{tool}");
    }
}

/// Nobody sends an ended run's call again, so nobody else will learn what became of it.
#[tokio::test]
async fn a_cancelled_runs_write_is_let_finish_also_after_the_lease() {
    for tool in ["pay", "file"] {
        let (desk, engine) = open(tool).await;
        desk.cancel();
        desk.ended().await;
        desk.until_heard(1, |heard| matches!(heard, Heard::CalledOff)).await;
        desk.now(|ways| ways.renewals = Renewals::Silent);
        lost(&desk).await;
        desk.now(|ways| ways.answer = done());
        let late = desk.late().await;
        assert_eq!(late.outcome.status, EntryStatus::Succeeded, "{tool}");
        engine.drain().await;
        assert!(!desk.all().iter().any(|heard| matches!(heard, Heard::RequestDropped)), "{tool}");
    }
}
