//! What people approved waits: for its turn, for a server, or beside a cancel.

use std::sync::Arc;

use answerable_core::Millis;
use answerable_core::agent::Risk;
use answerable_core::id::{ApprovalId, GrantId};
use answerable_core::permission::{Grant, OnDeny};
use answerable_core::run::{ApprovalRow, Event, Record, RunState, StopReason};
use answerable_core::tool::{Attempt, Output};
use answerable_engine::Engine;
use answerable_ports::Claimed;
use answerable_ports::commit::{Commit, DecisionWord, Inbound, InboundBody};
use answerable_ports::store::{Decider, Rules};
use serde_json::json;

use crate::desk::{Desk, Heard};
use crate::judging::{allow, ask, began, decisions, deny, fenced, records, start};

const HOUR: Millis = 3_600_000;

/// People are asked about two calls, the second of which waits for the first.
async fn asked_twice() -> (Arc<Desk>, Engine, [ApprovalRow; 2]) {
    let (desk, engine) = start(|ways| (ways.twice, ways.rules) = (true, Some(ask(1, 1, &[]))));
    let [first, second] = rows(&desk, 2).await.try_into().expect("two");
    (desk, engine, [first, second])
}

/// The approvals that people are asked for, once there are so many.
async fn rows(desk: &Desk, count: usize) -> Vec<ApprovalRow> {
    desk.until(|all| {
        let commits = all.iter().filter_map(|heard| match heard {
            Heard::Commit(commit) => Some(commit),
            _ => None,
        });
        let rows = commits.flat_map(|commit| &commit.records).filter_map(|record| match record {
            Record::ApprovalOpened(row) => Some((**row).clone()),
            _ => None,
        });
        Some(rows.collect::<Vec<_>>()).filter(|rows| rows.len() >= count)
    })
    .await
}

/// They asked for one who approves, and ann did.
fn by_ann(number: i64, given: &[&ApprovalRow], until: Option<Millis>) -> Rules {
    let mut rules = ask(number, 1, &[]);
    for row in given {
        rules.deciders.insert(row.id, vec![Decider { by: "user:ann".into(), until }]);
    }
    rules
}

fn decided(row: &ApprovalRow, decision: DecisionWord, at: Option<Millis>) -> InboundBody {
    InboundBody::Decided {
        approval_id: row.id,
        call_id: row.call.expect("a call"),
        decision,
        input: None,
        content: (decision == DecisionWord::Answer).then(|| "by hand".into()),
        reason: None,
        by: "user:ann".into(),
        at,
    }
}

fn approve(row: &ApprovalRow) -> InboundBody {
    decided(row, DecisionWord::Approve, None)
}

/// This came in for a parked run, whose inputs are known or not; a server claims it under these rules.
fn comes_in(desk: &Desk, bodies: Vec<InboundBody>, rules: Rules, is_known: bool) {
    let state = desk.commits().pop().expect("a commit").state;
    let mut run = desk.run.lock().expect("no panic");
    let inputs = state.calls.iter().filter(|_| is_known).map(|call| (call.id, json!({})));
    run.inputs = inputs.collect();
    run.state = state;
    run.inbox = (1..).zip(bodies).map(|(number, body)| Inbound { number, body }).collect();
    run.known_inbox = i64::try_from(run.inbox.len()).expect("few");
    drop(run);
    desk.now(|ways| ways.rules = Some(rules));
    let claimed = Claimed { lease: desk.lease(2), deaths: 0, may_start: true };
    desk.claims.lock().expect("no panic").push(claimed);
}

/// Waits until the second call was approved and waits for the first.
async fn second_is_held(desk: &Desk) -> RunState {
    desk.until(|all| {
        all.iter().find_map(|heard| match heard {
            Heard::Commit(commit)
                if commit.state.calls.get(1).is_some_and(|call| call.approved.is_some()) =>
            {
                Some(commit.state.clone())
            }
            _ => None,
        })
    })
    .await
}

fn later(desk: &Desk, ms: Millis) {
    desk.clock.heard(desk.clock.now() + ms, std::time::Instant::now());
}

/// Approvals that are void, in their order.
fn void(desk: &Desk) -> Vec<ApprovalId> {
    let void = |record| match record {
        Record::ApprovalVoid { approval_id, .. } => Some(approval_id),
        _ => None,
    };
    records(desk).into_iter().filter_map(void).collect()
}

fn times_rise(commit: &Commit) -> bool {
    commit.events.is_sorted_by_key(Event::at)
}

#[tokio::test]
async fn a_key_that_expires_while_its_approval_waits_lets_nothing_begin() {
    let (desk, engine, [first, second]) = asked_twice().await;
    let until = Some(desk.clock.now() + 60_000);
    comes_in(&desk, vec![approve(&second)], by_ann(1, &[&second], until), true);
    let held = second_is_held(&desk).await;
    assert_eq!(held.calls[1].allowed_until, until);
    later(&desk, 61_000);
    // The database's clock may be a little behind: the key is good there still.
    let mut rules = by_ann(1, &[&first], None);
    rules.deciders.extend(by_ann(1, &[&second], until).deciders);
    comes_in(&desk, vec![approve(&first)], rules, true);
    let again = rows(&desk, 3).await;
    engine.drain().await;
    assert_eq!((fenced(&desk), desk.sent_count(), void(&desk)), (1, 1, vec![second.id]));
    assert_eq!(again[2].call, second.call);
    assert!(desk.commits().iter().all(times_rise));
}

#[tokio::test]
async fn a_key_that_has_expired_does_not_count_when_its_approval_is_heard_of() {
    let (desk, engine, [first, _]) = asked_twice().await;
    let until = Some(desk.clock.now() - 1);
    comes_in(&desk, vec![approve(&first)], by_ann(1, &[&first], until), true);
    let again = rows(&desk, 3).await;
    engine.drain().await;
    assert_eq!((desk.sent_count(), void(&desk), again[2].call), (0, vec![first.id], first.call));
}

#[tokio::test]
async fn an_approval_that_waited_for_days_for_a_server_is_not_used() {
    for (given, sent) in [(Some(25 * HOUR), 0), (Some(HOUR / 2), 1), (None, 1)] {
        let (desk, engine) = start(|ways| ways.rules = Some(ask(1, 1, &[])));
        let row = rows(&desk, 1).await.remove(0);
        later(&desk, 25 * HOUR);
        let at = given.map(|ago| desk.clock.now() - ago);
        comes_in(&desk, vec![decided(&row, DecisionWord::Approve, at)], by_ann(1, &[&row], None), true);
        let state = desk.ended().await;
        engine.drain().await;
        assert_eq!((desk.sent_count(), began(&desk).len()), (sent, sent), "{given:?}");
        let denied: Vec<&str> = state.denied.iter().map(|denied| denied.decided_by.as_str()).collect();
        assert_eq!(denied, vec!["expiry"; 1 - sent]);
        assert_eq!(void(&desk), vec![row.id; 1 - sent]);
    }
}

/// What was over when a call would have begun stays over, though the clock says by now that it isn't. Wherever the clock is set,
/// the journal's times rise.
#[tokio::test]
async fn a_clock_that_is_set_back_brings_back_nothing() {
    for set_by in [-61_000, 61_000] {
        let grant = Grant {
            id: GrantId(uuid::Uuid::now_v7()),
            tool_name: "pay".into(),
            input_hash: None,
            expires_at: Some(chrono::Utc::now().timestamp_millis() + 60_000),
            deciders: vec!["user:ann".into()],
            max_risk: Risk::High,
        };
        let (desk, engine) = start(|ways| {
            (ways.twice, ways.answer) = (true, None);
            ways.rules = Some(Rules { grants: vec![grant], ..ask(1, 1, &[]) });
        });
        desk.sent().await;
        later(&desk, 61_000);
        desk.now(|ways| {
            ways.clock_when_fenced = Some(desk.clock.now() + set_by);
            ways.answer = Some(Attempt::Succeeded(Output::plain("done")));
        });
        rows(&desk, 1).await;
        engine.drain().await;
        assert_eq!((fenced(&desk), desk.sent_count()), (1, 1));
        assert!(desk.commits().iter().all(times_rise));
    }
}

#[tokio::test]
async fn a_cancel_comes_before_what_the_rules_of_now_deny() {
    let (desk, engine, [first, second]) = asked_twice().await;
    comes_in(&desk, vec![approve(&second)], by_ann(1, &[&second], None), true);
    second_is_held(&desk).await;
    let mut stop = deny(2);
    stop.tenant_policy.iter_mut().for_each(|(_, policy)| policy.on_deny = Some(OnDeny::Stop));
    let cancel = InboundBody::Cancel { reason: None };
    comes_in(&desk, vec![decided(&first, DecisionWord::Deny, None), cancel], stop, true);
    let end = desk.ended().await.end.expect("an end");
    engine.drain().await;
    assert_eq!((end.reason, fenced(&desk), desk.sent_count()), (StopReason::Cancelled, 1, 0));
    assert_eq!((began(&desk), void(&desk)), (Vec::new(), vec![second.id]));
}

#[tokio::test]
async fn what_was_approved_when_the_run_was_cancelled_is_void() {
    let (desk, engine, [first, second]) = asked_twice().await;
    let cancel = InboundBody::Cancel { reason: None };
    let bodies = vec![approve(&second), cancel, approve(&first)];
    comes_in(&desk, bodies, by_ann(1, &[&first, &second], None), true);
    let end = desk.ended().await.end.expect("an end");
    engine.drain().await;
    assert_eq!((end.reason, desk.sent_count()), (StopReason::Cancelled, 0));
    assert_eq!(void(&desk), [second.id, first.id]);
}

#[tokio::test]
async fn a_call_whose_input_is_not_known_does_not_run() {
    let unknown = "the input isn't known";
    // Neither when it is approved,
    let (desk, engine, [first, second]) = asked_twice().await;
    comes_in(&desk, vec![approve(&first), approve(&second)], allow(1), false);
    desk.ended().await;
    engine.drain().await;
    assert_eq!((desk.sent_count(), began(&desk)), (0, Vec::new()));
    assert_eq!(
        decisions(&desk).pop().expect("a decision").reason,
        format!("denied before in this run: {unknown}")
    );
    // nor when what was approved is judged again.
    let (desk, engine, [first, second]) = asked_twice().await;
    comes_in(&desk, vec![approve(&second)], by_ann(1, &[&second], None), true);
    second_is_held(&desk).await;
    comes_in(&desk, vec![decided(&first, DecisionWord::Answer, None)], allow(2), false);
    desk.ended().await;
    engine.drain().await;
    assert_eq!((fenced(&desk), desk.sent_count(), began(&desk)), (1, 0, Vec::new()));
    assert!(decisions(&desk).iter().any(|decision| decision.reason == unknown));
}
