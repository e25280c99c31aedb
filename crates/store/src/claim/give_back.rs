//! Giving back what one has, or may have.

use answerable_ports::{Lease, Signal, Wake};
use uuid::Uuid;

use crate::error::store_error;
use crate::tx::TenantTx;
use crate::{Result, Store};

impl Store {
    /// Gives back the runs of `server` that are none of `held`; gives how many. Counts no death.
    ///
    /// # Errors
    /// The database is away.
    pub async fn put_back(&self, server: Uuid, held: &[Uuid]) -> Result<u64> {
        let mut tx = self.leasing().await?;
        let done = sqlx::query!(
            "WITH unknown AS MATERIALIZED (
                 SELECT tenant_id, run_id FROM run_queue
                 WHERE lease_owner = $1 AND NOT ended AND run_id <> ALL ($2)
                 ORDER BY tenant_id, run_id LIMIT 1000 FOR UPDATE SKIP LOCKED
             )
             UPDATE run_queue q SET lease_owner = NULL, lease_until = NULL, wake_at = now() FROM unknown
             WHERE q.tenant_id = unknown.tenant_id AND q.run_id = unknown.run_id",
            server,
            held,
        )
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
        if done.rows_affected() > 0 {
            tx.announce(Signal::Work);
        }
        tx.commit().await?;
        Ok(done.rows_affected())
    }
}

impl TenantTx {
    /// Gives a run back unfinished: any server may go on with it, at once if something came in after `known_inbox`. What is
    /// known already doesn't wake it: a message may wait in the inbox for long until its step begins.
    pub(crate) async fn hand_back(&mut self, lease: Lease, wake: Wake, known_inbox: i64) -> Result<()> {
        // Whatever comes in locks this row first: after this nothing can slip in between.
        sqlx::query!(
            "SELECT seq FROM run_states WHERE tenant_id = $1 AND run_id = $2 FOR UPDATE",
            self.tenant(),
            lease.run_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let (by_itself, at) = match wake {
            Wake::Now => (true, None),
            Wake::At(at) => (true, Some(at)),
            Wake::OnInbox => (false, None),
        };
        // A server whose clock is behind finds nothing due yet and gives the run back: not at once again.
        sqlx::query!(
            "UPDATE run_queue q SET lease_owner = NULL, lease_until = NULL, urgent = q.urgent AND came.in_since,
                 wake_at = CASE
                     WHEN came.in_since AND q.started THEN now()
                     WHEN $5::bigint IS NOT NULL THEN greatest(to_timestamp($5::bigint / 1000.0), now() + interval '200 ms')
                     WHEN $4 THEN now() END
             FROM (SELECT EXISTS (SELECT FROM inbox WHERE tenant_id = $1 AND run_id = $2 AND number > $6) AS in_since) came
             WHERE q.tenant_id = $1 AND q.run_id = $2 AND q.epoch = $3 AND q.lease_owner IS NOT NULL",
            self.tenant(),
            lease.run_id.0,
            lease.epoch,
            by_itself,
            at,
            known_inbox,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        self.announce(Signal::Work);
        Ok(())
    }
}
