//! Deleting a run: when it can go, and that nothing of it is left.

use std::collections::BTreeMap;

use answerable_core::id::{CallId, RunId};
use answerable_core::ledger::Outcome;
use answerable_core::run::Event;
use answerable_ports::commit::Release;
use answerable_ports::{Lease, RunStore};
use answerable_store::{
    DecisionWord, GrantScope, Kept, KeptAnswer, KeptRequest, KeptTx, NewWebhook, Remember, RunDeleted,
    RunFilter,
};
use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::world::{World, decision, first_step, late, new_call};

pub(crate) async fn delete(world: &World, run: RunId) -> RunDeleted {
    let mut tx = world.tx().await;
    let outcome = tx.run_delete(run).await.expect("an answer");
    tx.commit().await.expect("committed");
    outcome
}

/// The request that made a run.
fn request(run: RunId) -> KeptRequest {
    // The last of the id's digits: the client doesn't know it, so the key doesn't hold it.
    let key = run.to_string().split_off(20);
    KeptRequest { route: "POST /v1/runs".into(), key, hash: [1; 32] }
}

/// A run that has something in every table that knows of runs, and has ended.
pub(crate) async fn with_everything(world: &World) -> RunId {
    let mut tx = world.tx().await;
    let hook = NewWebhook {
        url: "https://hooks.example/".into(),
        events: vec!["*".into()],
        description: None,
        include_input: true,
    };
    tx.webhook_create(&hook).await.expect("a webhook");
    tx.commit().await.expect("committed");
    let run = world.waiting(&[("pay", json!({"amount": 5})), ("open_door", json!({}))]).await;
    let remember = Remember { scope: GrantScope::Run, exact_input: false, expires_at: None };
    let said = answerable_store::Decision { remember: Some(remember), ..decision(DecisionWord::Approve) };
    world.decide(world.pending(run).await[0].approval_id, said, "key_1").await.expect("decided");
    let mut tx = world.tx().await;
    let request = request(run);
    assert_eq!(tx.request_begin(&request).await.expect("an answer"), Kept::New);
    let answer = KeptAnswer {
        status: 201,
        location: Some(format!("/v1/runs/{run}")),
        body: Some(format!("{{\"id\": \"{run}\"}}")),
        secret: false,
        run_id: Some(run.0),
    };
    tx.answer_keep(&request, &answer).await.expect("kept");
    tx.commit().await.expect("committed");
    world.end(run).await;
    // What only an engine, or an accident, would leave behind.
    let mut superuser = world.superuser().await;
    for insert in [
        "INSERT INTO inbox (tenant_id, run_id, number, body) VALUES ($1, $2, 99, '{}')",
        "INSERT INTO checkpoints (tenant_id, run_id, seq, step, state, state_hash, created_at)
         VALUES ($1, $2, 99, 1, '{}', 'x', now())",
        "INSERT INTO artifacts (tenant_id, artifact_id, run_id, call_id, media_type, bytes, sha256, content, created_at)
         VALUES ($1, gen_random_uuid(), $2, gen_random_uuid(), 'text/plain', 1, 'x', 'x', now())",
        "INSERT INTO workspace_seen (tenant_id, workspace_id, path, run_id) VALUES ($1, gen_random_uuid(), 'a', $2)",
        "INSERT INTO workspace_calls (tenant_id, call_id, run_id, version, output) VALUES ($1, gen_random_uuid(), $2, 1, 'x')",
        "INSERT INTO children (tenant_id, run_id, parent_run_id, ended_at, told_at)
         VALUES ($1, $2, gen_random_uuid(), now(), now())",
        "INSERT INTO run_tools (tenant_id, run_id, hash, tools) VALUES ($1, $2, 'x', '[]')",
        "INSERT INTO tool_places (tenant_id, tool_name, call_id, run_id, attempt, epoch, since, left_at, until)
         VALUES ($1, 'x', gen_random_uuid(), $2, 1, 1, now(), now(), now())",
        "INSERT INTO day_allowances (tenant_id, run_id, epoch, tokens, cost_microusd) VALUES ($1, $2, 1, 1, 1)",
        "INSERT INTO run_lineage (tenant_id, run_id, position, ancestor_id, through_step, through_seq, own)
         VALUES ($1, $2, 0, $2, 1, 1, true)",
        "INSERT INTO inherited_effects (tenant_id, run_id, ledger_id, tool_name, input_hash, ord)
         SELECT tenant_id, run_id, ledger_id, tool_name, input_hash, 1 FROM ledger WHERE tenant_id = $1 AND run_id = $2",
        "WITH made AS (
             INSERT INTO schedules (tenant_id, schedule_id, name, cron, timezone, run, skip_if_running, metadata, created_by,
                 updated_by, asker, creators, as_admin, created_at, updated_at, dealt_until)
             VALUES ($1, gen_random_uuid(), 'x', 'x', 'x', '{}', true, '{}', 'x', 'x', 'x', '{}', true, now(), now(), now())
             RETURNING schedule_id)
         INSERT INTO schedule_firings (tenant_id, schedule_id, due_at, fired_at, outcome, run_id)
         SELECT $1, schedule_id, now(), now(), 'started', $2 FROM made",
        "INSERT INTO idempotency_keys (tenant_id, route, key, request_hash, status, body)
         VALUES ($1, 'POST /v1/approvals/decisions', gen_random_uuid(), '', 200, 'run_' || $2::text)",
    ] {
        sqlx::query(insert).bind(world.tenant.0).bind(run.0).execute(&mut superuser).await.expect(insert);
    }
    run
}

/// How many rows of each table hold the text of the run's id somewhere.
async fn rows_that_name(superuser: &mut PgConnection, run: RunId) -> BTreeMap<String, i64> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition",
    )
    .fetch_all(&mut *superuser)
    .await
    .expect("tables");
    let mut found = BTreeMap::new();
    for table in tables {
        let count = format!("SELECT count(*) FROM {table} AS t WHERE position('{}' IN t::text) > 0", run.0);
        let rows = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&mut *superuser).await.expect("rows");
        found.insert(table, rows);
    }
    found
}

/// Tables with a column for a run's id. A new one is found by itself.
async fn tables_of_runs(superuser: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT c.table_name::text FROM information_schema.columns c
         JOIN pg_class t ON t.oid = format('public.%I', c.table_name)::regclass
         WHERE c.table_schema = 'public' AND c.column_name = 'run_id' AND NOT t.relispartition",
    )
    .fetch_all(superuser)
    .await
    .expect("tables")
}

#[tokio::test]
async fn nothing_of_it_is_left() {
    let world = World::new().await;
    let run = with_everything(&world).await;
    let mut superuser = world.superuser().await;
    let before = rows_that_name(&mut superuser, run).await;
    for table in tables_of_runs(&mut superuser).await {
        let has_rows = before[&table] > 0 || table == "run_queue";
        assert!(
            has_rows,
            "{table}: let the run of this test have a row there, and its deletion take it away"
        );
    }
    assert!(before["grants"] > 0, "{before:?}");
    assert_eq!(delete(&world, run).await, RunDeleted::Deleted);
    let mut after = rows_that_name(&mut superuser, run).await;
    // Who decided, cancelled or deleted it stays known: ids and hashes.
    assert!(after.remove("audit").is_some_and(|rows| rows > 0));
    assert!(after.values().all(|rows| *rows == 0), "{after:?}");
    let mut tx = world.tx().await;
    assert!(tx.run_fetch(run).await.expect("an answer").is_none());
    assert!(tx.run_list(&RunFilter::default(), None, 9).await.expect("a list").runs.is_empty());
    assert_eq!(tx.request_begin(&request(run)).await.expect("an answer"), Kept::Gone);
    drop(tx);
    assert_eq!(delete(&world, run).await, RunDeleted::Unknown, "once more");
}

#[tokio::test]
async fn whatever_refers_to_a_run_goes_with_it() {
    let world = World::new().await;
    let held: Vec<String> = sqlx::query_scalar(
        "SELECT conrelid::regclass::text FROM pg_constraint
         WHERE confrelid = 'public.runs'::regclass AND confdeltype NOT IN ('c', 'n')",
    )
    .fetch_all(&mut world.superuser().await)
    .await
    .expect("constraints");
    assert!(held.is_empty(), "{held:?} keep a run from being deleted");
}

#[tokio::test]
async fn others_runs_stay_as_they_were() {
    let world = World::new().await;
    let (run, other) = (with_everything(&world).await, with_everything(&world).await);
    let mut superuser = world.superuser().await;
    let before = rows_that_name(&mut superuser, other).await;
    assert_eq!(delete(&world, run).await, RunDeleted::Deleted);
    assert_eq!(rows_that_name(&mut superuser, other).await, before);
    let stranger = world.another_tenant().await;
    let mut tx = world.store.tenant(stranger).await.expect("a transaction");
    assert_eq!(tx.run_delete(other).await.expect("an answer"), RunDeleted::Unknown);
}

#[tokio::test]
async fn only_what_has_ended_is_deleted() {
    let world = World::new().await;
    let queued = world.start(|_| ()).await.expect("a run");
    let waiting = world.waiting(&[("ask_user", json!({}))]).await;
    for run in [queued, waiting] {
        assert_eq!(delete(&world, run).await, RunDeleted::NotEnded);
    }
    let (run, lease, call) = booked(&world, "1", Release::EndWithLateCalls, &[cancel()]).await;
    assert_eq!(delete(&world, run).await, RunDeleted::CallsOut);
    world.engine.late_outcome(lease, &late(call, Outcome::succeeded(true), None)).await.expect("written");
    assert_eq!(delete(&world, run).await, RunDeleted::CallsOut, "its server isn't done with it");
    world.engine.settle_ended(lease).await.expect("settled");
    assert_eq!(delete(&world, run).await, RunDeleted::Deleted);
    // Whoever still believes to have the run writes nothing more.
    assert!(world.engine.load(lease).await.expect("an answer").is_none());
    world.engine.late_outcome(lease, &late(call, Outcome::uncertain(), None)).await.expect("nothing");
}
pub(crate) fn cancel() -> impl Fn(CallId, i64) -> Event + Copy {
    |_, at| Event::CancelRequested { at, reason: None }
}

/// A run that booked under a business key, and what happened then; it has ended.
pub(crate) async fn booked(
    world: &World,
    key: &str,
    release: Release,
    then: &[impl Fn(CallId, i64) -> Event],
) -> (RunId, Lease, CallId) {
    let run = world.start(|_| ()).await.expect("a run");
    let lease = world.claim(run).await;
    let at = world.now().await;
    let mut call = new_call(&world.registry(), "book", &json!({"id": key}), at);
    call.idempotency_key = (key.to_owned(), true);
    let id = call.id;
    let mut events = first_step(at, vec![call]);
    events.push(Event::KeyFree { at, call: id });
    world.fold(lease, events, Release::Keep).await;
    let (last, before) = then.split_last().expect("an end");
    for event in before {
        world.fold(lease, vec![event(id, at)], Release::Keep).await;
    }
    world.fold(lease, vec![last(id, at)], release).await;
    (run, lease, id)
}
#[tokio::test]
async fn deletions_and_commands_at_once_wait_for_each_other() {
    let world = World::new().await;
    for _ in 0..8 {
        let run = world.waiting(&[("pay", json!({"amount": 5})), ("open_door", json!({}))]).await;
        world.end(run).await;
        let cancel = async {
            let mut tx = world.tx().await;
            let found = tx.run_cancel(run, None).await.expect("an answer");
            tx.commit().await.expect("committed");
            found
        };
        let (first, second, _) = tokio::join!(delete(&world, run), delete(&world, run), cancel);
        let mut both = [first, second];
        both.sort_by_key(|outcome| *outcome == RunDeleted::Unknown);
        assert_eq!(both, [RunDeleted::Deleted, RunDeleted::Unknown]);
    }
    let run = world.waiting(&[("open_door", json!({}))]).await;
    world.end(run).await;
    let tenant = async {
        let mut tx = world.tx().await;
        assert!(tx.tenant_delete().await.expect("an answer"));
        tx.commit().await.expect("committed");
    };
    tokio::join!(delete(&world, run), tenant);
}
