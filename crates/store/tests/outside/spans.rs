//! The outbox of spans: what is committed waits there, several servers empty it, and nothing leaves that wasn't told to.

use std::collections::BTreeSet;

use answerable_core::id::RunId;
use answerable_core::trace::SpanKind;
use answerable_ports::{SpanBatch, SpanOutbox};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::world::World;

async fn sql(world: &World, statement: &'static str) -> u64 {
    let mut connection: PgConnection = world.superuser().await;
    sqlx::query(statement).execute(&mut connection).await.expect("done").rows_affected()
}

fn numbers(batches: &[SpanBatch]) -> Vec<i64> {
    batches.iter().map(|batch| batch.number).collect()
}

/// Runs that were cancelled before they began: a commit with spans each.
async fn ended(world: &World, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(world.cancelled(|_| ()).await);
    }
    runs
}

async fn waiting(world: &World) -> u64 {
    world.store.backlog().await.expect("an answer").waiting
}

#[tokio::test]
async fn what_a_commit_tells_is_taken_with_its_trace_and_leaves_when_it_arrived() {
    let world = World::new().await;
    let run = world.cancelled(|new| new.trace.trace_id = "ab".repeat(16)).await;
    let taken = world.store.take(10).await.expect("batches");
    let [batch] = taken.as_slice() else { panic!("one commit: {taken:?}") };
    assert_eq!(
        (batch.tenant_id, batch.run_id, batch.trace_id.as_str()),
        (world.tenant, run, "ab".repeat(16).as_str())
    );
    assert_eq!(batch.spans.iter().filter(|span| span.kind == SpanKind::Agent).count(), 1);
    world.store.acknowledge(&numbers(&taken)).await.expect("heard");
    assert_eq!(waiting(&world).await, 0);
    assert_eq!(world.store.backlog().await.expect("an answer").oldest_ms, 0);
}

#[tokio::test]
async fn spans_come_back_as_they_were_stored_event_by_event_and_digit_by_digit() {
    let world = World::new().await;
    ended(&world, 1).await;
    // Three events ended something, the one between them nothing.
    let stored = r#"UPDATE journal SET spans = '[{"kind":"model","id":"00000000000000a1","parent":"00000000000000ff","began":5,
        "ended":7,"attributes":{"whole":1234567890123456789,"half":0.50,"list":["a","b"]}},
        {"kind":"tool","id":"00000000000000a2","began":7,"ended":9,"error":"TIMEOUT","attributes":{}}]'"#;
    assert_eq!(sql(&world, stored).await, 1);
    let more = r#"INSERT INTO journal (tenant_id, run_id, seq, index, event, spans, at)
        SELECT tenant_id, run_id, seq, j.index + added.index, event, added.spans::json, at FROM journal j, (VALUES
            (1, NULL), (2, '[{"kind":"agent","id":"00000000000000ff","began":1,"ended":9,"attributes":{},
                "links":[{"trace_id":"000000000000000000000000000000aa","span_id":"00000000000000bb"}]}]')) AS added (index, spans)"#;
    assert_eq!(sql(&world, more).await, 2);
    let spans = world.store.take(1).await.expect("batches").remove(0).spans;
    let as_json = |at: usize| serde_json::to_string(&spans[at]).expect("JSON");
    assert_eq!(
        spans.iter().map(|span| span.id.as_str()).collect::<Vec<_>>(),
        ["00000000000000a1", "00000000000000a2", "00000000000000ff"]
    );
    assert!(as_json(0).contains("1234567890123456789") && as_json(0).contains("0.50"), "{}", as_json(0));
    assert_eq!(
        (spans[1].error.as_deref(), spans[2].links[0].span_id.as_str()),
        (Some("TIMEOUT"), "00000000000000bb")
    );
}

#[tokio::test]
async fn many_servers_take_each_batch_once_oldest_first() {
    let world = World::new().await;
    ended(&world, 30).await;
    let takers = (0..6).map(|_| {
        let store = world.store.clone();
        async move { store.take(5).await.expect("batches") }
    });
    let taken = futures::future::join_all(takers).await;
    let all: Vec<i64> = taken.iter().flat_map(|batches| numbers(batches)).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "none twice");
    assert!(taken.iter().all(|batches| numbers(batches).is_sorted()));
    // Whoever came at the same moment may have found less than there was; nothing is lost to that.
    let rest = world.store.take(100).await.expect("batches");
    assert_eq!(all.len() + rest.len(), 30);
    assert!(world.store.take(100).await.expect("batches").is_empty(), "all of them are out");
}

#[tokio::test]
async fn what_is_given_back_comes_up_at_once_and_what_is_forgotten_after_a_minute_the_same_again() {
    let world = World::new().await;
    ended(&world, 3).await;
    let first = world.store.take(10).await.expect("batches");
    world.store.give_back(&numbers(&first)[1..]).await.expect("heard");
    assert_eq!(world.store.take(10).await.expect("batches"), first[1..]);
    assert!(world.store.take(10).await.expect("batches").is_empty());
    sql(&world, "UPDATE span_outbox SET taken_until = taken_until - interval '61 seconds'").await;
    assert_eq!(world.store.take(10).await.expect("batches"), first);
    assert_eq!(waiting(&world).await, 3, "what was taken still waits for its arrival");
}

#[tokio::test]
async fn over_the_bound_the_oldest_go_and_their_spans_stay_with_the_run() {
    let world = World::new().await;
    ended(&world, 10).await;
    assert_eq!(world.store.trim(10).await.expect("an answer"), 0);
    let sent = world.store.take(2).await.expect("batches");
    // The two that are being sent are let go by themselves.
    assert_eq!(world.store.trim(4).await.expect("an answer"), 4);
    assert_eq!(world.store.trim(4).await.expect("an answer"), 0);
    let rest = world.store.take(100).await.expect("batches");
    assert_eq!(numbers(&rest), (sent[0].number + 6..sent[0].number + 10).collect::<Vec<_>>());
    assert_eq!(sql(&world, "UPDATE journal SET at = at WHERE spans IS NOT NULL").await, 10);
}

#[tokio::test]
async fn the_backlog_has_an_age() {
    let world = World::new().await;
    ended(&world, 2).await;
    let oldest = "UPDATE span_outbox SET created_at = created_at - interval '90 seconds'
        WHERE number = (SELECT min(number) FROM span_outbox)";
    sql(&world, oldest).await;
    let backlog = world.store.backlog().await.expect("an answer");
    assert_eq!(backlog.waiting, 2);
    assert!((90_000..150_000).contains(&backlog.oldest_ms), "{backlog:?}");
}

#[tokio::test]
async fn a_journal_that_is_gone_leaves_an_empty_batch_and_a_run_that_is_gone_none() {
    let world = World::new().await;
    let runs = ended(&world, 2).await;
    sql(&world, "DELETE FROM journal").await;
    let taken = world.store.take(10).await.expect("batches");
    assert!(taken.len() == 2 && taken.iter().all(|batch| batch.spans.is_empty()), "{taken:?}");
    let mut tx = world.tx().await;
    tx.run_delete(runs[0]).await.expect("an answer");
    tx.commit().await.expect("committed");
    assert_eq!(waiting(&world).await, 1);
    world.store.acknowledge(&numbers(&taken)).await.expect("no error for one that is gone");
    assert_eq!(waiting(&world).await, 0);
}

#[tokio::test]
async fn what_a_newer_server_wrote_holds_nobody_else_up() {
    let world = World::new().await;
    ended(&world, 3).await;
    let newer = r#"UPDATE journal SET spans = '[{"kind":"dream","id":"00000000000000a1","began":5,"ended":7,"attributes":{}}]'
        WHERE run_id = (SELECT run_id FROM span_outbox ORDER BY number LIMIT 1)"#;
    assert_eq!(sql(&world, newer).await, 1);
    let taken = world.store.take(10).await.expect("batches");
    assert_eq!(taken.len(), 2);
    world.store.acknowledge(&numbers(&taken)).await.expect("heard");
    assert_eq!(waiting(&world).await, 1, "it is left to a server that can read it");
}

#[tokio::test]
async fn every_span_that_is_stored_is_taken_once_in_its_order() {
    let world = World::new().await;
    let run = world.waiting(&[("ask_user", json!({})), ("pay", json!({"amount": 3}))]).await;
    world.end(run).await;
    let taken = world.store.take(100).await.expect("batches");
    let mut connection = world.superuser().await;
    let stored: Vec<Option<Value>> =
        sqlx::query_scalar("SELECT spans FROM journal ORDER BY run_id, seq, index")
            .fetch_all(&mut connection)
            .await
            .expect("rows");
    let stored: Vec<Value> = stored
        .into_iter()
        .flatten()
        .flat_map(|spans| spans.as_array().cloned().unwrap_or_default())
        .collect();
    let sent: Vec<Value> = taken
        .iter()
        .flat_map(|batch| &batch.spans)
        .map(|span| serde_json::to_value(span).expect("JSON"))
        .collect();
    assert!(stored.len() >= 3, "{stored:?}");
    assert_eq!(sent, stored);
}
