//! A store that refuses, and a run whose server died: no write is sent twice or forgotten.

use std::time::Duration;

use answerable_core::ledger::{EntryStatus, Outcome};
use answerable_core::run::{Status, StopReason};
use answerable_core::tool::{Attempt, Output};
use answerable_ports::commit::{Inbound, InboundBody, Release};

use crate::desk::{Desk, Heard};
use crate::shelf::UNSTORABLE;

const LEASE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_write_whose_answer_can_not_be_stored_is_not_sent_again() {
    let desk = Desk::new();
    desk.now(|ways| ways.answer = Some(Attempt::Succeeded(Output::plain(UNSTORABLE))));
    let engine = desk.start(LEASE);
    let state = desk.ended().await;
    engine.drain().await;
    assert_eq!(desk.sent_count(), 1);
    assert_eq!(state.end.map(|end| end.reason), Some(StopReason::InternalError));
    assert_eq!(desk.closed(), [Outcome::succeeded(true)], "that it happened is known");
}

#[tokio::test]
async fn a_cancel_of_a_run_whose_server_died_leaves_no_open_entry() {
    // As far as the call being out.
    let first = Desk::new();
    let engine = first.start(LEASE);
    first.sent().await;
    let state = first.commits().pop().expect("the intent").state;
    engine.drain().await;
    let cancel = Inbound { number: 1, body: InboundBody::Cancel { reason: None } };
    let desk = Desk::with(state, vec![cancel], 1);
    let engine = desk.start(LEASE);
    assert_eq!(desk.ended().await.status, Status::Cancelled);
    desk.until_heard(1, |heard| matches!(heard, Heard::Settled)).await;
    engine.drain().await;
    assert_eq!(desk.sent_count(), 0);
    let last = desk.commits().pop().expect("the end");
    assert_eq!(last.release, Release::EndWithLateCalls);
    assert!(!desk.closed().iter().any(|outcome| outcome.status == EntryStatus::Failed));
}
