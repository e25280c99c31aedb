//! Deliveries that are over without having arrived: of endpoints that are off, and what failing ones did not take in time.

use std::time::Duration;

use crate::error::store_error;
use crate::{Result, Store};

/// From when a delivery was queued; a try that fails later is its last.
pub const DELIVERY_LIVES: Duration = Duration::from_secs(36 * 3600);
/// Deliveries ended in one transaction.
const ENDED: i64 = 2_000;

impl Store {
    /// Ends some of the deliveries that nobody will take: of webhooks that are off (queued by a commit that did not see it),
    /// and those whose endpoint still failed when their time was over. Whether these were all.
    pub(crate) async fn deliveries_end_overdue(&self) -> Result<bool> {
        let mut tx = self.system().await?;
        let done = sqlx::query!(
            "WITH over AS MATERIALIZED (
                 SELECT d.tenant_id, d.delivery_id FROM webhooks w
                 JOIN deliveries d ON d.tenant_id = w.tenant_id AND d.webhook_id = w.webhook_id
                 WHERE d.status = 'pending' AND (d.lease_until IS NULL OR d.lease_until < now())
                   AND (w.disabled_at IS NOT NULL OR d.queued_at < w.failed_at - make_interval(secs => $1))
                 LIMIT $2 FOR NO KEY UPDATE OF w, d SKIP LOCKED
             )
             UPDATE deliveries d SET status = 'failed', next_attempt_at = NULL, lease_until = NULL
             FROM over WHERE d.tenant_id = over.tenant_id AND d.delivery_id = over.delivery_id",
            DELIVERY_LIVES.as_secs_f64(),
            ENDED,
        )
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await?;
        Ok(done.rows_affected() < ENDED.unsigned_abs())
    }
}
