//! Runs that calls of other runs began: made with the commit in which the call begins, and told of once.

use answerable_core::budget::Budgets;
use answerable_core::id::{AgentId, CallId, RunId};
use answerable_core::ledger::{Effect, Outcome};
use answerable_core::run::{Event, PinnedAgent, Status};
use answerable_ports::commit::{Commit, CommitOutcome, InboundBody, Release};
use answerable_ports::{Lease, RunStore};
use answerable_store::{Keep, RunDeleted};
use serde_json::json;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::deleting::delete;
use crate::world::{World, agent, first_step, late, new_call};

const KEEP: Keep = Keep { journal_days: 30, runs_days: Some(30) };

/// A run of which the model has just called another agent, and the commit in which that one's run begins.
async fn calling(world: &World) -> (RunId, CallId, Lease, i64, Commit) {
    let run = world.start(|_| ()).await.expect("a run");
    let (lease, at) = (world.claim(run).await, world.now().await);
    let call = new_call(&world.registry(), "ask", &json!({"input": "how many?"}), at);
    let id = call.id;
    let spec = serde_json::from_value(agent()).expect("an agent");
    let mut tx = world.tx().await;
    let spec_hash = tx.agent_spec_put(&spec).await.expect("stored");
    tx.commit().await.expect("committed");
    let budgets = Budgets::default();
    let found = Ok(PinnedAgent { agent_id: AgentId(Uuid::now_v7()), version: 1, spec_hash, budgets });
    let mut events = first_step(at, vec![call]);
    events.push(Event::AgentFound { at, call: id, found });
    let (seq, commit) = world.draft(lease, events, Release::Park { wake_at: None }).await;
    (run, id, lease, seq, commit)
}

/// A run that waits for the one that it called.
async fn called(world: &World) -> (RunId, RunId) {
    let (run, call, lease, seq, commit) = calling(world).await;
    let stored = world.engine.commit(lease, seq, commit, Uuid::now_v7()).await.expect("an answer");
    assert_eq!(stored, CommitOutcome::Stored);
    (run, RunId(call.0))
}

async fn ends(world: &World, lease: Lease) {
    let at = world.now().await;
    world.fold(lease, vec![Event::CancelRequested { at, reason: None }], Release::End).await;
}

async fn sql(world: &World, change: &str, run: RunId) {
    let change = AssertSqlSafe(change.to_owned());
    sqlx::query(change).bind(run.0).execute(&mut world.superuser().await).await.expect("changed");
}

fn heard(inbox: &[InboundBody]) -> Vec<(Status, Effect)> {
    let one = |body: &InboundBody| match body {
        InboundBody::ChildEnded { status, effect, .. } => Some((*status, *effect)),
        _ => None,
    };
    inbox.iter().filter_map(one).collect()
}

#[tokio::test]
async fn a_commit_that_is_sent_twice_begins_one_run() {
    let world = World::new().await;
    let (run, call, lease, seq, commit) = calling(&world).await;
    let id = Uuid::now_v7();
    for _ in 0..2 {
        let stored = world.engine.commit(lease, seq, commit.clone(), id).await.expect("an answer");
        assert_eq!(stored, CommitOutcome::Stored);
    }
    let below = world.view(RunId(call.0)).await;
    assert_eq!((below.parent, below.status.as_str(), below.state.depth), (Some(run.0), "queued", 1));
    assert_eq!(below.workspace_id, world.view(run).await.workspace_id);
    let messages = world.tx().await.message_list(RunId(call.0), 0, 9).await.expect("messages");
    assert_eq!(messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>(), ["how many?"]);
}

#[tokio::test]
async fn a_commit_that_is_refused_begins_none() {
    let world = World::new().await;
    let (_, call, lease, seq, commit) = calling(&world).await;
    let lost = world.engine.commit(lease, seq + 1, commit.clone(), Uuid::now_v7()).await.expect("an answer");
    assert_eq!(lost, CommitOutcome::LeaseLost);
    let older = Commit { known_inbox: -1, ..commit };
    let first = world.engine.commit(lease, seq, older, Uuid::now_v7()).await.expect("an answer");
    assert_eq!(first, CommitOutcome::InboxFirst(Vec::new()));
    assert!(world.tx().await.run_fetch(RunId(call.0)).await.expect("an answer").is_none());
}

#[tokio::test]
async fn an_end_is_told_once() {
    let world = World::new().await;
    let (run, below) = called(&world).await;
    ends(&world, world.claim(below).await).await;
    assert_eq!(heard(&world.inbox(run).await), [(Status::Cancelled, Effect::None)]);
    assert_eq!(world.engine.tell_children().await.expect("told"), 0);
    // One that a server left untold.
    let (run, below) = called(&world).await;
    ends(&world, world.claim(below).await).await;
    sql(&world, "DELETE FROM inbox WHERE run_id <> $1", below).await;
    sql(
        &world,
        "UPDATE children SET told_at = NULL, ended_at = now() - interval '1 minute' WHERE run_id = $1",
        below,
    )
    .await;
    let both = tokio::join!(world.engine.tell_children(), world.engine.tell_children());
    assert!(both.0.expect("told") + both.1.expect("told") >= 1);
    assert_eq!(heard(&world.inbox(run).await).len(), 1, "two servers look at once");
}

#[tokio::test]
async fn what_is_still_out_belongs_to_the_end() {
    let world = World::new().await;
    let (run, below) = called(&world).await;
    let (lease, at) = (world.claim(below).await, world.now().await);
    let call = new_call(&world.registry(), "mail", &json!({}), at);
    let mail = call.id;
    world.fold(lease, first_step(at, vec![call]), Release::Keep).await;
    let cancel = Event::CancelRequested { at, reason: None };
    world.fold(lease, vec![cancel], Release::EndWithLateCalls).await;
    assert_eq!(heard(&world.inbox(run).await), [], "a write is out");
    assert_eq!(world.engine.tell_children().await.expect("told"), 0);
    let sent = late(mail, Outcome::succeeded(true), None);
    assert!(world.engine.late_outcome(lease, &sent).await.expect("written"));
    world.engine.settle_ended(lease).await.expect("settled");
    assert_eq!(heard(&world.inbox(run).await), [(Status::Cancelled, Effect::Committed)]);
}

#[tokio::test]
async fn a_caller_that_has_ended_is_told_by_its_ledger() {
    let world = World::new().await;
    let (run, below) = called(&world).await;
    let lease = world.claim(below).await;
    world.end(run).await;
    assert_eq!(world.view(run).await.uncertain.len(), 1, "until it is known");
    let inbox = world.inbox(below).await;
    assert!(matches!(&inbox[..], [InboundBody::Cancel { .. }]), "{inbox:?}");
    ends(&world, lease).await;
    let seen = world.view(run).await;
    assert_eq!((seen.uncertain.len(), world.inbox(run).await.len()), (0, 0));
    assert_eq!(delete(&world, run).await, RunDeleted::Deleted);
    assert!(world.tx().await.run_fetch(below).await.expect("an answer").is_none(), "it goes with its caller");
}

#[tokio::test]
async fn neither_goes_before_the_other_is_done_with_it() {
    let world = World::new().await;
    let (run, below) = called(&world).await;
    let lease = world.claim(below).await;
    world.end(run).await;
    let old = "UPDATE runs SET finished_at = now() - interval '60 days' WHERE run_id = $1 AND finished_at IS NOT NULL";
    sql(&world, old, run).await;
    assert_eq!(delete(&world, run).await, RunDeleted::Awaited);
    let prune =
        async || world.store.prune(world.url(), KEEP, u32::MAX).await.expect("pruned").expect("alone").runs;
    assert_eq!(prune().await, 0, "a run that it called lives");
    ends(&world, lease).await;
    sql(&world, "UPDATE children SET told_at = NULL WHERE run_id = $1", below).await;
    sql(&world, old, below).await;
    assert_eq!(delete(&world, below).await, RunDeleted::Awaited);
    assert_eq!(prune().await, 1, "nobody knows yet how the other ended");
    assert_eq!(world.view(below).await.parent, None);
    sql(&world, "UPDATE children SET ended_at = now() - interval '1 minute' WHERE run_id = $1", below).await;
    assert_eq!(world.engine.tell_children().await.expect("told"), 1);
    assert_eq!(prune().await, 1);
}
