//! Rules that change between a verdict and the call: what has not begun is judged by those of that moment.

use std::sync::Arc;
use std::time::Duration;

use answerable_core::id::ApprovalId;
use answerable_core::permission::Policy;
use answerable_core::run::{ApprovalRow, Decision, LedgerRow, Record};
use answerable_core::tool::{Attempt, Output};
use answerable_engine::Engine;
use answerable_ports::Claimed;
use answerable_ports::commit::{Commit, DecisionWord, Inbound, InboundBody};
use answerable_ports::store::{Decider, Rules};
use serde_json::{Value, json};

use crate::desk::{Desk, Heard, Ways};

const LEASE: Duration = Duration::from_millis(900);

/// Rules of this number, with one rule of the tenant's about every tool.
pub(crate) fn rules(number: i64, rule: Value) -> Rules {
    let policy: Policy = serde_json::from_value(json!({"rules": [rule]})).expect("a policy");
    Rules { number, tenant_policy: Some((1, policy)), ..Rules::default() }
}

pub(crate) fn allow(number: i64) -> Rules {
    rules(number, json!({"effect": "allow"}))
}

pub(crate) fn deny(number: i64) -> Rules {
    rules(number, json!({"effect": "deny", "reason": "not today"}))
}

/// They ask for so many, and these have approved.
pub(crate) fn ask(number: i64, approvals: u32, deciders: &[(ApprovalId, &str)]) -> Rules {
    let mut rules = rules(number, json!({"effect": "ask", "approvals": approvals}));
    for (approval, by) in deciders {
        let decider = Decider { by: (*by).to_owned(), until: None };
        rules.deciders.entry(*approval).or_default().push(decider);
    }
    rules
}

pub(crate) fn start(change: impl FnOnce(&mut Ways)) -> (Arc<Desk>, Engine) {
    let desk = Desk::new();
    desk.now(|ways| {
        ways.answer = Some(Attempt::Succeeded(Output::plain("done")));
        change(ways);
    });
    let engine = desk.start(LEASE);
    (desk, engine)
}

pub(crate) fn records(desk: &Desk) -> Vec<Record> {
    desk.commits().into_iter().flat_map(|commit| commit.records).collect()
}

pub(crate) fn began(desk: &Desk) -> Vec<LedgerRow> {
    let row = |record| match record {
        Record::LedgerOpened(row) => Some(*row),
        _ => None,
    };
    records(desk).into_iter().filter_map(row).collect()
}

pub(crate) fn decisions(desk: &Desk) -> Vec<Decision> {
    let decision = |record| match record {
        Record::CallDecided { decision, .. } => Some(decision),
        _ => None,
    };
    records(desk).into_iter().filter_map(decision).collect()
}

fn asked(commit: &Commit) -> Option<ApprovalRow> {
    commit.records.iter().find_map(|record| match record {
        Record::ApprovalOpened(row) => Some((**row).clone()),
        _ => None,
    })
}

pub(crate) fn fenced(desk: &Desk) -> usize {
    desk.all().iter().filter(|heard| matches!(heard, Heard::Fenced)).count()
}

/// Waits until people are asked for the `nth` time.
async fn until_asked(desk: &Desk, nth: usize) -> ApprovalRow {
    let rows = |all: &[Heard]| -> Vec<ApprovalRow> {
        let row = |heard: &Heard| match heard {
            Heard::Commit(commit) => asked(commit),
            _ => None,
        };
        all.iter().filter_map(row).collect()
    };
    desk.until(|all| rows(all).into_iter().nth(nth - 1)).await
}

/// Somebody approves what a parked run asks; a server claims it again, and these are the rules then.
async fn approve(desk: &Desk, row: &ApprovalRow, now: Rules, next: Vec<Rules>) {
    let state = desk.commits().pop().expect("what asks").state;
    let decided = InboundBody::Decided {
        approval_id: row.id,
        call_id: row.call.expect("a call"),
        decision: DecisionWord::Approve,
        input: None,
        content: None,
        reason: None,
        by: "user:ann".into(),
        at: None,
    };
    let mut run = desk.run.lock().expect("no panic");
    run.inputs = state.calls.iter().map(|call| (call.id, json!({}))).collect();
    run.state = state;
    run.inbox = vec![Inbound { number: 1, body: decided }];
    run.known_inbox = 1;
    drop(run);
    desk.now(|ways| {
        ways.rules = Some(now);
        ways.next_rules = next.into();
    });
    let claimed = Claimed { lease: desk.lease(2), deaths: 0, may_start: true };
    desk.claims.lock().expect("no panic").push(claimed);
}

#[tokio::test]
async fn a_call_that_is_denied_by_now_never_leaves() {
    let (desk, engine) = start(|ways| ways.next_rules = [deny(1)].into());
    desk.ended().await;
    engine.drain().await;
    assert_eq!((fenced(&desk), desk.sent_count(), began(&desk)), (1, 0, Vec::new()));
    let decided = decisions(&desk);
    let [decision] = decided.as_slice() else { panic!("{decided:?}") };
    assert_eq!(decision.reason, "not today");
}

#[tokio::test]
async fn a_call_that_is_allowed_still_leaves_once() {
    let (desk, engine) = start(|ways| ways.next_rules = [allow(1), allow(2), allow(3)].into());
    desk.ended().await;
    engine.drain().await;
    assert_eq!((fenced(&desk), desk.sent_count()), (3, 1));
    let numbers: Vec<i64> = began(&desk).iter().map(|row| row.rules).collect();
    assert_eq!(numbers, [3], "under the rules of that moment");
}

#[tokio::test]
async fn a_call_that_needs_people_by_now_waits_for_them() {
    let (desk, engine) = start(|ways| ways.next_rules = [ask(1, 2, &[])].into());
    let row = until_asked(&desk, 1).await;
    engine.drain().await;
    assert_eq!((row.required, desk.sent_count(), began(&desk)), (2, 0, Vec::new()));
}

#[tokio::test]
async fn an_approval_is_judged_again_when_it_is_used() {
    let (desk, engine) = start(|ways| ways.rules = Some(ask(1, 1, &[])));
    let row = until_asked(&desk, 1).await;
    let ann = [(row.id, "user:ann")];
    // Before the commit, rules come that it meets, too.
    approve(&desk, &row, ask(1, 1, &ann), vec![ask(2, 1, &ann)]).await;
    desk.ended().await;
    engine.drain().await;
    assert_eq!((fenced(&desk), desk.sent_count()), (1, 1));
    let began = began(&desk);
    assert_eq!(began.iter().map(|row| (row.rules, row.approval)).collect::<Vec<_>>(), [(2, Some(row.id))]);
}

#[tokio::test]
async fn an_approval_that_is_not_enough_by_now_is_void_and_people_are_asked_anew() {
    // A rule that asks for two; a decider who is gone.
    for (approvals, gone) in [(2, false), (1, true)] {
        let (desk, engine) = start(|ways| ways.rules = Some(ask(1, 1, &[])));
        let row = until_asked(&desk, 1).await;
        let ann = [(row.id, "user:ann")];
        let left = if gone { &ann[..0] } else { &ann[..] };
        approve(&desk, &row, ask(1, 1, &ann), vec![ask(2, approvals, left)]).await;
        let again = until_asked(&desk, 2).await;
        engine.drain().await;
        assert_ne!(again.id, row.id);
        assert_eq!((again.required, fenced(&desk), desk.sent_count()), (approvals, 1, 0));
        let void = |record: &Record| matches!(record, Record::ApprovalVoid { approval_id, .. } if *approval_id == row.id);
        assert_eq!(
            (records(&desk).iter().filter(|record| void(record)).count(), began(&desk)),
            (1, Vec::new())
        );
    }
}

#[tokio::test]
async fn a_call_that_waits_for_its_turn_is_judged_by_the_rules_of_its_turn() {
    let (desk, engine) = start(|ways| (ways.twice, ways.answer) = (true, None));
    desk.sent().await;
    desk.now(|ways| {
        ways.rules = Some(deny(1));
        ways.answer = Some(Attempt::Succeeded(Output::plain("done")));
    });
    desk.ended().await;
    engine.drain().await;
    assert_eq!((fenced(&desk), desk.sent_count(), began(&desk).len()), (1, 1, 1));
    assert_eq!(decisions(&desk).pop().expect("a decision").reason, "not today");
}

#[tokio::test]
async fn what_can_not_be_judged_does_not_run() {
    let nonsense = rules(0, json!({"effect": "allow", "input": {"type": "nonsense"}}));
    for broken in [None, Some(nonsense)] {
        let (desk, engine) = start(|ways| ways.rules = broken);
        desk.ended().await;
        engine.drain().await;
        assert_eq!((desk.sent_count(), began(&desk)), (0, Vec::new()));
        assert_eq!(decisions(&desk).pop().expect("a decision").reason, "a policy can't be judged");
    }
}
