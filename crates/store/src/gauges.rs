//! How much waits, and since when, over all tenants: one cheap statement each, none of which looks at what is done.

use std::time::Duration;

use answerable_core::run::ApprovalKind;
use answerable_ports::{Gauges, Waiting};
use chrono::{DateTime, Utc};

use crate::error::store_error;
use crate::tx::SystemTx;
use crate::{Result, Store};

/// A count that takes longer is given up: it is there to watch the database, not to be a load on it.
const PATIENCE: &str = "3s";
const KINDS: [ApprovalKind; 3] =
    [ApprovalKind::ToolCall, ApprovalKind::UncertainEffect, ApprovalKind::Budget];

impl Store {
    /// Counts what waits.
    ///
    /// # Errors
    /// The database is away, or too busy to count.
    pub async fn gauges(&self) -> Result<Gauges> {
        let mut tx = self.system().await?;
        let now = sqlx::query_scalar!(
            r#"SELECT now() AS "now!" FROM set_config('statement_timeout', $1, true)"#,
            PATIENCE
        )
        .fetch_one(tx.conn())
        .await
        .map_err(store_error)?;
        Ok(Gauges {
            queue: tx.queue_waiting(now).await?,
            approvals: tx.approvals_waiting(now).await?,
            uncertain: tx.effects_unsettled(now).await?,
            deliveries: tx.deliveries_waiting(now).await?,
        })
    }
}

impl SystemTx {
    /// What is held back is sorted out in order of age, so that only what stands before the first that isn't is looked at.
    async fn queue_waiting(&mut self, now: DateTime<Utc>) -> Result<Waiting> {
        let row = sqlx::query!(
            r#"WITH held AS MATERIALIZED (
                   SELECT tenant_id, count(*) AS places FROM run_queue
                   WHERE lease_owner IS NOT NULL AND NOT ended GROUP BY tenant_id
               )
               SELECT
                   (SELECT count(*) FROM run_queue WHERE lease_owner IS NULL AND wake_at <= now()) AS "count!",
                   (SELECT q.wake_at FROM (
                        SELECT q.* FROM run_queue q
                        JOIN tenants t ON t.tenant_id = q.tenant_id AND t.suspended_at IS NULL
                        LEFT JOIN held h ON h.tenant_id = q.tenant_id
                        WHERE q.lease_owner IS NULL AND q.wake_at <= now()
                          AND (t.max_concurrent_runs IS NULL OR coalesce(h.places, 0) < t.max_concurrent_runs)
                        ORDER BY q.wake_at OFFSET 0
                    ) q
                    WHERE q.started OR NOT (
                        (q.thread_id IS NOT NULL AND EXISTS (
                            SELECT FROM run_queue e WHERE e.tenant_id = q.tenant_id AND e.thread_id = q.thread_id
                            AND e.ord < q.ord AND NOT e.ended))
                        OR (q.concurrency_key IS NOT NULL AND EXISTS (
                            SELECT FROM run_queue e WHERE e.tenant_id = q.tenant_id
                            AND e.concurrency_key = q.concurrency_key AND e.ord < q.ord AND NOT e.ended)))
                    LIMIT 1) AS since"#
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(waiting(row.count, row.since, now))
    }

    async fn approvals_waiting(&mut self, now: DateTime<Utc>) -> Result<[(ApprovalKind, Waiting); 3]> {
        let rows = sqlx::query!(
            r#"SELECT kind, count(*) AS "count!", min(created_at) AS since FROM approvals
               WHERE status = 'pending' GROUP BY kind"#
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(KINDS.map(|kind| {
            let row = rows.iter().find(|row| row.kind == kind.as_str());
            (kind, row.map_or_else(Waiting::default, |row| waiting(row.count, row.since, now)))
        }))
    }

    /// Row-level security shows those alone that are uncertain and not settled.
    async fn effects_unsettled(&mut self, now: DateTime<Utc>) -> Result<Waiting> {
        let row =
            sqlx::query!(r#"SELECT count(finished_at) AS "count!", min(finished_at) AS since FROM ledger"#)
                .fetch_one(self.conn())
                .await
                .map_err(store_error)?;
        Ok(waiting(row.count, row.since, now))
    }

    async fn deliveries_waiting(&mut self, now: DateTime<Utc>) -> Result<Waiting> {
        let row = sqlx::query!(
            r#"SELECT count(*) AS "count!", min(next_attempt_at) AS since FROM deliveries WHERE status = 'pending'"#
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(waiting(row.count, row.since, now))
    }
}

/// By the database's clock alone; what is due later waits for nothing yet.
fn waiting(count: i64, since: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Waiting {
    let longest = since.and_then(|since| (now - since).to_std().ok());
    Waiting { count: u64::try_from(count).unwrap_or(0), longest: longest.unwrap_or(Duration::ZERO) }
}
