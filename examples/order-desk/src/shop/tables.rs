//! The shop's tables and the lock that makes an answer by key a true one.

use sqlx::{PgPool, Postgres, Transaction};

/// Creates the tables and the goods on the shelves, where they are not there yet.
pub(super) async fn create(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::raw_sql(include_str!("tables.sql")).execute(pool).await?;
    Ok(())
}

/// Waits for every other request under the same key to end, and holds the key until the
/// transaction does. Without it a question by key could be answered "not applied" a moment
/// before an order under way commits, and whoever asked would order again.
pub(super) async fn lock_key(transaction: &mut Transaction<'_, Postgres>, key: &str) -> sqlx::Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
        .bind(key)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}
