//! What the sums of days count, and to whom.

use answerable_core::budget::MAX_COUNT;
use answerable_core::id::RunId;
use answerable_core::model::{FailureKind, ModelFailure, Usage};
use answerable_core::run::{Event, NewCall};
use answerable_core::tool::{Attempt, Output};
use answerable_ports::commit::Release;
use answerable_ports::{CommitOutcome, RunStore};
use answerable_store::{RunDeleted, UsageBy, UsageRow};
use serde_json::json;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::{answers, asking, built, today, tokens, usage};
use crate::deleting::delete;
use crate::world::{World, first_step, new_call};

const ALL: UsageBy = UsageBy { day: false, agent: false, model: false };

async fn together(world: &World) -> UsageRow {
    let rows = usage(world, ALL).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.into_iter().next().expect("a row")
}

fn mail(world: &World, at: i64) -> NewCall {
    new_call(&world.registry(), "mail", &json!({}), at)
}

#[tokio::test]
async fn a_life_is_counted_as_it_goes() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    assert_eq!(usage(&world, ALL).await, [], "it has not begun");
    let (lease, at) = (world.claim(run).await, world.now().await);
    world.fold(lease, vec![Event::Started { at }, built(at)], Release::Keep).await;
    let row = together(&world).await;
    assert_eq!((row.runs, row.steps, row.model_calls, row.tool_calls), (1, 1, 0, 0));
    // The first attempt fails, and is paid for all the same.
    let failure = ModelFailure {
        kind: FailureKind::ContextOverflow,
        status: Some(400),
        message: "too long".into(),
        retry_after_ms: None,
        usage: Some(tokens(7, 0)),
    };
    let failed = Event::ModelFailed { at, failure, cost_microusd: 2, jitter: 0, duration_ms: 1, wire: None };
    world.fold(lease, vec![failed, built(at)], Release::Keep).await;
    let call = mail(&world, at);
    let sent = Event::ToolAttempted {
        at,
        call: call.id,
        outcome: Attempt::Succeeded(Output::plain("sent")),
        jitter: 0,
    };
    let replied = first_step(at, vec![call]).pop().expect("a reply");
    world.fold(lease, vec![replied], Release::Keep).await;
    world.fold(lease, vec![sent, built(at)], Release::Keep).await;
    let cached = Usage { cached_input_tokens: 80, ..tokens(100, 20) };
    answers(&world, lease, cached, 40).await;
    let row = together(&world).await;
    assert_eq!((row.runs, row.steps, row.model_calls, row.tool_calls), (1, 2, 3, 1));
    let read = (row.input_tokens, row.cached_input_tokens, row.output_tokens, row.cost_microusd);
    assert_eq!(read, (117, 80, 25, 42));
    assert_eq!(today(&world).await, (142, 42), "quotas know the same");
    let by_model = usage(&world, UsageBy { day: true, agent: true, model: true }).await;
    assert_eq!(by_model.len(), 1, "all of it is one model's: {by_model:?}");
    assert_eq!(by_model[0].model.as_deref(), Some("main/m"));
    assert_eq!(
        UsageRow { day: None, model: None, ..by_model[0].clone() },
        row,
        "it is of the agent, day and model"
    );
}

/// The answer to a commit was lost, and it is sent again.
#[tokio::test]
async fn a_commit_that_is_sent_twice_counts_once() {
    let world = World::new().await;
    let run = world.start(|_| ()).await.expect("a run");
    let (lease, at) = (world.claim(run).await, world.now().await);
    let events = first_step(at, vec![mail(&world, at)]);
    let (seq, commit) = world.draft(lease, events, Release::Keep).await;
    let id = Uuid::now_v7();
    for _ in 0..2 {
        let outcome = world.engine.commit(lease, seq, commit.clone(), id).await.expect("an answer");
        assert_eq!(outcome, CommitOutcome::Stored);
    }
    assert_eq!((together(&world).await.input_tokens, today(&world).await.0), (10, 15));
}

#[tokio::test]
async fn each_model_has_its_own() {
    let world = World::new().await;
    let lease = asking(&world).await.1;
    let other = "UPDATE run_states SET state = jsonb_set(state::jsonb, '{bill}',
        '{\"model\": \"alt/n\", \"targets\": 3}')::json";
    sqlx::query(other).execute(&mut world.superuser().await).await.expect("another is asked");
    answers(&world, lease, tokens(3, 1), 0).await;
    let rows = usage(&world, UsageBy { model: true, ..ALL }).await;
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.model.as_deref(), row.runs, row.steps, row.model_calls, row.input_tokens))
        .collect();
    assert_eq!(told, [(Some("alt/n"), 1, 0, 1, 3), (Some("main/m"), 1, 1, 0, 0)]);
    assert_eq!(together(&world).await.runs, 1, "it is one run all the same");
}

#[tokio::test]
async fn what_was_deleted_was_used() {
    let world = World::new().await;
    let (run, lease) = asking(&world).await;
    answers(&world, lease, tokens(8, 4), 3).await;
    let before = (together(&world).await, today(&world).await);
    assert_eq!(delete(&world, run).await, RunDeleted::Deleted);
    assert_eq!((together(&world).await, today(&world).await), before);
}

/// Another tenant sees nothing of it, and its own deletion takes it along.
#[tokio::test]
async fn what_a_tenant_used_is_its_own_and_goes_with_it() {
    let world = World::new().await;
    answers(&world, asking(&world).await.1, tokens(8, 4), 3).await;
    let other = world.another_tenant().await;
    let mut tx = world.store.tenant(other).await.expect("a transaction");
    let (from, to) = (chrono::DateTime::UNIX_EPOCH, chrono::Utc::now());
    assert_eq!(tx.usage_list(from, to, ALL, 10).await.expect("rows"), []);
    drop(tx);
    let mut tx = world.tx().await;
    assert!(tx.tenant_delete().await.expect("an answer"));
    tx.commit().await.expect("committed");
    for table in ["usage_days", "day_use", "day_allowances"] {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let left: i64 =
            sqlx::query_scalar(count).fetch_one(&mut world.superuser().await).await.expect("a count");
        assert_eq!(left, 0, "{table}");
    }
}

/// A provider may tell what it likes.
#[tokio::test]
async fn absurd_counts_stop_no_commit() {
    let world = World::new().await;
    let absurd = Usage { cached_input_tokens: u64::MAX, ..tokens(u64::MAX, u64::MAX) };
    for _ in 0..3 {
        answers(&world, asking(&world).await.1, absurd, u64::MAX).await;
    }
    let fill =
        "UPDATE usage_days SET input_tokens = 4e18; UPDATE day_use SET tokens = 4e18, cost_microusd = 4e18";
    sqlx::raw_sql(fill).execute(&mut world.superuser().await).await.expect("filled");
    for _ in 0..20 {
        answers(&world, asking(&world).await.1, absurd, MAX_COUNT).await;
    }
    let row = together(&world).await;
    assert_eq!((row.runs, row.input_tokens), (23, 4_000_000_000_000_000));
    assert_eq!(today(&world).await.0, 9_000_000_000_000_000);
}

/// A run's id says where it counts, so that many of a tenant's don't wait for each other.
#[tokio::test]
async fn runs_of_a_tenant_do_not_wait_for_each_others_sums() {
    let world = World::new().await;
    let ((first, one), (_, other)) = (of_part(&world, 3).await, of_part(&world, 4).await);
    let mut busy = world.superuser().await;
    answers(&world, of_part(&world, 3).await.1, tokens(1, 1), 0).await;
    let hold = "BEGIN; SELECT FROM day_use WHERE part = 4 FOR UPDATE; SELECT FROM usage_days WHERE part = 4 FOR UPDATE";
    sqlx::raw_sql(hold).execute(&mut busy).await.expect("held");
    answers(&world, other, tokens(1, 1), 0).await;
    sqlx::raw_sql("COMMIT").execute(&mut busy).await.expect("let go");
    answers(&world, one, tokens(1, 1), 0).await;
    assert_eq!(world.view(first).await.status, "finished");
    assert_eq!((together(&world).await.input_tokens, today(&world).await.0), (3, 6));
}

/// A run that counts in this part.
async fn of_part(world: &World, part: u128) -> (RunId, answerable_ports::Lease) {
    let id = RunId(Uuid::from_u128((Uuid::now_v7().as_u128() & !0xF) | part));
    let run = world.start(|new| new.run_id = id).await.expect("a run");
    let (lease, at) = (world.claim(run).await, world.now().await);
    world.fold(lease, vec![Event::Started { at }, built(at)], Release::Keep).await;
    (run, lease)
}
