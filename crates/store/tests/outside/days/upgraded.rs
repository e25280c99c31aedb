//! What was used before days had sums: counted by the migration, by an owner who sees no tenant's rows.

use answerable_core::id::TenantId;
use answerable_store::{ConnectOptions, Sealer, Signals, Store, UsageBy, migrate};
use chrono::{TimeDelta, Utc};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

use crate::migrating::{migrate_before, owned};

const TENANT: Uuid = Uuid::from_u128(7);
/// The last migration before.
const BEFORE: i64 = 24;

/// A run of today with a failed attempt, which brought something along and called another; one that has not begun; a replay;
/// and one of yesterday that is deleted.
const ROWS: &str = r#"
    INSERT INTO tenants (tenant_id, name) VALUES ('TENANT', 'a shop');
    INSERT INTO agent_specs (tenant_id, spec_hash, spec) VALUES ('TENANT', 'h', '{}');
    INSERT INTO runs (tenant_id, run_id, spec_hash, workspace_id, context, metadata, budgets, trace_id, created_by, origin_kind,
            origin_run_id, origin_step)
        SELECT 'TENANT', ('00000000-0000-7000-8000-00000000000' || n)::uuid, 'h', gen_random_uuid(), '{}', '{}', '{}',
            repeat('a', 32), 'user:bob', CASE WHEN n = 3 THEN 'replay' END,
            CASE WHEN n = 3 THEN '00000000-0000-7000-8000-000000000001'::uuid END, CASE WHEN n = 3 THEN 0 END
        FROM generate_series(1, 3) AS n;
    INSERT INTO run_states (tenant_id, run_id, seq, state) VALUES
        ('TENANT', '00000000-0000-7000-8000-000000000001', 4, '{"used": {"steps": 3, "input_tokens": 170, "output_tokens": 40,
            "tool_calls": 2, "cost_microusd": 90},
          "inherited": {"used": {"steps": 1, "input_tokens": 30, "output_tokens": 10, "tool_calls": 1, "cost_microusd": 20}},
          "by_children": {"steps": 0, "input_tokens": 50, "output_tokens": 10, "tool_calls": 0, "cost_microusd": 30}}'),
        ('TENANT', '00000000-0000-7000-8000-000000000002', 0, '{"used": {"steps": 0, "input_tokens": 0, "output_tokens": 0,
            "tool_calls": 0, "cost_microusd": 0}}'),
        ('TENANT', '00000000-0000-7000-8000-000000000003', 2, '{"used": {"steps": 3, "input_tokens": 170, "output_tokens": 40,
            "tool_calls": 2, "cost_microusd": 90}}');
    INSERT INTO steps (tenant_id, run_id, number, context, started_at, model)
        SELECT 'TENANT', '00000000-0000-7000-8000-000000000001', n, '{}', now(), '{"provider": "main", "model": "m",
            "attempts": 1, "input_tokens": 40, "cached_input_tokens": 5, "output_tokens": 10, "cost_microusd": 20}'
        FROM generate_series(2, 3) AS n;
    INSERT INTO past_usage (tenant_id, created_at, steps, tool_calls, input_tokens, output_tokens, cost_microusd, models) VALUES
        ('TENANT', now() - interval '1 day', 1, 0, 9, 1, 4,
         '[{"name": "alt/n", "steps": 1, "tool_calls": 0, "input_tokens": 7, "output_tokens": 1, "cost_microusd": 3}]');"#;

#[tokio::test]
async fn what_was_used_before_is_counted() {
    let (database, url) = owned().await;
    migrate_before(&url, BEFORE).await;
    let mut superuser = PgConnection::connect(&database.url).await.expect("a connection");
    let rows = AssertSqlSafe(ROWS.replace("TENANT", &TENANT.to_string()));
    sqlx::raw_sql(rows).execute(&mut superuser).await.expect("rows");
    migrate(&url).await.expect("migrated");

    let options = ConnectOptions { url: url.clone(), max_connections: 4, prepared_statements: true };
    let store = Store::connect(&options, Sealer::new(&[7; 32]), Signals::new().0).expect("a store");
    let mut tx = store.tenant(TenantId(TENANT)).await.expect("a transaction");
    let (from, to) = (Utc::now() - TimeDelta::days(9), Utc::now());
    let by = |day, model| UsageBy { day, agent: false, model };
    let days = tx.usage_list(from, to, by(true, false), 10).await.expect("rows");
    let told: Vec<_> = days
        .iter()
        .map(|row| {
            (row.runs, row.steps, row.tool_calls, row.input_tokens, row.output_tokens, row.cost_microusd)
        })
        .collect();
    assert_eq!(told, [(1, 1, 0, 9, 1, 4), (1, 2, 1, 90, 20, 40)]);
    let models = tx.usage_list(from, to, by(false, true), 10).await.expect("rows");
    let told: Vec<_> = models
        .iter()
        .map(|row| (row.model.as_deref(), row.runs, row.input_tokens, row.cached_input_tokens))
        .collect();
    assert_eq!(told, [(Some("main/m"), 1, 80, 10), (None, 0, 12, 0), (Some("alt/n"), 1, 7, 0)]);
    let quotas = tx.quota_list().await.expect("quotas");
    let used = |name| quotas.iter().find(|quota| quota.name == name).map(|quota| quota.used);
    assert_eq!(used("max_tokens_per_day"), Some(110), "of today alone");
    assert_eq!(used("max_cost_microusd_per_day"), Some(40));
    drop(tx);
    store.close().await;
}
