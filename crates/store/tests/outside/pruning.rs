//! Forgetting what is old: whole weeks where nothing needs them, single rows where something does, and nobody waits for it.

use std::time::{Duration, Instant};

use answerable_core::id::{RunId, WebhookId};
use answerable_core::run::Event;
use answerable_ports::RunStore as _;
use answerable_ports::commit::Release;
use answerable_store::{DeliveryFilter, Keep, NewWebhook, Pruned};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

use crate::world::{World, first_step, new_call};

const KEEP: Keep = Keep { journal_days: 30, runs_days: None };
/// Runs go, too.
const KEEP_LESS: Keep = Keep { runs_days: Some(30), ..KEEP };
const NO_END: u32 = u32::MAX;

async fn prune(world: &World, keep: Keep) -> Pruned {
    world.store.prune(world.url(), keep, NO_END).await.expect("pruned").expect("nobody else is at it")
}

/// Makes the partitions of the week that was so many weeks ago.
async fn week(world: &World, weeks_ago: i32) {
    let mut superuser = world.superuser().await;
    for parent in ["events", "journal"] {
        let create: String = sqlx::query_scalar(
            "SELECT format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', $1 || '_ago' || $2, $1,
                 uuid_floor(week), uuid_floor(week + interval '1 week'))
             FROM (SELECT date_trunc('week', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - make_interval(weeks => $2)) w(week)",
        )
        .bind(parent)
        .bind(weeks_ago)
        .fetch_one(&mut superuser)
        .await
        .expect("a statement");
        sqlx::query(AssertSqlSafe(create)).execute(&mut superuser).await.expect("a partition");
    }
}

/// The id of a run that was accepted in the middle of the week that was so many weeks ago.
async fn id_of(world: &World, weeks_ago: i32) -> RunId {
    let id: Uuid = sqlx::query_scalar(
        "SELECT overlay(uuid_floor(date_trunc('week', now()) - make_interval(weeks => $1, days => -3))::text
             PLACING '7' || substr(gen_random_uuid()::text, 16) FROM 15)::uuid",
    )
    .bind(weeks_ago)
    .fetch_one(&mut world.superuser().await)
    .await
    .expect("an id");
    RunId(id)
}

/// A run of that week that ended so many days ago.
async fn ended(world: &World, weeks_ago: i32, days_ago: i32) -> RunId {
    let id = id_of(world, weeks_ago).await;
    world.cancelled(|new| new.run_id = id).await;
    age(world, id, days_ago).await;
    id
}

async fn age(world: &World, run: RunId, days: i32) {
    sqlx::query("UPDATE runs SET finished_at = now() - make_interval(days => $2) WHERE run_id = $1")
        .bind(run.0)
        .bind(days)
        .execute(&mut world.superuser().await)
        .await
        .expect("aged");
}

/// A run of that week that waits for its client.
async fn waiting(world: &World, weeks_ago: i32) -> RunId {
    let id = id_of(world, weeks_ago).await;
    world.start(|new| new.run_id = id).await.expect("a run");
    let (lease, at) = (world.claim(id).await, world.now().await);
    let call = new_call(&world.registry(), "ask_user", &json!({}), at);
    world.fold(lease, first_step(at, vec![call]), Release::Park { wake_at: None }).await;
    id
}

async fn count(world: &World, what: &str, run: RunId) -> i64 {
    let count = AssertSqlSafe(format!("SELECT count(*) FROM {what} WHERE run_id = $1"));
    sqlx::query_scalar(count).bind(run.0).fetch_one(&mut world.superuser().await).await.expect("a count")
}

/// Whether the partition of that week stands.
async fn stands(world: &World, parent: &str, weeks_ago: i32) -> bool {
    sqlx::query_scalar("SELECT to_regclass('public.' || $1 || '_ago' || $2) IS NOT NULL")
        .bind(parent)
        .bind(weeks_ago)
        .fetch_one(&mut world.superuser().await)
        .await
        .expect("an answer")
}

async fn partitions(world: &World) -> i64 {
    let count = "SELECT count(*) FROM pg_class WHERE relispartition AND relkind = 'r'";
    sqlx::query_scalar(count).fetch_one(&mut world.superuser().await).await.expect("a count")
}

#[tokio::test]
async fn a_week_that_nobody_needs_goes_whole() {
    let world = World::new().await;
    week(&world, 10).await;
    let before = partitions(&world).await;
    let run = ended(&world, 10, 31).await;
    assert!(count(&world, "journal_ago10", run).await > 0 && count(&world, "events_ago10", run).await > 0);
    let would = world.store.prune_preview(KEEP).await.expect("counted");
    assert_eq!(would, Pruned { journal_partitions: 1, ..Pruned::default() });
    assert_eq!(partitions(&world).await, before, "counting takes nothing away");
    assert_eq!(prune(&world, KEEP).await, would);
    assert!(!stands(&world, "journal", 10).await);
    assert!(count(&world, "events", run).await > 0, "as long as the run exists, its events do");
    assert_eq!(prune(&world, KEEP).await, Pruned::default(), "nothing is left");

    let would = world.store.prune_preview(KEEP_LESS).await.expect("counted");
    assert_eq!(would, Pruned { runs: 1, event_partitions: 1, ..Pruned::default() });
    assert_eq!(prune(&world, KEEP_LESS).await, would);
    assert!(!stands(&world, "events", 10).await);
    assert!(world.tx().await.run_fetch(run).await.expect("an answer").is_none());
    // The weeks to come are empty, too, and stay.
    assert_eq!(partitions(&world).await, before - 2);
    world.cancelled(|_| ()).await;
}

#[tokio::test]
async fn a_week_of_which_a_run_still_waits_loses_the_others() {
    let world = World::new().await;
    week(&world, 20).await;
    let old = [ended(&world, 20, 90).await, ended(&world, 20, 31).await];
    let (alive, late) = (waiting(&world, 20).await, ended(&world, 20, 29).await);
    let rows = count(&world, "journal", old[0]).await + count(&world, "journal", old[1]).await;
    let would = world.store.prune_preview(KEEP).await.expect("counted");
    assert_eq!(would, Pruned { journal_rows: rows.unsigned_abs(), ..Pruned::default() });
    assert_eq!(prune(&world, KEEP).await, would);
    assert_eq!(count(&world, "journal", old[0]).await + count(&world, "journal", old[1]).await, 0);
    assert!(stands(&world, "journal", 20).await && count(&world, "journal", late).await > 0);
    let before = count(&world, "journal_ago20", alive).await;
    assert!(before > 0);
    // It waited for twenty weeks, and goes on.
    world.end(alive).await;
    assert!(count(&world, "journal_ago20", alive).await > before);
    assert!(prune(&world, KEEP).await.is_empty(), "it has only just ended");
    for run in [alive, late] {
        age(&world, run, 31).await;
    }
    assert_eq!(prune(&world, KEEP).await, Pruned { journal_partitions: 1, ..Pruned::default() });
}

#[tokio::test]
async fn a_week_is_not_touched_before_its_time() {
    let world = World::new().await;
    let now = world.cancelled(|_| ()).await;
    age(&world, now, 3).await;
    let keep = Keep { journal_days: 1, runs_days: None };
    assert!(prune(&world, keep).await.is_empty(), "its week isn't over: its journal goes with the others'");
    week(&world, 3).await;
    let run = ended(&world, 3, 20).await;
    assert!(prune(&world, KEEP).await.is_empty());
    assert!(count(&world, "journal_ago3", run).await > 0);
}

#[tokio::test]
async fn what_stands_in_no_week_goes_run_by_run() {
    let world = World::new().await;
    let (old, alive) = (ended(&world, 30, 40).await, waiting(&world, 30).await);
    let (rows, kept) =
        (count(&world, "journal_default", old).await, count(&world, "journal_default", alive).await);
    assert!(rows > 0 && kept > 0);
    let would = world.store.prune_preview(KEEP).await.expect("counted");
    assert_eq!(would, Pruned { journal_rows: rows.unsigned_abs(), ..Pruned::default() });
    assert_eq!(prune(&world, KEEP).await, would);
    assert_eq!(count(&world, "journal", old).await, 0);
    assert_eq!(count(&world, "journal", alive).await, kept);
}

#[tokio::test]
async fn many_runs_go_in_bounded_rounds() {
    let world = World::new().await;
    let mut runs = Vec::new();
    for _ in 0..60 {
        runs.push(ended(&world, 8, 50).await);
    }
    // Somebody is busy with one of them.
    let mut other = world.superuser().await;
    let mut busy = other.begin().await.expect("a transaction");
    sqlx::query("SELECT FROM run_states WHERE run_id = $1 FOR UPDATE")
        .bind(runs[30].0)
        .execute(&mut *busy)
        .await
        .expect("locked");
    let round = world.store.prune(world.url(), KEEP_LESS, 1).await.expect("pruned").expect("alone");
    assert!(round.more && (1..=25).contains(&round.runs), "{round:?}");
    let rest = prune(&world, KEEP_LESS).await;
    assert_eq!((rest.more, round.runs + rest.runs), (false, 59));
    drop(busy);
    drop(other);
    // The server side takes a moment to see that the lock is given back.
    let (mut last, deadline) = (0, Instant::now() + Duration::from_secs(10));
    while last == 0 && Instant::now() < deadline {
        last = prune(&world, KEEP_LESS).await.runs;
    }
    assert_eq!(last, 1);
}

#[tokio::test]
async fn journals_go_in_bounded_rounds() {
    let world = World::new().await;
    let alive = waiting(&world, 30).await;
    for _ in 0..130 {
        ended(&world, 30, 40).await;
    }
    let round = world.store.prune(world.url(), KEEP, 1).await.expect("pruned").expect("alone");
    assert!(round.more && round.journal_rows >= 99, "{round:?}");
    let rest = prune(&world, KEEP).await;
    assert!(!rest.more && rest.journal_rows >= 30, "{rest:?}");
    let left: i64 = sqlx::query_scalar("SELECT count(DISTINCT run_id) FROM journal")
        .fetch_one(&mut world.superuser().await)
        .await
        .expect("a count");
    assert_eq!(left, 1);
    assert!(count(&world, "journal", alive).await > 0);
}

#[tokio::test]
async fn a_run_whose_lease_is_kept_for_late_calls_waits() {
    let world = World::new().await;
    let id = id_of(&world, 9).await;
    world.start(|new| new.run_id = id).await.expect("a run");
    let (lease, at) = (world.claim(id).await, world.now().await);
    world.fold(lease, vec![Event::CancelRequested { at, reason: None }], Release::EndWithLateCalls).await;
    age(&world, id, 60).await;
    assert_eq!(prune(&world, KEEP_LESS).await.runs, 0);
    world.engine.settle_ended(lease).await.expect("settled");
    assert_eq!(prune(&world, KEEP_LESS).await.runs, 1);
}

#[tokio::test]
async fn settled_deliveries_and_old_answers_go() {
    let world = World::new().await;
    let new = NewWebhook {
        url: "https://hooks.example/".into(),
        events: vec!["*".into()],
        description: None,
        include_input: false,
    };
    let mut tx = world.tx().await;
    let hook = WebhookId(tx.webhook_create(&new).await.expect("a webhook").0.webhook_id);
    for _ in 0..4 {
        tx.delivery_create(hook, "webhook.test", "{}").await.expect("an answer").expect("a delivery");
    }
    tx.commit().await.expect("committed");
    let mut superuser = world.superuser().await;
    for change in [
        // Of the four: settled and old, settled and new, pending and old, pending and new.
        "UPDATE deliveries SET status = 'delivered', next_attempt_at = NULL WHERE ord % 2 = 0",
        "UPDATE deliveries SET created_at = now() - interval '31 days' WHERE ord % 4 < 2",
        "INSERT INTO idempotency_keys (tenant_id, route, key, request_hash, created_at)
         SELECT gen_random_uuid(), 'r', n::text, '', now() - make_interval(hours => 13 * n) FROM generate_series(1, 3) n",
    ] {
        sqlx::query(change).execute(&mut superuser).await.expect(change);
    }
    let would = world.store.prune_preview(KEEP).await.expect("counted");
    assert_eq!(would, Pruned { deliveries: 1, idempotency_keys: 2, ..Pruned::default() });
    assert_eq!(prune(&world, KEEP).await, would);
    assert_eq!(
        world
            .tx()
            .await
            .delivery_list(hook, &DeliveryFilter::default(), None, 9)
            .await
            .expect("deliveries")
            .len(),
        3
    );
}

#[tokio::test]
async fn one_prunes_at_a_time() {
    let world = World::new().await;
    week(&world, 10).await;
    ended(&world, 10, 31).await;
    let mut other = world.superuser().await;
    sqlx::query("SELECT pg_advisory_lock(x'616e73777072756e'::bigint)")
        .execute(&mut other)
        .await
        .expect("locked");
    assert_eq!(world.store.prune(world.url(), KEEP, NO_END).await.expect("an answer"), None);
    assert!(stands(&world, "journal", 10).await);
    other.close().await.expect("closed");
    let both = tokio::join!(
        world.store.prune(world.url(), KEEP, NO_END),
        world.store.prune(world.url(), KEEP, NO_END)
    );
    let gone: Vec<Pruned> = [both.0, both.1].into_iter().filter_map(|one| one.expect("an answer")).collect();
    assert!(!gone.is_empty());
    assert_eq!(gone.iter().map(|one| one.journal_partitions).sum::<u64>(), 1, "{gone:?}");
}

#[tokio::test]
async fn a_week_in_use_is_left_for_the_next_time_and_keeps_nobody_waiting() {
    let world = World::new().await;
    week(&world, 10).await;
    ended(&world, 10, 31).await;
    let mut reader = PgConnection::connect(world.url()).await.expect("a connection");
    let mut reading = reader.begin().await.expect("a transaction");
    sqlx::query("SELECT count(*) FROM journal").execute(&mut *reading).await.expect("read");
    let began = Instant::now();
    // Meanwhile runs are accepted, work and end.
    let work = async {
        let mut longest = Duration::ZERO;
        for _ in 0..10 {
            let began = Instant::now();
            world.cancelled(|_| ()).await;
            longest = longest.max(began.elapsed());
        }
        longest
    };
    let (pruned, longest) = tokio::join!(prune(&world, KEEP), work);
    assert_eq!(pruned, Pruned { in_use: 1, ..Pruned::default() });
    assert!(began.elapsed() < Duration::from_secs(20) && longest < Duration::from_secs(5), "{longest:?}");
    assert!(stands(&world, "journal", 10).await);
    reading.commit().await.expect("the end");
    assert_eq!(prune(&world, KEEP).await.journal_partitions, 1);
}

#[tokio::test]
async fn only_weeks_of_events_and_journals_can_be_dropped() {
    let world = World::new().await;
    let mut superuser = world.superuser().await;
    for name in ["runs", "journal", "journal_default", "nothing", "runs; DROP TABLE runs"] {
        let dropped = sqlx::query("SELECT drop_partition($1)").bind(name).execute(&mut superuser).await;
        assert!(dropped.is_err(), "{name}");
    }
}
