//! What pruning would take away.

use super::spans::{Span, spans};
use super::{Keep, Pruned};
use crate::error::store_error;
use crate::tx::SystemTx;
use crate::{Result, Store};

impl Store {
    /// Counts what [`prune`](Self::prune) would take away now, and takes nothing.
    ///
    /// # Errors
    /// The database is away.
    pub async fn prune_preview(&self, keep: Keep) -> Result<Pruned> {
        let mut would = self.system().await?.prune_counts(keep).await?;
        for span in spans(self, keep).await? {
            let goes =
                span.part.is_some() && span.is_past && !self.span_is_needed(&span, keep, keep.runs()).await?;
            match (goes, span.is_journal) {
                (true, true) => would.journal_partitions += 1,
                (true, false) => would.event_partitions += 1,
                (false, _) if span.is_thinned_out() => {
                    would.journal_rows += self.system().await?.journal_count(&span, keep).await?;
                }
                (false, _) => {}
            }
        }
        Ok(would)
    }
}

impl SystemTx {
    async fn prune_counts(&mut self, keep: Keep) -> Result<Pruned> {
        let row = sqlx::query!(
            r#"SELECT (SELECT count(*) FROM idempotency_keys WHERE created_at < now() - interval '25 hours') AS "answers!",
                   (SELECT count(*) FROM deliveries
                    WHERE status <> 'pending' AND created_at < now() - make_interval(days => $1)) AS "deliveries!",
                   (SELECT count(*) FROM runs WHERE finished_at < now() - make_interval(days => $2)
                        AND run_can_go(tenant_id, run_id)) AS "runs!""#,
            keep.journal(),
            keep.runs(),
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(Pruned {
            idempotency_keys: row.answers.unsigned_abs(),
            deliveries: row.deliveries.unsigned_abs(),
            runs: row.runs.unsigned_abs(),
            ..Pruned::default()
        })
    }

    /// Rows that would be taken out of a span, those of runs that go themselves left out.
    async fn journal_count(&mut self, span: &Span, keep: Keep) -> Result<u64> {
        let rows = sqlx::query_scalar!(
            r#"SELECT count(*) AS "rows!" FROM journal j
               LEFT JOIN runs r ON r.tenant_id = j.tenant_id AND r.run_id = j.run_id
               WHERE j.run_id >= $1 AND j.run_id < $2
                 AND (r.run_id IS NULL OR (r.finished_at <= now() - make_interval(days => $3)
                     AND ($4::integer IS NULL OR r.finished_at >= now() - make_interval(days => $4))))"#,
            span.low,
            span.high,
            keep.journal(),
            keep.runs(),
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.unsigned_abs())
    }
}
