//! Events: what watchers see, in order and without gaps.

use answerable_core::id::RunId;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A stored event (contract, "Events").
#[derive(Debug, Clone, PartialEq)]
pub struct EventRecord {
    /// From 1, without gaps.
    pub seq: i64,
    /// Its id.
    pub event_id: Uuid,
    /// Its name.
    pub kind: String,
    /// The step it belongs to.
    pub step: Option<i32>,
    /// Its data: an object.
    pub data: Value,
    /// When.
    pub at: DateTime<Utc>,
}

impl EventRecord {
    /// Whether none comes after it.
    pub fn is_last(&self) -> bool {
        matches!(self.kind.as_str(), "run.finished" | "run.failed" | "run.cancelled")
    }
}

/// How far a run's events go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventsEnd {
    /// The newest.
    pub last_seq: i64,
    /// The run has ended: there won't be more.
    pub complete: bool,
}

impl TenantTx {
    /// Events of a run after `after`, oldest first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn event_list(&mut self, run_id: RunId, after: i64, limit: i64) -> Result<Vec<EventRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            EventRecord,
            "SELECT seq, event_id, type AS kind, step, data, at FROM events
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

    /// How far a run's events go; `None`: no such run.
    ///
    /// # Errors
    /// The database is away.
    pub async fn events_end(&mut self, run_id: RunId) -> Result<Option<EventsEnd>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            r#"SELECT s.event_seq, r.finished_at IS NOT NULL AS "complete!"
               FROM run_states s JOIN runs r ON r.tenant_id = s.tenant_id AND r.run_id = s.run_id
               WHERE s.tenant_id = $1 AND s.run_id = $2"#,
            tenant,
            run_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(row.map(|row| EventsEnd { last_seq: row.event_seq, complete: row.complete }))
    }

    /// The newest event at `upto` or before it that tells of an attempt on the model.
    ///
    /// # Errors
    /// The database is away.
    pub async fn event_of_model(&mut self, run_id: RunId, upto: i64) -> Result<Option<EventRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            EventRecord,
            "SELECT seq, event_id, type AS kind, step, data, at FROM events
             WHERE tenant_id = $1 AND run_id = $2 AND seq <= $3
               AND type IN ('model.started', 'model.completed', 'model.failed')
             ORDER BY seq DESC LIMIT 1",
            tenant,
            run_id.0,
            upto,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }
}
