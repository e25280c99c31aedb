//! Spans that wait to be exported, across tenants. Any server takes them for a while; they leave when the collector has them.

use answerable_core::id::{RunId, TenantId};
use answerable_core::trace::Span;
use answerable_ports::{SpanBacklog, SpanBatch, SpanOutbox};
use async_trait::async_trait;

use crate::error::store_error;
use crate::{Result, Store};

/// Most that one statement drops.
const DROPPED_AT_ONCE: i64 = 50_000;

#[async_trait]
impl SpanOutbox for Store {
    async fn take(&self, limit: usize) -> Result<Vec<SpanBatch>> {
        let mut tx = self.system().await?;
        // Each run and commit is looked up by its key: how many there are of them in all must not matter.
        let rows = sqlx::query!(
            r#"WITH free AS MATERIALIZED (
                   SELECT number FROM span_outbox WHERE taken_until IS NULL OR taken_until < now()
                   ORDER BY number LIMIT $1 FOR UPDATE SKIP LOCKED
               ), taken AS (
                   UPDATE span_outbox o SET taken_until = now() + interval '1 minute'
                   FROM free WHERE o.number = free.number
                   RETURNING o.number, o.tenant_id, o.run_id, o.seq
               )
               SELECT t.number, t.tenant_id, t.run_id,
                   (SELECT r.trace_id FROM runs r WHERE r.tenant_id = t.tenant_id AND r.run_id = t.run_id) AS "trace_id!",
                   (SELECT json_agg(j.spans ORDER BY j.index)::text FROM journal j
                    WHERE j.tenant_id = t.tenant_id AND j.run_id = t.run_id AND j.seq = t.seq AND j.spans IS NOT NULL) AS spans
               FROM taken t
               ORDER BY t.number"#,
            i64::try_from(limit).unwrap_or(i64::MAX),
        )
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await?;
        let batches = rows.into_iter().filter_map(|row| {
            let spans = readable(row.number, row.spans.as_deref())?;
            Some(SpanBatch {
                number: row.number,
                tenant_id: TenantId(row.tenant_id),
                run_id: RunId(row.run_id),
                trace_id: row.trace_id,
                spans,
            })
        });
        Ok(batches.collect())
    }

    async fn acknowledge(&self, numbers: &[i64]) -> Result<()> {
        let mut tx = self.system().await?;
        // What is locked is just being deleted with its run.
        sqlx::query!(
            "DELETE FROM span_outbox o USING (
                 SELECT number FROM span_outbox WHERE number = ANY ($1) ORDER BY number FOR UPDATE SKIP LOCKED
             ) AS arrived WHERE o.number = arrived.number",
            numbers,
        )
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await
    }

    async fn give_back(&self, numbers: &[i64]) -> Result<()> {
        let mut tx = self.system().await?;
        sqlx::query!(
            "UPDATE span_outbox o SET taken_until = NULL FROM (
                 SELECT number FROM span_outbox WHERE number = ANY ($1) ORDER BY number FOR UPDATE SKIP LOCKED
             ) AS held WHERE o.number = held.number",
            numbers,
        )
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await
    }

    async fn trim(&self, keep: u64) -> Result<u64> {
        let mut tx = self.system().await?;
        // Those that are just being sent stay: they are about to leave by themselves.
        let done = sqlx::query!(
            "DELETE FROM span_outbox o USING (
                 SELECT number FROM span_outbox
                 WHERE number <= (SELECT number FROM span_outbox ORDER BY number DESC OFFSET $1 LIMIT 1)
                   AND (taken_until IS NULL OR taken_until < now())
                 ORDER BY number LIMIT $2 FOR UPDATE SKIP LOCKED
             ) AS over WHERE o.number = over.number",
            i64::try_from(keep).unwrap_or(i64::MAX),
            DROPPED_AT_ONCE,
        )
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await?;
        Ok(done.rows_affected())
    }

    async fn backlog(&self) -> Result<SpanBacklog> {
        let mut tx = self.system().await?;
        let row = sqlx::query!(
            r#"SELECT count(*) AS "waiting!",
                   coalesce(ceil(1000 * extract(epoch FROM now() - (SELECT created_at FROM span_outbox ORDER BY number LIMIT 1))), 0)::bigint
                       AS "oldest_ms!"
               FROM span_outbox"#
        )
        .fetch_one(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await?;
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        Ok(SpanBacklog { waiting: number(row.waiting), oldest_ms: number(row.oldest_ms) })
    }
}

/// The spans of a batch, event by event; none where the journal is gone. `None`: a newer server wrote something that this
/// one can't read, and one like it may send it when the minute is over.
fn readable(number: i64, stored: Option<&str>) -> Option<Vec<Span>> {
    let events: Vec<Vec<Span>> = match stored.map(serde_json::from_str) {
        None => Vec::new(),
        Some(Ok(events)) => events,
        Some(Err(error)) => {
            tracing::warn!(number, %error, "spans are left to another server: they can't be read");
            return None;
        }
    };
    Some(events.into_iter().flatten().collect())
}
