//! Row-level security itself: statements that name no tenant see one tenant's rows alone, although the connection is a
//! superuser's.

use std::collections::BTreeMap;
use std::task::Poll;

use answerable_core::id::TenantId;
use answerable_testkit::TestDatabase;
use serde_json::{Map, json};
use sqlx::AssertSqlSafe;

use crate::{ConnectOptions, Sealer, Signals, Store};

/// Every table with a tenant.
async fn tables(store: &Store) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.columns
         WHERE table_schema = 'public' AND column_name = 'tenant_id' AND table_name !~ '^(events|journal)_'",
    )
    .fetch_all(store.pool())
    .await
    .expect("tables")
}

async fn store(database: &TestDatabase) -> Store {
    let options = ConnectOptions { url: database.url.clone(), max_connections: 4, prepared_statements: true };
    Store::connect(&options, Sealer::new(&[7; 32]), Signals::new().0).expect("a store")
}

/// A tenant with rows in the tables that need no run.
async fn tenant(store: &Store) -> TenantId {
    let mut tx = store.system().await.expect("tx");
    let tenant = TenantId(tx.tenant_create("a", &Map::new(), false).await.expect("a tenant").tenant_id);
    tx.commit().await.expect("commit");
    let mut tx = store.tenant(tenant).await.expect("tx");
    tx.secret_put("shop", &"s".into()).await.expect("a secret");
    tx.signing_secrets().await.expect("a signing secret");
    tx.policy_put(&json!({}), "key_1").await.expect("a policy");
    tx.thread_create(&BTreeMap::new()).await.expect("a thread");
    tx.commit().await.expect("commit");
    tenant
}

#[tokio::test]
async fn statements_without_a_tenant_see_their_own_rows_alone() {
    let database = TestDatabase::create().await.expect("a database");
    let store = store(&database).await;
    let (a, b) = (tenant(&store).await, tenant(&store).await);
    let tables = tables(&store).await;
    assert!(tables.len() >= 27, "{tables:?}");
    for table in &tables {
        for (own, other) in [(a, b), (b, a)] {
            let mut tx = store.tenant(own).await.expect("tx");
            let count = format!("SELECT count(*) FROM {table} WHERE tenant_id <> '{}'", own.0);
            let strange: i64 =
                sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(tx.conn()).await.expect("a count");
            assert_eq!(strange, 0, "{table} shows another tenant's rows");
            let delete = format!("DELETE FROM {table} WHERE tenant_id = '{}'", other.0);
            match sqlx::query(AssertSqlSafe(delete)).execute(tx.conn()).await {
                Ok(done) => {
                    assert_eq!(done.rows_affected(), 0, "{table} lets another tenant's rows be deleted")
                }
                // From some tables nobody deletes.
                Err(refused) => assert!(refused.to_string().contains("permission denied"), "{refused}"),
            }
        }
    }
    let mut tx = store.tenant(a).await.expect("tx");
    let own: i64 =
        sqlx::query_scalar("SELECT count(*) FROM secrets").fetch_one(tx.conn()).await.expect("a count");
    assert_eq!(own, 1);
    let stolen = sqlx::query(
        "INSERT INTO threads (tenant_id, thread_id, workspace_id) VALUES ($1, gen_random_uuid(), gen_random_uuid())",
    );
    assert!(stolen.bind(b.0).execute(tx.conn()).await.is_err(), "a row was written for another tenant");
}

#[tokio::test]
async fn the_system_role_reaches_no_settings_or_bodies() {
    let database = TestDatabase::create().await.expect("a database");
    let store = store(&database).await;
    tenant(&store).await;
    for table in [
        "secrets",
        "signing_secrets",
        "providers",
        "tenant_policies",
        "messages",
        "calls",
        "artifacts",
        "events",
        "workspaces",
        "workspace_seen",
        "workspace_calls",
    ] {
        let mut tx = store.system().await.expect("tx");
        let count = format!("SELECT count(*) FROM {table}");
        let seen = sqlx::query_scalar::<_, i64>(AssertSqlSafe(count)).fetch_one(tx.conn()).await;
        assert!(seen.is_err(), "{table} is open to the system role");
    }
}

#[tokio::test]
async fn the_system_role_sees_whose_a_journal_is_and_not_what_is_in_it() {
    let database = TestDatabase::create().await.expect("a database");
    let store = store(&database).await;
    for (statement, may) in [
        ("SELECT tenant_id, run_id FROM journal", true),
        ("SELECT run_id FROM run_lineage", true),
        ("SELECT event FROM journal", false),
        ("SELECT journal FROM journal", false),
        ("DELETE FROM journal RETURNING event", false),
        ("DELETE FROM journal WHERE event IS NULL", false),
        ("UPDATE journal SET run_id = run_id", false),
        ("INSERT INTO journal (tenant_id, run_id) SELECT tenant_id, run_id FROM journal", false),
        ("DELETE FROM runs", false),
        ("SELECT * FROM past_usage", false),
        ("SELECT drop_partition('x')", false),
    ] {
        let mut tx = store.system().await.expect("tx");
        let done = sqlx::query(statement).execute(tx.conn()).await;
        assert_eq!(done.is_ok(), may, "{statement}: {done:?}");
    }
}

#[tokio::test]
async fn the_system_role_sees_since_when_effects_are_unsettled_and_no_other_entry() {
    let database = TestDatabase::create().await.expect("a database");
    let store = store(&database).await;
    for (statement, may) in [
        ("SELECT count(finished_at), min(finished_at) FROM ledger", true),
        ("SELECT status FROM ledger", false),
        ("SELECT resolution FROM ledger", false),
        ("SELECT idempotency_key FROM ledger", false),
        ("SELECT tenant_id FROM ledger", false),
        ("UPDATE ledger SET finished_at = now()", false),
        ("DELETE FROM ledger", false),
    ] {
        let mut tx = store.system().await.expect("tx");
        let done = sqlx::query(statement).execute(tx.conn()).await;
        assert_eq!(done.is_ok(), may, "{statement}: {done:?}");
    }
}

#[tokio::test]
async fn the_system_role_sees_which_contents_are_used_and_not_what_is_in_them() {
    let database = TestDatabase::create().await.expect("a database");
    let store = store(&database).await;
    for (statement, may) in [
        ("SELECT tenant_id, sha256, object, unused_since FROM blobs FOR UPDATE", true),
        ("SELECT tenant_id, sha256 FROM workspace_files", true),
        ("SELECT content FROM blobs", false),
        ("SELECT path FROM workspace_files", false),
        ("DELETE FROM blobs RETURNING content", false),
        ("UPDATE blobs SET content = NULL", false),
        ("UPDATE workspace_files SET sha256 = NULL", false),
        ("DELETE FROM workspace_files", false),
        ("INSERT INTO gone_tenants VALUES (gen_random_uuid())", false),
        ("DELETE FROM gone_objects", true),
        ("UPDATE gone_objects SET tenant_id = NULL", false),
    ] {
        let mut tx = store.system().await.expect("tx");
        let done = sqlx::query(statement).execute(tx.conn()).await;
        assert_eq!(done.is_ok(), may, "{statement}: {done:?}");
    }
}

#[tokio::test]
async fn a_transaction_that_is_dropped_while_it_begins_leaves_its_connection_clean() {
    let database = TestDatabase::create().await.expect("a database");
    let options = ConnectOptions { url: database.url.clone(), max_connections: 1, prepared_statements: true };
    let store = Store::connect(&options, Sealer::new(&[7; 32]), Signals::new().0).expect("a store");
    let connected: String =
        sqlx::query_scalar("SELECT current_user::text").fetch_one(store.pool()).await.expect("a name");
    let mut cut = 0;
    for polls in 0..12 {
        let begun = polled(store.tenant(TenantId(uuid::Uuid::nil())), polls).await;
        cut += u32::from(begun.is_none());
        drop(begun);
        // A statement that is its own transaction, as the engine's commit is.
        let now: String =
            sqlx::query_scalar("SELECT current_user::text").fetch_one(store.pool()).await.expect("a name");
        assert_eq!(now, connected, "left within a transaction after {polls} polls");
    }
    assert!(cut > 0, "nothing was dropped");
}

/// Polls a future so often at most, then drops it.
async fn polled<T>(future: impl Future<Output = T>, most: usize) -> Option<T> {
    let (mut future, mut polls) = (Box::pin(future), 0);
    std::future::poll_fn(|context| {
        polls += 1;
        if polls > most { Poll::Ready(None) } else { future.as_mut().poll(context).map(Some) }
    })
    .await
}

#[tokio::test]
async fn a_transactions_tenant_and_role_end_with_it() {
    let database = TestDatabase::create().await.expect("a database");
    let options = ConnectOptions { url: database.url.clone(), max_connections: 1, prepared_statements: true };
    let store = Store::connect(&options, Sealer::new(&[7; 32]), Signals::new().0).expect("a store");
    let who = "SELECT current_user || ' ' || coalesce(current_setting('app.tenant', true), '')";
    let now =
        || async { sqlx::query_scalar::<_, String>(who).fetch_one(store.pool()).await.expect("a name") };
    let connected = now().await;
    let tenant = TenantId(uuid::Uuid::from_u128(7));
    for commits in [true, false] {
        let mut tx = store.tenant(tenant).await.expect("tx");
        let within: String = sqlx::query_scalar(who).fetch_one(tx.conn()).await.expect("a name");
        assert_eq!(within, format!("answerable_app {}", tenant.0));
        if commits {
            tx.commit().await.expect("committed");
        } else {
            drop(tx);
        }
        assert_eq!(now().await.trim(), connected.trim(), "commits: {commits}");
    }
}
