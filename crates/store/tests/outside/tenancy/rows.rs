//! What is stored, looked at past all walls.

use std::collections::{BTreeMap, BTreeSet};

use answerable_core::id::TenantId;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row as _, ValueRef as _};

/// Tables that rows are put into: partitions are seen through their parents.
pub(super) async fn tables(superuser: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
           AND c.relname <> '_sqlx_migrations'
         ORDER BY c.relname",
    )
    .fetch_all(superuser)
    .await
    .expect("tables")
}

/// Those of them whose rows are some tenant's.
pub(super) async fn tables_of_tenants(superuser: &mut PgConnection) -> Vec<String> {
    let of_tenants: BTreeSet<String> = sqlx::query_scalar(
        "SELECT attrelid::regclass::text FROM pg_attribute
         WHERE attname = 'tenant_id' AND NOT attisdropped",
    )
    .fetch_all(&mut *superuser)
    .await
    .expect("tables")
    .into_iter()
    .collect();
    tables(superuser).await.into_iter().filter(|table| of_tenants.contains(table)).collect()
}

/// One statement's rows as the database writes them, column by column. A bytea is hex.
pub(super) async fn texts(
    connection: &mut PgConnection,
    statement: &str,
) -> sqlx::Result<Vec<Vec<(String, Option<String>)>>> {
    let rows = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).fetch_all(connection).await?;
    Ok(rows.iter().map(text).collect())
}

fn text(row: &PgRow) -> Vec<(String, Option<String>)> {
    use sqlx::Column as _;
    let column = |place: usize| {
        let value = row.try_get_raw(place).expect("a column");
        let text = (!value.is_null()).then(|| value.as_str().expect("text").to_owned());
        (row.column(place).name().to_owned(), text)
    };
    (0..row.len()).map(column).collect()
}

/// How many rows of each table are a tenant's.
pub(super) async fn counts(superuser: &mut PgConnection, tenant: TenantId) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for table in tables_of_tenants(superuser).await {
        let count = format!("SELECT count(*) FROM {table} WHERE tenant_id = '{}'", tenant.0);
        let rows = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&mut *superuser).await.expect("rows");
        counts.insert(table, rows);
    }
    counts
}

/// A statement that gives one hash over all rows of a tenant.
pub(super) fn digest(tables: &[String], tenant: TenantId) -> String {
    let of = |table: &String| {
        format!("SELECT '{table}' || t::text AS line FROM {table} t WHERE tenant_id = '{}'", tenant.0)
    };
    let all: Vec<String> = tables.iter().map(of).collect();
    format!("SELECT md5(string_agg(line, '|' ORDER BY line)) FROM ({}) AS lines", all.join(" UNION ALL "))
}

/// All ids in a tenant's rows, with its own.
pub(super) async fn ids(superuser: &mut PgConnection, tenant: TenantId) -> BTreeSet<String> {
    let columns: Vec<(String, String)> = sqlx::query_as(
        "SELECT a.attrelid::regclass::text, a.attname::text FROM pg_attribute a
         JOIN pg_class c ON c.oid = a.attrelid
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
           AND a.atttypid = 'uuid'::regtype AND NOT a.attisdropped
           AND EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = c.oid AND t.attname = 'tenant_id')",
    )
    .fetch_all(&mut *superuser)
    .await
    .expect("columns");
    let mut ids = BTreeSet::new();
    for (table, column) in columns {
        // Which server has a run, and the rows that stand for none, are nobody's secret.
        let select = format!(
            "SELECT DISTINCT {column}::text FROM {table} WHERE tenant_id = '{}' AND {column} IS NOT NULL
               AND '{column}' NOT IN ('lease_owner', 'suspect') AND {column}::text !~ '^[0-]+$'",
            tenant.0
        );
        let found: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(select)).fetch_all(&mut *superuser).await.expect("ids");
        ids.extend(found);
    }
    ids
}

/// In which tables a row holds one of these words anywhere, and how many do.
pub(super) async fn that_hold(superuser: &mut PgConnection, words: &[String]) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for table in tables(superuser).await {
        // Bytes are written in hex.
        let holds = "(position(w IN t::text) > 0 OR position(encode(w::bytea, 'hex') IN t::text) > 0)";
        let count = format!(
            "SELECT count(*) FROM {table} AS t WHERE EXISTS (SELECT FROM unnest($1::text[]) AS w WHERE {holds})"
        );
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(count))
            .bind(words)
            .fetch_one(&mut *superuser)
            .await
            .expect("rows");
        if rows > 0 {
            found.insert(table, rows);
        }
    }
    found
}
