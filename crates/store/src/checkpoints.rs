//! Checkpoints: states that a run can be taken up from.

use answerable_core::id::RunId;
use chrono::{DateTime, Utc};

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A checkpoint (contract, "Shapes").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// The commit that made it.
    pub seq: i64,
    /// The step that it follows.
    pub step: i32,
    /// Hash of the state.
    pub state_hash: String,
    /// When.
    pub created_at: DateTime<Utc>,
}

impl TenantTx {
    /// A run's checkpoints after commit `after`, oldest first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn checkpoint_list(
        &mut self,
        run_id: RunId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<CheckpointRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            CheckpointRecord,
            "SELECT seq, step, state_hash, created_at FROM checkpoints
             WHERE tenant_id = $1 AND run_id = $2 AND seq > $3 ORDER BY seq LIMIT $4",
            tenant,
            run_id.0,
            after,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}
