//! Finding what is due, across tenants.

use answerable_core::id::{ScheduleId, TenantId};
use chrono::{DateTime, Utc};

use crate::Result;
use crate::connect::Store;
use crate::error::store_error;

/// A schedule that seems to be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueSchedule {
    /// Whose it is.
    pub tenant: TenantId,
    /// The schedule.
    pub schedule: ScheduleId,
}

impl Store {
    /// Schedules that are due, at most `limit`: of each tenant one, then of each another one, so that nobody's many keep
    /// another's waiting. They are not taken by this, but all that are due are seen from now on.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedules_due(&self, limit: i64) -> Result<Vec<DueSchedule>> {
        let mut tx = self.system().await?;
        sqlx::query!(
            "UPDATE schedules s SET seen_at = clock_timestamp()
             FROM (
                 SELECT u.tenant_id, u.schedule_id FROM schedules u
                 JOIN tenants t ON t.tenant_id = u.tenant_id AND t.suspended_at IS NULL
                 WHERE u.paused_at IS NULL AND u.next_at <= now() AND u.seen_at IS NULL
                 FOR NO KEY UPDATE OF u SKIP LOCKED
             ) d
             WHERE s.tenant_id = d.tenant_id AND s.schedule_id = d.schedule_id"
        )
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
        let rows = sqlx::query!(
            "SELECT d.tenant_id, d.schedule_id
             FROM (
                 SELECT tenant_id, schedule_id, next_at,
                     row_number() OVER (PARTITION BY tenant_id ORDER BY next_at, schedule_id) AS turn
                 FROM schedules WHERE paused_at IS NULL AND next_at <= now()
             ) d JOIN tenants t ON t.tenant_id = d.tenant_id AND t.suspended_at IS NULL
             ORDER BY d.turn, d.next_at LIMIT $1",
            limit,
        )
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await?;
        let due = rows.into_iter().map(|row| DueSchedule {
            tenant: TenantId(row.tenant_id),
            schedule: ScheduleId(row.schedule_id),
        });
        Ok(due.collect())
    }

    /// When the next schedule is due that isn't yet.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedules_next(&self) -> Result<Option<DateTime<Utc>>> {
        let mut tx = self.system().await?;
        sqlx::query_scalar!("SELECT min(next_at) FROM schedules WHERE paused_at IS NULL AND next_at > now()")
            .fetch_one(tx.conn())
            .await
            .map_err(store_error)
    }
}
