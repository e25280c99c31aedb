//! Steps: what the model saw, what it was asked and what came of it.

use answerable_core::id::RunId;
use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::Result;
use crate::calls::CallRecord;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A step (contract, "Step").
#[derive(Debug, Clone, PartialEq)]
pub struct StepRecord {
    /// From 1.
    pub number: i32,
    /// The context's manifest.
    pub context: Value,
    /// The model call, once it was made.
    pub model: Option<Value>,
    /// Attempts that came to nothing.
    pub failures: Value,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it was over.
    pub finished_at: Option<DateTime<Utc>>,
    /// Its calls, in the model's order.
    pub calls: Vec<CallRecord>,
}

impl TenantTx {
    /// A run's steps after number `after`, oldest first, with their calls. Those of the runs that it stands on are its own.
    ///
    /// # Errors
    /// The database is away.
    pub async fn step_list(&mut self, run_id: RunId, after: i32, limit: i64) -> Result<Vec<StepRecord>> {
        let tenant = self.tenant();
        let rows = sqlx::query!(
            "SELECT s.number, s.context, s.model, s.failures, s.started_at, s.finished_at
             FROM run_parts($1, $2) p
             JOIN steps s ON s.tenant_id = $1 AND s.run_id = p.run_id AND s.number <= p.through_step
             WHERE s.number > $3 ORDER BY s.number LIMIT $4",
            tenant,
            run_id.0,
            after,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(Vec::new()) };
        let mut calls = self.call_list(run_id, first.number, last.number).await?;
        let steps = rows.into_iter().map(|row| {
            let own = calls.iter().take_while(|call| call.step <= row.number).count();
            StepRecord {
                number: row.number,
                context: row.context,
                model: row.model,
                failures: row.failures,
                started_at: row.started_at,
                finished_at: row.finished_at,
                calls: calls.drain(..own).collect(),
            }
        });
        Ok(steps.collect())
    }
}
