//! Runs that calls of other runs began: made with the commit in which the call begins, and told of once.

use answerable_core::budget::Budgets;
use answerable_core::id::{AgentId, CallId, RunId};
use answerable_core::ledger::{Effect, Outcome};
use answerable_core::run::{Event, NewCall, PinnedAgent, Status};
use answerable_ports::commit::{Commit, CommitOutcome, InboundBody, Release};
use answerable_ports::{Lease, RunStore};
use answerable_store::{Keep, RunDeleted};
use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection};
use uuid::Uuid;

use crate::deleting::delete;
use crate::world::{World, agent, first_step, late, new_call};

const KEEP: Keep = Keep { journal_days: 30, runs_days: Some(30) };

/// A run of which the model has just called another agent, and the commit in which that one's run begins.
async fn calling(world: &World) -> (RunId, CallId, Lease, i64, Commit) {
    calling_as(world, CallId(Uuid::now_v7()), Budgets::default()).await
}

/// The same by a call of that id, of an agent with these limits.
async fn calling_as(world: &World, id: CallId, budgets: Budgets) -> (RunId, CallId, Lease, i64, Commit) {
    let run = world.start(|_| ()).await.expect("a run");
    let (lease, at) = (world.claim(run).await, world.now().await);
    let call = NewCall { id, ..new_call(&world.registry(), "ask", &json!({"input": "how many?"}), at) };
    let spec = serde_json::from_value(agent()).expect("an agent");
    let mut tx = world.tx().await;
    let spec_hash = tx.agent_spec_put(&spec).await.expect("stored");
    tx.commit().await.expect("committed");
    let found = Ok(PinnedAgent { agent_id: AgentId(Uuid::now_v7()), version: 1, spec_hash, budgets });
    let mut events = first_step(at, vec![call]);
    events.push(Event::AgentFound { at, call: id, found });
    let (seq, commit) = world.draft(lease, events, Release::Park { wake_at: None }).await;
    (run, id, lease, seq, commit)
}

/// A run that waits for the one that it called.
pub(crate) async fn called(world: &World) -> (RunId, RunId) {
    called_as(world, CallId(Uuid::now_v7()), Budgets::default()).await
}

/// The same by a call of that id, of an agent with these limits.
pub(crate) async fn called_as(world: &World, id: CallId, budgets: Budgets) -> (RunId, RunId) {
    let (run, call, lease, seq, commit) = calling_as(world, id, budgets).await;
    let stored = world.engine.commit(lease, seq, commit, Uuid::now_v7()).await.expect("an answer");
    assert_eq!(stored, CommitOutcome::Stored);
    (run, RunId(call.0))
}

pub(crate) async fn ends(world: &World, lease: Lease) {
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

/// Of what is left untold, some can't be told, and stays so: it is not counted, and keeps nothing else from being told.
#[tokio::test]
async fn what_can_not_be_told_is_in_nobodys_way() {
    let world = World::new().await;
    let (_, broken) = called(&world).await;
    ends(&world, world.claim(broken).await).await;
    // As many as are told in one round and more, all of them older than the next.
    let mut superuser = world.superuser().await;
    for change in [
        "UPDATE run_states SET state = '{}' WHERE run_id = $1",
        "UPDATE children SET told_at = NULL, ended_at = now() - interval '1 hour' WHERE run_id = $1",
        "INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('run_id', gen_random_uuid()))).*
         FROM runs r, generate_series(1, 250) WHERE run_id = $1",
        "INSERT INTO run_states SELECT (jsonb_populate_record(s, jsonb_build_object('run_id', r.run_id))).*
         FROM run_states s, runs r
         WHERE s.run_id = $1 AND NOT EXISTS (SELECT FROM run_states o WHERE o.run_id = r.run_id)",
        "INSERT INTO children SELECT (jsonb_populate_record(c, jsonb_build_object('run_id', s.run_id))).*
         FROM children c, run_states s
         WHERE c.run_id = $1 AND s.run_id <> $1 AND s.state::text = '{}'",
    ] {
        sqlx::query(change).bind(broken.0).execute(&mut superuser).await.expect("changed");
    }
    assert_eq!(world.engine.tell_children().await.expect("an answer"), 0, "nothing can be told");
    let (run, below) = called(&world).await;
    ends(&world, world.claim(below).await).await;
    sql(&world, "DELETE FROM inbox WHERE run_id <> $1", below).await;
    sql(
        &world,
        "UPDATE children SET told_at = NULL, ended_at = now() - interval '1 minute' WHERE run_id = $1",
        below,
    )
    .await;
    let mut told = 0;
    for _ in 0..20 {
        if told == 0 {
            told = world.engine.tell_children().await.expect("an answer");
        }
    }
    assert_eq!((told, heard(&world.inbox(run).await)), (1, vec![(Status::Cancelled, Effect::None)]));
}

/// Waits until somebody waits for a lock.
async fn blocked(world: &World) {
    let mut superuser = world.superuser().await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for _ in 0..400 {
        if sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut superuser).await.expect("a count") > 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("nobody waits for a lock");
}

/// A transaction that holds a lock.
async fn holding(world: &World, lock: &'static str, id: Uuid) -> PgConnection {
    let mut holder = world.superuser().await;
    sqlx::query("BEGIN").execute(&mut holder).await.expect("a transaction");
    sqlx::query(lock).bind(id).execute(&mut holder).await.expect("the lock");
    holder
}

const FREE: &str = "SELECT FROM run_states WHERE run_id = $1 FOR UPDATE NOWAIT";

#[tokio::test]
async fn a_run_is_begun_under_its_tenants_lock_first() {
    let world = World::new().await;
    let (run, call, lease, seq, commit) = calling(&world).await;
    // As whoever deletes the tenant, who takes the runs next.
    let lock = "SELECT FROM tenants WHERE tenant_id = $1 FOR UPDATE";
    let mut deleting = holding(&world, lock, world.tenant.0).await;
    let begins = async {
        let stored = world.engine.commit(lease, seq, commit, Uuid::now_v7()).await.expect("an answer");
        assert_eq!(stored, CommitOutcome::Stored);
    };
    let looks = async {
        blocked(&world).await;
        sqlx::query(FREE).bind(run.0).execute(&mut deleting).await.expect("nobody has the run");
        sqlx::query("ROLLBACK").execute(&mut deleting).await.expect("an end");
    };
    tokio::join!(begins, looks);
    assert_eq!(world.view(RunId(call.0)).await.parent, Some(run.0));
}

#[tokio::test]
async fn runs_that_are_deleted_together_are_locked_in_one_order() {
    let world = World::new().await;
    let older = world.cancelled(|_| ()).await;
    let run = world.cancelled(|_| ()).await;
    // One run's call has an id from before it: the clocks of two servers.
    assert!(older.0 < run.0);
    let called = "INSERT INTO children (tenant_id, run_id, parent_run_id, ended_at, told_at) VALUES ($1, $2, $3, now(), now())";
    let called = sqlx::query(called).bind(world.tenant.0).bind(older.0).bind(run.0);
    called.execute(&mut world.superuser().await).await.expect("changed");
    let lock = "SELECT FROM run_states WHERE run_id = $1 FOR UPDATE";
    let mut deleting = holding(&world, lock, older.0).await;
    let looks = async {
        blocked(&world).await;
        let mut other = world.superuser().await;
        sqlx::query(FREE).bind(run.0).execute(&mut other).await.expect("the lowest comes first");
        sqlx::query("ROLLBACK").execute(&mut deleting).await.expect("an end");
    };
    let (deleted, ()) = tokio::join!(delete(&world, run), looks);
    assert_eq!(deleted, RunDeleted::Deleted);
    assert!(world.tx().await.run_fetch(older).await.expect("an answer").is_none(), "it goes with its caller");
}
