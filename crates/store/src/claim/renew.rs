//! Keeping what one has.

use std::time::Duration;

use answerable_core::id::{RunId, TenantId};
use answerable_ports::{Lease, Renewal, Signal};
use uuid::Uuid;

use super::interval;
use crate::error::store_error;
use crate::{Result, Store};

impl Store {
    /// Renews leases in one statement, and leaves word that the server lives. It waits for nobody: a row that somebody else
    /// is just at (and may be for long, if he stands still) must not cost the other leases. Tasks of runs for which something
    /// came in are told to look: its own signal may have been lost on the way from another process.
    ///
    /// # Errors
    /// The database is away.
    pub async fn renew(&self, server: Uuid, leases: &[Lease], lease_for: Duration) -> Result<Renewal> {
        let mut tx = self.leasing().await?;
        let tenants: Vec<Uuid> = leases.iter().map(|lease| lease.tenant_id.0).collect();
        let runs: Vec<Uuid> = leases.iter().map(|lease| lease.run_id.0).collect();
        let epochs: Vec<i64> = leases.iter().map(|lease| lease.epoch).collect();
        let rows = sqlx::query!(
            r#"WITH new AS (
                 INSERT INTO servers (server_id, seen_at)
                 SELECT $4, clock_timestamp() WHERE NOT EXISTS (SELECT FROM servers WHERE server_id = $4)
                 ON CONFLICT DO NOTHING
             ), here AS (
                 UPDATE servers s SET seen_at = clock_timestamp()
                 FROM (SELECT server_id FROM servers WHERE server_id = $4 FOR UPDATE SKIP LOCKED) free
                 WHERE s.server_id = free.server_id
             ), asked AS MATERIALIZED (
                 SELECT a.tenant_id, a.run_id, a.epoch, q.run_id IS NOT NULL AS held
                 FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS a(tenant_id, run_id, epoch)
                 LEFT JOIN run_queue q ON q.tenant_id = a.tenant_id AND q.run_id = a.run_id AND q.epoch = a.epoch
                     AND q.lease_owner = $4
             ), free AS MATERIALIZED (
                 SELECT q.tenant_id, q.run_id FROM asked
                 JOIN run_queue q ON q.tenant_id = asked.tenant_id AND q.run_id = asked.run_id AND q.epoch = asked.epoch
                     AND q.lease_owner = $4
                 FOR UPDATE OF q SKIP LOCKED
             ), renewed AS (
                 UPDATE run_queue q SET lease_until = now() + $5 FROM free
                 WHERE q.tenant_id = free.tenant_id AND q.run_id = free.run_id
                 RETURNING q.tenant_id, q.run_id, q.epoch, q.urgent OR q.wake_at IS NOT NULL AS called,
                     EXISTS (SELECT FROM tenants t WHERE t.tenant_id = q.tenant_id AND t.suspended_at IS NOT NULL) AS suspended
             )
             SELECT a.tenant_id AS "tenant_id!", a.run_id AS "run_id!", a.epoch AS "epoch!", a.held AS "held!", r.called,
                 r.suspended
             FROM asked a LEFT JOIN renewed r ON r.tenant_id = a.tenant_id AND r.run_id = a.run_id AND r.epoch = a.epoch"#,
            &tenants,
            &runs,
            &epochs,
            server,
            interval(lease_for),
        )
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await?;
        let mut renewal = Renewal::default();
        for row in rows {
            let lease =
                Lease { tenant_id: TenantId(row.tenant_id), run_id: RunId(row.run_id), epoch: row.epoch };
            match row.called {
                Some(called) => {
                    renewal.renewed.insert(lease);
                    if row.suspended == Some(true) {
                        renewal.suspended.insert(lease);
                    }
                    if called {
                        self.signals().tell(Signal::Inbox(row.run_id));
                    }
                }
                None if row.held => {}
                None => drop(renewal.lost.insert(lease)),
            }
        }
        Ok(renewal)
    }
}
