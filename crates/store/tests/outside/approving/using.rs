//! What is approved is what runs: one call, with the very input that was approved, once.

use answerable_core::id::{ApprovalId, LedgerId};
use answerable_core::json::input_hash;
use answerable_core::run::{LedgerRow, Record};
use answerable_ports::StoreError;
use answerable_ports::commit::CommitOutcome;
use futures::future::join_all;
use serde_json::json;
use uuid::Uuid;

use super::{approve, asked, asks, begun_by, edit, fetched, store, tamper};
use crate::hand::{Drafted, Hand, begun, put_policy};
use crate::world::World;

async fn refused(drafted: &Drafted, hand: &Hand<'_>, what: &str) {
    match drafted.send(hand.world).await {
        Err(StoreError::Broken(why)) => assert!(why.contains("an approval that doesn't allow it"), "{why}"),
        other => panic!("{what}: {other:?}"),
    }
    assert_eq!(begun_by(hand).await, [], "{what}");
}

fn rows(drafted: &mut Drafted) -> Vec<&mut LedgerRow> {
    let row = |record| match record {
        &mut Record::LedgerOpened(ref mut row) => Some(&mut **row),
        _ => None,
    };
    drafted.commit.records.iter_mut().filter_map(row).collect()
}

#[tokio::test]
async fn an_approval_is_for_one_call_with_one_input_and_used_once() {
    let world = World::new().await;
    put_policy(&world, asks("open_door", 1, json!({}))).await;
    let (_other, elsewhere) = asked(&world, "open_door", json!({"door": 1})).await;
    world.decide(elsewhere.approval_id, approve(), "user:ann").await.expect("decided");
    let calls = [("open_door", json!({"door": 1})), ("open_door", json!({"door": 1}))];
    let (hand, drafted) = begun(&world, &calls).await;
    store(&drafted, &world).await;
    for asked in world.pending(hand.lease.run_id).await {
        world.decide(asked.approval_id, approve(), "user:ann").await.expect("decided");
    }
    let drafted = hand.draft(false, Vec::new()).await.expect("the lease");
    assert_eq!(drafted.opened().count(), 2);
    type Forge = fn(&mut [&mut LedgerRow], Uuid);
    let forgeries: [(&str, Forge); 5] = [
        ("of another call", |rows, _| {
            (rows[0].approval, rows[1].approval) = (rows[1].approval, rows[0].approval)
        }),
        ("of another run", |rows, elsewhere| rows[0].approval = Some(ApprovalId(elsewhere))),
        ("unknown", |rows, _| rows[1].approval = Some(ApprovalId(Uuid::now_v7()))),
        ("of another input", |rows, _| rows[0].input_hash = input_hash(&json!({"door": 2}))),
        ("twice", |rows, _| rows[1].approval = rows[0].approval),
    ];
    for (what, forge) in forgeries {
        let mut forged = drafted.clone();
        forge(&mut rows(&mut forged), elsewhere.approval_id);
        refused(&forged, &hand, what).await;
    }
    // The same from many sides at once.
    let outcomes = join_all((0..6).map(|_| drafted.send(&world))).await;
    let stored = outcomes.iter().filter(|outcome| matches!(outcome, Ok(CommitOutcome::Stored))).count();
    let lost = outcomes.iter().filter(|outcome| matches!(outcome, Ok(CommitOutcome::LeaseLost))).count();
    assert_eq!((stored, lost), (1, 5), "{outcomes:?}");
    let began = begun_by(&hand).await;
    assert!(began.len() == 2 && began[0].1 != began[1].1, "{began:?}");
    for (_, approval) in &began {
        assert!(fetched(&world, approval.expect("an approval")).await.used_at.is_some());
    }
    let mut again = hand.draft(false, Vec::new()).await.expect("the lease");
    let row = drafted.opened().next().expect("a row");
    let row = LedgerRow { id: LedgerId(Uuid::now_v7()), idempotency_key: "other".into(), ..row.clone() };
    again.commit.records.push(Record::LedgerOpened(Box::new(row)));
    assert!(matches!(again.send(&world).await, Err(StoreError::Broken(_))), "it is used up");
    assert_eq!(begun_by(&hand).await.len(), 2);
}

#[tokio::test]
async fn nothing_begins_by_what_is_no_approval() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 1, json!({}))).await;
    for (what, sql) in [
        (
            "pending",
            "UPDATE approvals SET status = 'pending', decided_by = NULL, decided_at = NULL WHERE approval_id = $1",
        ),
        ("denied", "UPDATE approvals SET status = 'denied' WHERE approval_id = $1"),
        ("expired", "UPDATE approvals SET status = 'expired' WHERE approval_id = $1"),
        ("cancelled", "UPDATE approvals SET status = 'cancelled' WHERE approval_id = $1"),
        ("an answer", "UPDATE approvals SET decision = 'answer' WHERE approval_id = $1"),
        ("undecided", "UPDATE approvals SET decision = NULL WHERE approval_id = $1"),
        ("void", "UPDATE approvals SET voided_at = now(), void_reason = 'x' WHERE approval_id = $1"),
        ("used", "UPDATE approvals SET used_at = now() WHERE approval_id = $1"),
        ("of another input", "UPDATE approvals SET approved_hash = 'sha256:00' WHERE approval_id = $1"),
        ("gone", "DELETE FROM approvals WHERE approval_id = $1"),
    ] {
        let (hand, asked) = asked(&world, "mail", json!({"to": 1})).await;
        world.decide(asked.approval_id, approve(), "user:ann").await.expect("decided");
        let drafted = hand.draft(false, Vec::new()).await.expect("the lease");
        assert_eq!(drafted.opened().count(), 1, "{what}");
        tamper(&world, sql, asked.approval_id).await;
        refused(&drafted, &hand, what).await;
    }
}

#[tokio::test]
async fn nothing_is_sent_by_an_approval_after_a_cancel() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 1, json!({}))).await;
    let (hand, asked) = asked(&world, "mail", json!({"to": 1})).await;
    world.decide(asked.approval_id, approve(), "user:ann").await.expect("decided");
    let drafted = hand.draft(false, Vec::new()).await.expect("the lease");
    assert_eq!(drafted.opened().count(), 1);
    let mut tx = world.tx().await;
    assert!(tx.run_cancel(hand.lease.run_id, None).await.expect("an answer"));
    tx.commit().await.expect("committed");
    assert!(matches!(drafted.send(&world).await, Ok(CommitOutcome::InboxFirst(_))));
    assert!(hand.work().await.commit.state.is_ended());
    // If it began at all, then in the same breath in which it was called off.
    for entry in world.tx().await.ledger_list(hand.lease.run_id, None, 9).await.expect("a ledger") {
        assert_eq!((entry.status.as_str(), entry.side_effect.as_str()), ("failed", "none"));
    }
    assert!(hand.draft(false, Vec::new()).await.is_none_or(|drafted| drafted.opened().count() == 0));
}

/// Rows as servers of the version before this one wrote them.
#[tokio::test]
async fn older_rows_still_let_calls_begin() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 1, json!({}))).await;
    let (hand, asked) = asked(&world, "mail", json!({"to": 1})).await;
    world.decide(asked.approval_id, edit(json!({"to": 2})), "user:bob").await.expect("decided");
    tamper(
        &world,
        "UPDATE approvals SET approved_hash = NULL, tool_version = NULL, votes = jsonb_build_array(votes -> 0 #- '{key}')
         WHERE approval_id = $1",
        asked.approval_id,
    )
    .await;
    tamper(&world, "UPDATE runs SET creators = '{}' WHERE run_id = $1", hand.lease.run_id.0).await;
    hand.work().await;
    assert_eq!(begun_by(&hand).await, [(input_hash(&json!({"to": 2})), Some(asked.approval_id))]);
}
