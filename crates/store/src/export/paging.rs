//! One page of a table: a statement for each way in which a table is sorted. The columns are written out, so that a new one
//! leaves only when somebody wants it to.

/// Rows that are small.
pub(super) const MANY: i64 = 500;
/// Rows that may each be as large as a request or as what a tool said.
pub(super) const FEW: i64 = 16;

/// By an id.
macro_rules! by_id {
    ($tx:ident, $after:ident, $limit:expr, $table:literal, $id:literal, $columns:literal) => {
        sqlx::query_as!(
            ExportRow,
            "SELECT t."
                + $id
                + r#" AS "id!", 0::bigint AS "number!", '' AS "name!",
                (SELECT row_to_json(d) FROM (SELECT "#
                + $columns
                + r#") AS d)::text AS "data!" FROM "#
                + $table
                + " AS t WHERE t.tenant_id = $1 AND t."
                + $id
                + " > $2 ORDER BY t."
                + $id
                + " LIMIT $3",
            $tx.tenant(),
            $after.id,
            $limit,
        )
        .fetch_all($tx.conn())
        .await
    };
}

/// By an id and a number.
macro_rules! by_id_and_number {
    ($tx:ident, $after:ident, $limit:expr, $table:literal, $id:literal, $number:literal, $columns:literal) => {
        sqlx::query_as!(
            ExportRow,
            "SELECT t."
                + $id
                + r#" AS "id!", t."#
                + $number
                + r#"::bigint AS "number!", '' AS "name!",
                (SELECT row_to_json(d) FROM (SELECT "#
                + $columns
                + r#") AS d)::text AS "data!" FROM "#
                + $table
                + " AS t WHERE t.tenant_id = $1 AND (t."
                + $id
                + ", t."
                + $number
                + ") > ($2, $3::bigint) ORDER BY t."
                + $id
                + ", t."
                + $number
                + " LIMIT $4",
            $tx.tenant(),
            $after.id,
            $after.number,
            $limit,
        )
        .fetch_all($tx.conn())
        .await
    };
}

/// By a number.
macro_rules! by_number {
    ($tx:ident, $after:ident, $limit:expr, $table:literal, $number:literal, $columns:literal) => {
        sqlx::query_as!(
            ExportRow,
            r#"SELECT '00000000-0000-0000-0000-000000000000'::uuid AS "id!", t."#
                + $number
                + r#"::bigint AS "number!", '' AS "name!", (SELECT row_to_json(d) FROM (SELECT "#
                + $columns
                + r#") AS d)::text AS "data!" FROM "#
                + $table
                + " AS t WHERE t.tenant_id = $1 AND t."
                + $number
                + " > $2::bigint ORDER BY t."
                + $number
                + " LIMIT $3",
            $tx.tenant(),
            $after.number,
            $limit,
        )
        .fetch_all($tx.conn())
        .await
    };
}

/// By a name.
macro_rules! by_name {
    ($tx:ident, $after:ident, $limit:expr, $table:literal, $name:literal, $columns:literal) => {
        sqlx::query_as!(
            ExportRow,
            r#"SELECT '00000000-0000-0000-0000-000000000000'::uuid AS "id!", 0::bigint AS "number!", t."#
                + $name
                + r#" AS "name!", (SELECT row_to_json(d) FROM (SELECT "#
                + $columns
                + r#") AS d)::text AS "data!" FROM "#
                + $table
                + " AS t WHERE t.tenant_id = $1 AND t."
                + $name
                + " > $2 ORDER BY t."
                + $name
                + " LIMIT $3",
            $tx.tenant(),
            $after.name,
            $limit,
        )
        .fetch_all($tx.conn())
        .await
    };
}

/// By an id and a name.
macro_rules! by_id_and_name {
    ($tx:ident, $after:ident, $limit:expr, $table:literal, $id:literal, $name:literal, $columns:literal) => {
        sqlx::query_as!(
            ExportRow,
            "SELECT t."
                + $id
                + r#" AS "id!", 0::bigint AS "number!", t."#
                + $name
                + r#" AS "name!", (SELECT row_to_json(d) FROM (SELECT "#
                + $columns
                + r#") AS d)::text AS "data!" FROM "#
                + $table
                + " AS t WHERE t.tenant_id = $1 AND (t."
                + $id
                + ", t."
                + $name
                + ") > ($2, $3) ORDER BY t."
                + $id
                + ", t."
                + $name
                + " LIMIT $4",
            $tx.tenant(),
            $after.id,
            $after.name,
            $limit,
        )
        .fetch_all($tx.conn())
        .await
    };
}

pub(super) use {by_id, by_id_and_name, by_id_and_number, by_name, by_number};
