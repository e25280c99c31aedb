//! What came in for a run while its server was dead.

use std::time::Duration;

use answerable_core::permission::Policy;
use answerable_core::run::{ApprovalRow, Record, StopReason};
use answerable_core::tool::{Attempt, Output};
use answerable_ports::commit::{DecisionWord, Inbound, InboundBody};
use answerable_ports::store::{Decider, Rules};
use serde_json::json;

use crate::desk::{Desk, Heard};

const LEASE: Duration = Duration::from_millis(900);

fn asking() -> Rules {
    let policy: Policy =
        serde_json::from_value(json!({"rules": [{"tool": "pay", "effect": "ask"}]})).expect("a policy");
    Rules { number: 1, tenant_policy: Some((1, policy)), ..Rules::default() }
}

fn asked(all: &[Heard]) -> Option<ApprovalRow> {
    let records = all.iter().filter_map(|heard| match heard {
        Heard::Commit(commit) => Some(&commit.records),
        _ => None,
    });
    records.flatten().find_map(|record| match record {
        Record::ApprovalOpened(row) => Some((**row).clone()),
        _ => None,
    })
}

fn approved(row: &ApprovalRow) -> Inbound {
    let body = InboundBody::Decided {
        approval_id: row.id,
        call_id: row.call.expect("a call"),
        decision: DecisionWord::Approve,
        input: None,
        content: None,
        reason: None,
        by: "user:ann".into(),
        at: None,
    };
    Inbound { number: 1, body }
}

/// What is found out is unclear; what begins with what was found in the inbox is not.
#[tokio::test]
async fn a_call_that_was_approved_meanwhile_is_sent_and_not_uncertain() {
    let dead = Desk::new();
    dead.now(|ways| ways.rules = Some(asking()));
    let engine = dead.start(LEASE);
    let row = dead.until(asked).await;
    engine.drain().await;
    let state = dead.commits().pop().expect("what asks").state;
    let inputs = state.calls.iter().map(|call| (call.id, json!({}))).collect();

    let desk = Desk::with(state, vec![approved(&row)], 1);
    desk.run.lock().expect("no panic").inputs = inputs;
    desk.now(|ways| {
        let mut rules = asking();
        rules.deciders.insert(row.id, vec![Decider { by: "user:ann".into(), until: None }]);
        ways.rules = Some(rules);
        ways.answer = Some(Attempt::Succeeded(Output::plain("done")));
    });
    let engine = desk.start(LEASE);
    let state = desk.ended().await;
    engine.drain().await;
    assert_eq!(state.end.map(|end| end.reason), Some(StopReason::FinalAnswer));
    assert_eq!((desk.sent_count(), desk.closed().len()), (1, 1));
    let begun =
        |record: &Record| matches!(record, Record::LedgerOpened(opened) if opened.approval == Some(row.id));
    assert_eq!(
        desk.commits().iter().flat_map(|commit| &commit.records).filter(|record| begun(record)).count(),
        1
    );
}
