//! The small transactions of pruning.

use std::collections::BTreeMap;

use answerable_core::id::TenantId;
use chrono::NaiveDate;
use uuid::Uuid;

use super::Batch;
use super::spans::Span;
use crate::error::store_error;
use crate::tx::SystemTx;
use crate::{Result, Store};

/// Kept answers forgotten in one transaction.
const ANSWERS: i64 = 5_000;
/// Deliveries forgotten in one transaction.
const DELIVERIES: i64 = 2_000;
/// Tenants' days that are summed up between two looks.
const DAYS: i64 = 200;
/// Runs looked at for one transaction for each tenant. A run may have thousands of rows.
const RUNS: i64 = 25;
/// Runs whose journals are looked at in one transaction.
const JOURNALS: i32 = 100;

/// How far a walk over journals came.
pub(super) struct Walked {
    /// Rows that went.
    pub(super) rows: u64,
    /// Tenant and run that it came to; `None`: the end.
    pub(super) last: Option<(Uuid, Uuid)>,
}

impl Store {
    pub(super) async fn answers_forget(&self) -> Result<Batch> {
        let mut tx = self.system().await?;
        let gone = tx.answers_prune(ANSWERS).await?;
        // A few rows, one a server's life.
        tx.servers_prune().await?;
        tx.commit().await?;
        Ok(Batch { gone, is_last: gone < ANSWERS.unsigned_abs() })
    }

    pub(super) async fn deliveries_forget(&self, days: i32) -> Result<Batch> {
        let mut tx = self.system().await?;
        let done = sqlx::query!(
            "WITH old AS MATERIALIZED (
                 SELECT tenant_id, delivery_id FROM deliveries
                 WHERE status <> 'pending' AND created_at < now() - make_interval(days => $1)
                 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED
             )
             DELETE FROM deliveries d USING old WHERE d.tenant_id = old.tenant_id AND d.delivery_id = old.delivery_id",
            days,
            DELIVERIES,
        )
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await?;
        let gone = done.rows_affected();
        Ok(Batch { gone, is_last: gone < DELIVERIES.unsigned_abs() })
    }

    /// Sums up what tenants used on days before yesterday, each tenant's as itself; whether those were the last. Nothing is
    /// added to such a day any more.
    pub(super) async fn days_fold(&self) -> Result<bool> {
        let days = self.system().await?.days_in_parts().await?;
        for (tenant, day) in &days {
            let mut tx = self.tenant(TenantId(*tenant)).await?;
            tx.usage_fold(*day).await?;
            tx.commit().await?;
        }
        Ok(days.len() < usize::try_from(DAYS).unwrap_or(0))
    }

    /// Deletes runs that ended so long ago, each tenant's as the tenant itself would.
    pub(super) async fn runs_forget(&self, days: i32) -> Result<Batch> {
        let mut tenants: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
        for (tenant, run) in self.system().await?.runs_past(days).await? {
            tenants.entry(tenant).or_default().push(run);
        }
        let found: usize = tenants.values().map(Vec::len).sum();
        let mut gone = 0;
        for (tenant, runs) in tenants {
            let mut tx = self.tenant(TenantId(tenant)).await?;
            gone += tx.runs_delete(&runs).await?;
            tx.commit().await?;
        }
        // Those that somebody is busy with are found first again: they wait for the next time, and the others with them.
        Ok(Batch { gone, is_last: gone == 0 || found < usize::try_from(RUNS).unwrap_or(0) })
    }

    /// Takes the journals out of a span whose runs ended so long ago or are gone, of some runs after `place`.
    pub(super) async fn journal_forget(&self, span: &Span, place: (Uuid, Uuid), days: i32) -> Result<Walked> {
        let mut tx = self.system().await?;
        let walked = tx.journal_walk(span, place, days).await?;
        tx.commit().await?;
        Ok(walked)
    }
}

impl SystemTx {
    async fn days_in_parts(&mut self) -> Result<Vec<(Uuid, NaiveDate)>> {
        let rows = sqlx::query!(
            "SELECT DISTINCT tenant_id, day FROM usage_days
             WHERE part > 0 AND day < (now() AT TIME ZONE 'UTC')::date - 1 ORDER BY day, tenant_id LIMIT $1",
            DAYS,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(|row| (row.tenant_id, row.day)).collect())
    }

    async fn runs_past(&mut self, days: i32) -> Result<Vec<(Uuid, Uuid)>> {
        let rows = sqlx::query!(
            "SELECT tenant_id, run_id FROM runs
             WHERE finished_at < now() - make_interval(days => $1) AND run_can_go(tenant_id, run_id)
             ORDER BY finished_at LIMIT $2",
            days,
            RUNS,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(|row| (row.tenant_id, row.run_id)).collect())
    }

    /// Steps from run to run by the key, so that runs whose journals stay cost one look each however long they are.
    async fn journal_walk(&mut self, span: &Span, place: (Uuid, Uuid), days: i32) -> Result<Walked> {
        let row = sqlx::query!(
            r#"WITH RECURSIVE walk AS (
                   (SELECT j.tenant_id, j.run_id, 1 AS place FROM journal j
                    WHERE j.run_id >= $1 AND j.run_id < $2 AND (j.tenant_id, j.run_id) > ($3, $4)
                    ORDER BY j.tenant_id, j.run_id LIMIT 1)
                   UNION ALL
                   SELECT n.tenant_id, n.run_id, walk.place + 1 FROM walk CROSS JOIN LATERAL (
                       SELECT j.tenant_id, j.run_id FROM journal j
                       WHERE j.run_id >= $1 AND j.run_id < $2 AND (j.tenant_id, j.run_id) > (walk.tenant_id, walk.run_id)
                       ORDER BY j.tenant_id, j.run_id LIMIT 1) n
                   WHERE walk.place < $5
               ), gone AS (
                   DELETE FROM journal j USING walk w
                   WHERE j.run_id >= $1 AND j.run_id < $2 AND j.tenant_id = w.tenant_id AND j.run_id = w.run_id
                     AND NOT EXISTS (SELECT FROM runs r WHERE r.tenant_id = w.tenant_id AND r.run_id = w.run_id
                         AND (r.finished_at IS NULL OR r.finished_at > now() - make_interval(days => $6)))
                   RETURNING 1
               ), came AS (
                   SELECT tenant_id, run_id, place FROM walk ORDER BY place DESC LIMIT 1
               )
               SELECT (SELECT count(*) FROM gone) AS "rows!", (SELECT place FROM came) AS place,
                   (SELECT tenant_id FROM came) AS tenant, (SELECT run_id FROM came) AS run"#,
            span.low,
            span.high,
            place.0,
            place.1,
            JOURNALS,
            days,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let is_full = row.place == Some(JOURNALS);
        Ok(Walked { rows: row.rows.unsigned_abs(), last: row.tenant.zip(row.run).filter(|_| is_full) })
    }
}
