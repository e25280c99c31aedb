//! The claim as it would be without its lock and its second look, for the tests that must notice their absence.

use std::time::Duration;

use answerable_ports::Claimed;
use sqlx::Row as _;
use uuid::Uuid;

use super::take::Taken;
use super::{as_count, interval};
use crate::error::store_error;
use crate::{Result, Store};

impl Store {
    /// Looks what is due, and then takes it, whoever has taken it meanwhile.
    pub(super) async fn claim_unguarded(
        &self,
        server: Uuid,
        limit: usize,
        lease_for: Duration,
    ) -> Result<Vec<Claimed>> {
        let mut tx = self.leasing().await?;
        let due = sqlx::query(
            "SELECT run_id FROM run_queue WHERE lease_owner IS NULL AND (urgent OR wake_at <= now()) LIMIT $1",
        );
        let due = due.bind(as_count(limit)).fetch_all(tx.conn()).await.map_err(store_error)?;
        let due: Vec<Uuid> = due.iter().map(|row| row.get(0)).collect();
        tx.commit().await?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        // Two servers that look in the same moment: the guard is there for just this.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut tx = self.leasing().await?;
        let taken = sqlx::query(
            "WITH taken AS (
                 UPDATE run_queue SET lease_owner = $1, lease_until = now() + $2, wake_at = NULL, epoch = epoch + 1
                 WHERE run_id = ANY ($3) RETURNING tenant_id, run_id, epoch, deaths
             ), fenced AS (
                 UPDATE run_states s SET epoch = taken.epoch FROM taken
                 WHERE s.tenant_id = taken.tenant_id AND s.run_id = taken.run_id
             )
             SELECT tenant_id, run_id, epoch, deaths FROM taken",
        );
        let taken = taken.bind(server).bind(interval(lease_for)).bind(due);
        let rows = taken.fetch_all(tx.conn()).await.map_err(store_error)?;
        tx.commit().await?;
        let claimed = |row: &sqlx::postgres::PgRow| Taken {
            tenant_id: row.get(0),
            run_id: row.get(1),
            epoch: row.get(2),
            deaths: row.get(3),
            may_start: Some(true),
            is_first: None,
            weight: None,
        };
        Ok(rows.iter().map(claimed).map(Claimed::from).collect())
    }
}
