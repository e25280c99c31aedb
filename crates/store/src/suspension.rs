//! Tenants that are served nothing and worked on nothing for a while.

use answerable_core::audit::Action;
use answerable_core::id::TenantId;
use answerable_ports::Signal;
use chrono::{DateTime, Utc};
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::SystemTx;

impl SystemTx {
    /// Suspends a tenant, or resumes it; `false`: there is no such tenant. Servers that work for it stop within seconds, and go
    /// on when it is resumed; its keys and links are refused meanwhile. Its runs aren't charged with that time.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_suspend(&mut self, tenant: TenantId, suspended: bool) -> Result<bool> {
        let Some(before) = self.tenant_lock(tenant).await? else { return Ok(false) };
        if before.suspended_at.is_some() == suspended {
            return Ok(true);
        }
        sqlx::query!(
            "UPDATE tenants SET suspended_at = CASE WHEN $2 THEN date_trunc('milliseconds', clock_timestamp()) END
             WHERE tenant_id = $1",
            tenant.0,
            suspended,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        if let Some(began_at) = before.suspended_at {
            self.suspension_over(tenant.0, began_at).await?;
        }
        let action = if suspended { Action::TenantSuspend } else { Action::TenantResume };
        self.act_on(tenant, action, tenant, json!({"suspended_at": before.suspended_at}));
        self.announce(Signal::Keys);
        self.announce(Signal::Work);
        self.announce(Signal::Deliveries);
        Ok(true)
    }

    /// Writes down how long it was, and gives what is queued as much more time. A row that somebody is just at is left: whoever
    /// takes that run up finds that its time isn't over.
    async fn suspension_over(&mut self, tenant: Uuid, began_at: DateTime<Utc>) -> Result<()> {
        sqlx::query!(
            "WITH over AS (
                 INSERT INTO suspensions (tenant_id, began_at, until)
                 VALUES ($1, $2, greatest($2, date_trunc('milliseconds', clock_timestamp())))
                 ON CONFLICT DO NOTHING RETURNING began_at, until
             ), resting AS MATERIALIZED (
                 SELECT q.run_id FROM run_queue q
                 WHERE q.tenant_id = $1 AND q.lease_owner IS NULL AND q.expires_at IS NOT NULL
                 ORDER BY q.run_id FOR NO KEY UPDATE SKIP LOCKED
             )
             -- The time of one that may not start yet doesn't count before.
             UPDATE run_queue q
             SET expires_at = least(r.deadline, q.expires_at + (over.until - greatest(over.began_at, r.not_before)))
             FROM over, resting JOIN runs r ON r.tenant_id = $1 AND r.run_id = resting.run_id
             WHERE q.tenant_id = $1 AND q.run_id = resting.run_id AND (r.not_before IS NULL OR r.not_before < over.until)",
            tenant,
            began_at,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}
