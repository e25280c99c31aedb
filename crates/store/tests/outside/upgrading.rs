//! Migrations beside servers that work.

use std::collections::BTreeSet;
use std::time::Duration;

use answerable_store::migrate;
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::time::{Instant, timeout};

use crate::migrating::{migrate_before, owned};

/// The last one that locks tables as it comes to them.
const BEFORE: i64 = 22;
const LOCKS: &str = "SELECT lock_tables(";
const DEADLINE: Duration = Duration::from_secs(30);

/// Locks of its own that keep somebody from writing or reading a table: which tables of `known`, and how.
async fn locked(db: &mut PgConnection, known: &[String]) -> BTreeSet<(String, String)> {
    let own = "SELECT c.relname::text, l.mode FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
               WHERE l.pid = pg_backend_pid() AND c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
                   AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')";
    let own: Vec<(String, String)> = sqlx::query_as(own).fetch_all(db).await.expect("locks");
    own.into_iter().filter(|(table, _)| known.contains(table)).collect()
}

/// Does it, looks what is locked, and undoes it.
async fn locked_by(db: &mut PgConnection, sql: &str, known: &[String]) -> BTreeSet<(String, String)> {
    let mut tx = db.begin().await.expect("begun");
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *tx).await.expect("done");
    let locked = locked(&mut tx, known).await;
    tx.rollback().await.expect("undone");
    locked
}

#[tokio::test]
async fn a_migration_takes_all_its_locks_at_once_and_first() {
    let (database, url) = owned().await;
    migrate_before(&url, BEFORE).await;
    let mut db = PgConnection::connect(&url).await.expect("a connection");
    let all = Migrator::new(std::path::Path::new("../../migrations")).await.expect("migrations");
    let mut seen = 0;
    for migration in all.iter().filter(|migration| migration.version > BEFORE) {
        let known = "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace";
        let known: Vec<String> = sqlx::query_scalar(known).fetch_all(&mut db).await.expect("tables");
        let sql = migration.sql.as_str();
        let first = sql.find(LOCKS).map(|at| {
            let end = sql[at..].find(';').expect("its end");
            &sql[..at + end + 1]
        });
        let at_first = match first {
            Some(first) => locked_by(&mut db, first, &known).await,
            None => BTreeSet::new(),
        };
        let in_all = locked_by(&mut db, sql, &known).await;
        let tables = |locked: &BTreeSet<(String, String)>| -> BTreeSet<String> {
            locked.iter().map(|(table, _)| table.clone()).collect()
        };
        assert_eq!(tables(&at_first), tables(&in_all), "{}", migration.version);
        // A stronger lock on top would be waited for like any other.
        for (table, mode) in &in_all {
            let has = |mode: &str| at_first.contains(&(table.clone(), mode.to_owned()));
            assert!(has(mode) || has("AccessExclusiveLock"), "{}: {mode} on {table}", migration.version);
        }
        seen += at_first.len();
        let mut tx = db.begin().await.expect("begun");
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *tx).await.expect("done");
        tx.commit().await.expect("committed");
    }
    assert!(seen >= 10, "tables that are in use are locked: {seen}");
    drop(database);
}

#[tokio::test]
async fn a_commit_that_is_under_way_and_a_migration_do_not_wait_in_a_circle() {
    let (database, url) = owned().await;
    migrate_before(&url, 24).await;
    let mut commit = PgConnection::connect(&database.url).await.expect("a connection");
    let mut look = PgConnection::connect(&database.url).await.expect("a connection");
    let mut tx = commit.begin().await.expect("begun");
    sqlx::query("UPDATE run_states SET epoch = epoch").execute(&mut *tx).await.expect("a state");
    let migration = tokio::spawn(async move { migrate(&url).await });
    let waits =
        "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database
                 WHERE datname = current_database()))";
    let deadline = Instant::now() + DEADLINE;
    while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut look).await.expect("an answer") {
        assert!(Instant::now() < deadline && !migration.is_finished(), "it waits for nobody");
    }
    timeout(DEADLINE, sqlx::query("UPDATE runs SET metadata = metadata").execute(&mut *tx))
        .await
        .expect("in time")
        .expect("the run beside it");
    tx.commit().await.expect("committed");
    timeout(DEADLINE, migration).await.expect("in time").expect("no panic").expect("migrated");
}

/// PostgreSQL calls off its own vacuum of a table for whoever has waited for that long.
#[tokio::test]
async fn a_migration_waits_long_enough_to_have_a_vacuum_called_off_and_holds_nothing_meanwhile() {
    let (database, url) = owned().await;
    migrate_before(&url, 23).await;
    let mut vacuum = PgConnection::connect(&database.url).await.expect("a connection");
    let mut look = PgConnection::connect(&database.url).await.expect("a connection");
    let mut tx = vacuum.begin().await.expect("begun");
    // As a vacuum does it, and no commit.
    sqlx::query("LOCK TABLE runs IN SHARE UPDATE EXCLUSIVE MODE").execute(&mut *tx).await.expect("locked");
    let mut migration = PgConnection::connect(&url).await.expect("a connection");
    let migration = tokio::spawn(async move {
        let mut tx = migration.begin().await.expect("begun");
        sqlx::raw_sql("SELECT lock_tables('SHARE ROW EXCLUSIVE', 'run_states', 'runs')")
            .execute(&mut *tx)
            .await?;
        tx.commit().await
    });
    // Nobody who comes for the other table waits for it.
    let waits = "SELECT EXISTS (SELECT FROM pg_locks w JOIN pg_settings s ON s.name = 'deadlock_timeout'
                 WHERE NOT w.granted AND w.relation = 'runs'::regclass
                     AND w.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                     AND clock_timestamp() - w.waitstart > s.setting::integer * interval '1 millisecond'
                     AND NOT EXISTS (SELECT FROM pg_locks h
                         WHERE h.pid = w.pid AND h.granted AND h.relation = 'run_states'::regclass))";
    let deadline = Instant::now() + DEADLINE;
    while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut look).await.expect("an answer") {
        assert!(Instant::now() < deadline && !migration.is_finished(), "it never waits for long");
    }
    tx.rollback().await.expect("undone");
    timeout(DEADLINE, migration).await.expect("in time").expect("no panic").expect("locked");
}
