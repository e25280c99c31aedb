//! An export has every row that is a tenant's own, and nothing that is secret.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use answerable_store::{ExportKind, ExportPlace, Workspaces};
use serde_json::{Map, Value};
use sqlx::AssertSqlSafe;

use crate::files::shelf::Shelf;
use crate::tenancy::full;
use crate::world::World;

/// Tables with a tenant that are not exported, and why.
const NOT_EXPORTED: &[(&str, &str)] = &[
    ("audit_heads", "the last entry of the audit says the same"),
    ("blobs", "what files hold is exported with the files"),
    ("day_allowances", "what requests that are out may take"),
    ("day_use", "usage_day says the same"),
    ("gone_objects", "of objects that are about to be taken away"),
    ("gone_tenants", "of tenants that are gone"),
    ("idempotency_keys", "first answers of a day, some of them sealed"),
    ("inherited_effects", "follows from the runs that a run stands on, and from their ledgers"),
    ("journal", "the servers' own record, which is downloaded run by run"),
    ("request_windows", "requests of this minute"),
    ("run_lineage", "follows from the runs' origins"),
    ("run_queue", "what servers are about to do"),
    ("run_states", "the servers' own form of what runs, steps, calls and the ledger say"),
    ("span_outbox", "what is still to be sent to a collector"),
    ("suspensions", "the audit says when the tenant was suspended"),
    ("tenant_counts", "how much there is"),
    ("tenant_rules", "a number of the servers' own"),
    ("tool_begun", "calls of a limited tool that were just begun"),
    ("tool_limits", "how a limit stands"),
    ("tool_places", "calls of a limited tool that are out"),
    ("workspace_calls", "what calls' results say"),
    ("workspace_seen", "which version of a file a run saw last"),
];

/// Columns that no export has, in whatever table.
const SECRET_COLUMNS: [&str; 4] = ["sealed", "sealed_before", "secret_hash", "previous_hash"];
/// The servers' own, by table. All tables: `tenant_id`, `ord`.
const OWN_COLUMNS: &[(&str, &[&str])] = &[
    ("artifacts", &["content"]),
    ("approvals", &["step"]),
    ("checkpoints", &["state"]),
    ("children", &["stop_at", "told_at"]),
    ("deliveries", &["next_attempt_at", "lease_until", "tries", "queued_at"]),
    ("grants", &["decider_keys"]),
    ("ledger", &["until"]),
    ("mcp_servers", &["version"]),
    ("run_tools", &["hash"]),
    ("runs", &["lineage_length", "trace_parent", "trace_link"]),
    ("schedules", &["asker", "creators", "as_admin", "dealt_until", "seen_at"]),
    ("tenants", &["max_concurrent_runs", "weight"]),
    ("usage_days", &["part", "model_runs"]),
    ("webhooks", &["answers_since", "failed_at", "resting_until", "before_until"]),
];

async fn exported(world: &World, kind: ExportKind) -> Vec<Map<String, Value>> {
    let (mut all, mut after) = (Vec::new(), ExportPlace::default());
    loop {
        let page =
            world.tx().await.export_page(kind, &after).await.expect("a page").expect("the tenant is there");
        let Some(last) = page.last() else { return all };
        assert_ne!(last.place(), after, "{kind:?} goes on");
        after = last.place();
        all.extend(
            page.iter().map(|row| serde_json::from_str::<Map<String, Value>>(&row.data).expect("an object")),
        );
    }
}

async fn filled() -> World {
    let world = World::new().await;
    let files = Workspaces::new(world.store.clone(), Arc::new(Shelf::default()));
    full::fill(&world, &files, "canary").await;
    world
}

#[tokio::test]
async fn every_row_of_a_tenant_is_exported_or_there_is_a_reason() {
    let world = filled().await;
    let mut db = world.superuser().await;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT c.table_name::text FROM information_schema.columns c JOIN information_schema.tables t
             ON t.table_schema = c.table_schema AND t.table_name = c.table_name
         WHERE c.table_schema = 'public' AND c.column_name = 'tenant_id' AND t.table_type = 'BASE TABLE'
             AND c.table_name !~ '^(events|journal)_' ORDER BY 1",
    )
    .fetch_all(&mut db)
    .await
    .expect("tables");
    let kinds: BTreeMap<&str, ExportKind> =
        ExportKind::ALL.iter().copied().map(|kind| (kind.table(), kind)).collect();
    assert_eq!(kinds.len(), ExportKind::ALL.len());
    let left_out: BTreeMap<&str, &str> = NOT_EXPORTED.iter().copied().collect();
    for table in &tables {
        let kind = kinds.get(table.as_str());
        assert_ne!(
            kind.is_some(),
            left_out.contains_key(table.as_str()),
            "{table} is exported, or there is a reason"
        );
        let Some(kind) = kind else { continue };
        let count = match *kind {
            ExportKind::UsageDay => {
                "SELECT count(DISTINCT (day, agent_id, model)) FROM usage_days WHERE tenant_id = $1".into()
            }
            _ => format!("SELECT count(*) FROM {table} WHERE tenant_id = $1"),
        };
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(count))
            .bind(world.tenant.0)
            .fetch_one(&mut db)
            .await
            .expect("a count");
        let exported = exported(&world, *kind).await;
        assert_eq!(exported.len() as i64, rows, "{table}");
    }
    let known: BTreeSet<&str> = tables.iter().map(String::as_str).collect();
    assert!(left_out.keys().chain(kinds.keys()).all(|table| known.contains(table)));
}

#[tokio::test]
async fn every_column_is_exported_or_is_known_not_to_be() {
    let world = filled().await;
    let mut db = world.superuser().await;
    let own: BTreeMap<&str, &[&str]> = OWN_COLUMNS.iter().copied().collect();
    for kind in ExportKind::ALL.iter().copied() {
        let columns: Vec<String> = sqlx::query_scalar(
            "SELECT column_name::text FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1",
        )
        .bind(kind.table())
        .fetch_all(&mut db)
        .await
        .expect("columns");
        let rows = exported(&world, kind).await;
        let Some(row) = rows.first() else { continue };
        let hidden = own.get(kind.table()).copied().unwrap_or_default();
        for column in columns.iter().map(String::as_str) {
            let is_hidden = hidden.contains(&column)
                || SECRET_COLUMNS.contains(&column)
                || ["tenant_id", "ord"].contains(&column);
            // An id is called so in its own table, and a few names are those of the API.
            let shown = row.contains_key(column)
                || (column.ends_with("_id") && row.contains_key("id"))
                || (column == "origin" && row.contains_key("from"));
            assert!(
                shown || is_hidden,
                "{}.{column}: it is neither exported nor known not to be",
                kind.table()
            );
            assert!(
                !SECRET_COLUMNS.contains(&column) || !row.contains_key(column),
                "{}.{column}",
                kind.table()
            );
        }
    }
}

#[tokio::test]
async fn pages_go_on_where_the_last_one_ended() {
    let world = World::new().await;
    let mut tx = world.tx().await;
    for number in 0..1203 {
        tx.secret_put(&format!("s{number}"), &"x".into()).await.expect("a secret");
    }
    tx.commit().await.expect("committed");
    for _ in 0..20 {
        world
            .waiting(&[("pay", serde_json::json!({"amount": 5})), ("ask_user", serde_json::json!({}))])
            .await;
    }
    let names: BTreeSet<String> = exported(&world, ExportKind::Secret)
        .await
        .into_iter()
        .map(|row| row["name"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(names.len(), 1203);
    let calls = exported(&world, ExportKind::Call).await;
    let ids: BTreeSet<&str> = calls.iter().map(|row| row["id"].as_str().expect("an id")).collect();
    assert_eq!((calls.len(), ids.len()), (40, 40));
    assert!(ids.iter().all(|id| id.starts_with("tc_")));
    let mut events: Vec<(&str, i64)> = Vec::new();
    let rows = exported(&world, ExportKind::Event).await;
    events.extend(
        rows.iter()
            .map(|row| (row["run_id"].as_str().expect("a run"), row["seq"].as_i64().expect("a number"))),
    );
    assert!(events.len() > 40 && events.is_sorted() && events.iter().all(|(run, _)| run.starts_with("run_")));
}

#[tokio::test]
async fn a_tenant_that_is_gone_has_no_pages() {
    let world = filled().await;
    let mut tx = world.tx().await;
    assert!(tx.tenant_delete().await.expect("deleted"));
    tx.commit().await.expect("committed");
    for kind in ExportKind::ALL.iter().copied() {
        let page = world.tx().await.export_page(kind, &ExportPlace::default()).await.expect("an answer");
        assert_eq!(page, None, "{kind:?}");
    }
}
