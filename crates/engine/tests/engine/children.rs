//! Runs that others called: their ends are facts, whatever else happens to whoever called them.

use std::time::Duration;

use answerable_core::budget::Used;
use answerable_core::id::CallId;
use answerable_core::ledger::{Effect, EntryStatus, Outcome};
use answerable_core::run::{Record, RunState, Stage, Status, StopReason};
use answerable_core::tool::ErrorCode;
use answerable_ports::commit::{Inbound, InboundBody, Release};

use crate::desk::{Desk, Heard};
use crate::shelf::UNSTORABLE;

const LEASE: Duration = Duration::from_secs(5);

/// A run that waits for the one that its call of this tool began.
async fn waiting(tool: &'static str) -> (RunState, CallId) {
    let desk = Desk::new();
    desk.now(|ways| ways.tool = tool);
    let engine = desk.start(LEASE);
    let waits = |heard: &Heard| match heard {
        Heard::Commit(commit) => {
            Some(commit.state.clone()).filter(|state| state.status == Status::WaitingTool)
        }
        _ => None,
    };
    let state = desk.until(|all| all.iter().find_map(waits)).await;
    engine.drain().await;
    assert!(matches!(state.calls[0].stage, Stage::Child { .. }));
    let call = state.calls[0].id;
    (state, call)
}

fn end(call_id: CallId, reason: StopReason, effect: Effect, content: &str) -> InboundBody {
    let (status, content, used) = (reason.status(), content.into(), Used::default());
    InboundBody::ChildEnded { call_id, status, reason, content, used, ran_ms: 5, effect }
}

/// What is committed of the run's end, once all this came in at once.
async fn ended(state: RunState, inbox: Vec<InboundBody>) -> (RunState, Vec<Outcome>) {
    let count = i64::try_from(inbox.len()).expect("a few");
    let inbox = (1..).zip(inbox).map(|(number, body)| Inbound { number, body }).collect();
    let desk = Desk::with(state, inbox, 0);
    let engine = desk.start(LEASE);
    let state = desk.ended().await;
    engine.drain().await;
    let last = desk.commits().pop().expect("the end");
    assert_eq!(last.consumed, (1..=count).collect::<Vec<_>>());
    assert_eq!(last.release, Release::End, "nothing is left to be told");
    let told = last.records.iter().any(|record| matches!(record, Record::CallResult { .. }));
    assert!(told, "every call has a result");
    (state, desk.closed())
}

#[tokio::test]
async fn an_end_that_comes_with_a_cancel_is_in_the_ledger() {
    let failed = |effect, code| Outcome { status: EntryStatus::Failed, effect, error_code: Some(code) };
    let over = failed(Effect::Committed, ErrorCode::BudgetExhausted);
    // (its tool, how the child ended, what it changed, what the entry says)
    for (tool, reason, effect, outcome) in [
        ("ask", StopReason::FinalAnswer, Effect::Committed, Outcome::succeeded(true)),
        ("ask", StopReason::MaxSteps, Effect::Committed, over),
        ("ask", StopReason::Cancelled, Effect::None, failed(Effect::None, ErrorCode::Cancelled)),
        ("ask", StopReason::Timeout, Effect::Possible, Outcome::uncertain()),
        ("look", StopReason::FinalAnswer, Effect::None, Outcome::succeeded(false)),
        ("look", StopReason::FinalAnswer, Effect::Committed, Outcome::succeeded(true)),
        ("look", StopReason::MaxSteps, Effect::Committed, over),
        ("look", StopReason::Timeout, Effect::Possible, Outcome::uncertain()),
    ] {
        let (state, call) = waiting(tool).await;
        let cancel = InboundBody::Cancel { reason: None };
        let (state, closed) = ended(state, vec![cancel, end(call, reason, effect, "seven")]).await;
        assert_eq!(
            (state.status, closed),
            (Status::Cancelled, vec![outcome]),
            "{tool} {reason:?} {effect:?}"
        );
    }
}

#[tokio::test]
async fn an_end_whose_words_can_not_be_stored_is_in_the_ledger() {
    let (state, call) = waiting("ask").await;
    let end = end(call, StopReason::FinalAnswer, Effect::Committed, UNSTORABLE);
    let (state, closed) = ended(state, vec![end]).await;
    assert_eq!(state.end.map(|end| end.reason), Some(StopReason::InternalError));
    assert_eq!(closed, [Outcome::succeeded(true)]);
}

#[tokio::test]
async fn a_server_that_goes_does_not_wait_for_its_look_at_what_is_untold() {
    let desk = Desk::new();
    desk.now(|ways| ways.sweeps = false);
    let engine = desk.start(LEASE);
    desk.until_heard(1, |heard| matches!(heard, Heard::Sweeps)).await;
    // The look itself would have half a minute.
    tokio::time::timeout(Duration::from_secs(10), engine.drain()).await.expect("it goes");
}
