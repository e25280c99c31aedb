//! Calls that begin by approvals, from the decision to the ledger.

mod deciders;
mod standing;
mod using;

use answerable_core::id::ApprovalId;
use answerable_ports::commit::CommitOutcome;
use answerable_store::{ApprovalRecord, Decision, DecisionWord};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::hand::{Drafted, Hand, begun};
use crate::world::{World, decision};

/// A policy that asks for so many people before `tool` runs, with `more` in its rule.
fn asks(tool: &str, approvals: u32, more: Value) -> Value {
    let mut rule = json!({"tool": tool, "effect": "ask", "approvals": approvals});
    for (name, value) in more.as_object().into_iter().flatten() {
        rule[name] = value.clone();
    }
    json!({"rules": [rule]})
}

async fn store(drafted: &Drafted, world: &World) {
    assert_eq!(drafted.send(world).await.expect("an answer"), CommitOutcome::Stored);
}

/// A claimed run that asks for one call, and what it asks.
async fn asked<'a>(world: &'a World, tool: &str, input: Value) -> (Hand<'a>, ApprovalRecord) {
    let (hand, drafted) = begun(world, &[(tool, input)]).await;
    store(&drafted, world).await;
    let asked = pending(&hand).await;
    (hand, asked)
}

async fn pending(hand: &Hand<'_>) -> ApprovalRecord {
    let mut pending = hand.world.pending(hand.lease.run_id).await;
    assert_eq!(pending.len(), 1, "{pending:?}");
    pending.remove(0)
}

async fn fetched(world: &World, approval: Uuid) -> ApprovalRecord {
    world.tx().await.approval_fetch(ApprovalId(approval)).await.expect("an answer").expect("the approval")
}

/// The ledger of a run: hash of what began, and the approval by which.
async fn begun_by(hand: &Hand<'_>) -> Vec<(String, Option<Uuid>)> {
    let rows =
        sqlx::query_as("SELECT input_hash, approval_id FROM ledger WHERE run_id = $1 ORDER BY call_id");
    rows.bind(hand.lease.run_id.0).fetch_all(&mut hand.world.superuser().await).await.expect("a ledger")
}

fn edit(input: Value) -> Decision {
    Decision { input: Some(input), ..decision(DecisionWord::Approve) }
}

fn approve() -> Decision {
    decision(DecisionWord::Approve)
}

/// Changes rows past the product.
async fn tamper(world: &World, sql: &'static str, id: Uuid) {
    sqlx::query(sql).bind(id).execute(&mut world.superuser().await).await.expect("changed");
}
