//! Migrations over what is there already, by an owner of the database who is no superuser and sees no tenant's rows.

use std::borrow::Cow;

use answerable_core::id::TenantId;
use answerable_store::{ConnectOptions, GrantFilter, Sealer, Signals, Store, migrate};
use answerable_testkit::TestDatabase;
use serde_json::json;
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

const TENANT: Uuid = Uuid::from_u128(7);
/// The last migration that was released before rules had numbers.
const BEFORE: i64 = 18;

/// What was written by then.
const ROWS: &str = "
    INSERT INTO tenants (tenant_id, name) VALUES ('TENANT', 'a shop');
    INSERT INTO tenant_policies (tenant_id, version, policy) VALUES ('TENANT', 3, '{\"rules\": []}');
    INSERT INTO grants (tenant_id, grant_id, tool_name, scope, match, created_by) VALUES
        ('TENANT', gen_random_uuid(), 'pay', 'tenant', 'tool', 'user:ann');
    INSERT INTO webhooks (tenant_id, webhook_id, url, events, sealed) VALUES
        ('TENANT', 'TENANT', 'https://hooks.example/', '{*}', '');
    INSERT INTO deliveries (tenant_id, delivery_id, webhook_id, type, body, attempts, next_attempt_at, created_at) VALUES
        ('TENANT', 'TENANT', 'TENANT', 'run.failed', '{}', '[{}, {}]', now(), now());
    INSERT INTO agent_specs (tenant_id, spec_hash, spec) VALUES ('TENANT', 'h', '{}');
    INSERT INTO runs (tenant_id, run_id, spec_hash, workspace_id, context, metadata, budgets, trace_id, created_by) VALUES
        ('TENANT', 'TENANT', 'h', gen_random_uuid(), '{}', '{}', '{}', repeat('a', 32), 'user:bob');
    INSERT INTO approvals (tenant_id, approval_id, run_id, step, kind, reason, status, required, expires_at, created_at,
        decision, decided_at, decided_by) VALUES
        ('TENANT', 'TENANT', 'TENANT', 1, 'tool_call', 'r', 'approved', 1, now(), now(), 'approve', now(), 'user:ann');";

/// A database of an owner who may take the two roles and nothing else, with where the owner connects.
pub(crate) async fn owned() -> (TestDatabase, String) {
    let database = TestDatabase::empty().await.expect("a database");
    let mut superuser = PgConnection::connect(&database.url).await.expect("a connection");
    for statement in [
        "DO $$ BEGIN CREATE ROLE answerable_test_owner LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$",
        // The cluster's template has made these two.
        "GRANT answerable_app, answerable_system TO answerable_test_owner",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO answerable_test_owner', current_database()); END $$",
    ] {
        sqlx::raw_sql(statement).execute(&mut superuser).await.expect(statement);
    }
    let url = database.url.replacen("postgres@", "answerable_test_owner@", 1);
    let mut owner = PgConnection::connect(&url).await.expect("a connection");
    let plain = sqlx::query_scalar("SELECT current_setting('is_superuser')").fetch_one(&mut owner).await;
    assert_eq!(plain.ok(), Some("off".to_owned()));
    (database, url)
}

pub(crate) async fn migrate_before(url: &str, last: i64) {
    let all = Migrator::new(std::path::Path::new("../../migrations")).await.expect("migrations");
    let before = all.iter().filter(|migration| migration.version <= last).cloned().collect();
    let mut owner = PgConnection::connect(url).await.expect("a connection");
    let before = Migrator { migrations: Cow::Owned(before), ..Migrator::DEFAULT };
    before.run(&mut owner).await.expect("as it was");
}

#[tokio::test]
async fn what_is_there_is_kept_whoever_owns_the_database() {
    let (database, url) = owned().await;
    migrate_before(&url, BEFORE).await;
    let mut superuser = PgConnection::connect(&database.url).await.expect("a connection");
    let rows = AssertSqlSafe(ROWS.replace("TENANT", &TENANT.to_string()));
    sqlx::raw_sql(rows).execute(&mut superuser).await.expect("rows");
    migrate(&url).await.expect("migrated");

    let options = ConnectOptions { url: url.clone(), max_connections: 4, prepared_statements: true };
    let store = Store::connect(&options, Sealer::new(&[7; 32]), Signals::new().0).expect("a store");
    let mut tx = store.tenant(TenantId(TENANT)).await.expect("a transaction");
    let version = tx.policy_version(3).await.expect("an answer").expect("the version");
    assert_eq!((version.policy, version.updated_by), (json!({"rules": []}), None));
    let grants = tx.grant_list(&GrantFilter::default(), None, 10).await.expect("grants");
    assert_eq!(
        (grants.len(), &grants[0].deciders, &*grants[0].max_risk),
        (1, &vec!["user:ann".into()], "high")
    );
    // Its changes have numbers, and its acts a chain.
    let put = tx.policy_put(&json!({}), "user:cid").await.expect("a policy");
    assert_eq!(put.version, 4);
    tx.commit().await.expect("committed");
    for (what, sql) in [
        ("its rules", "SELECT number = 1 FROM tenant_rules WHERE tenant_id = $1"),
        ("its versions", "SELECT count(*) = 2 FROM tenant_policy_versions WHERE tenant_id = $1"),
        ("its chain", "SELECT seq = 1 FROM audit_heads WHERE tenant_id = $1"),
        ("tries", "SELECT tries = 2 FROM deliveries WHERE tenant_id = $1"),
        ("an approval", "SELECT self_approval AND used_at IS NULL FROM approvals WHERE tenant_id = $1"),
        (
            "its counts",
            "SELECT count(*) = 1 AND sum(used) = 1 FROM tenant_counts WHERE tenant_id = $1 AND kind = 'webhooks'",
        ),
        ("a run", "SELECT creators = '{}' AND policy IS NULL FROM runs WHERE tenant_id = $1"),
        // Whatever a migration opened for a while.
        (
            "walls",
            "SELECT bool_and(relforcerowsecurity) FROM pg_class WHERE relrowsecurity AND $1 IS NOT NULL",
        ),
    ] {
        let is_so: Option<bool> =
            sqlx::query_scalar(sql).bind(TENANT).fetch_one(&mut superuser).await.expect(what);
        assert_eq!(is_so, Some(true), "{what}");
    }
    store.close().await;
}
