//! Messages as they are shown.

use answerable_core::id::RunId;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A message of a run's history (contract, "Shapes").
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRecord {
    /// Place in its run, from 1.
    pub seq: i64,
    /// Its id.
    pub message_id: Uuid,
    /// `user`, `assistant` or `tool`.
    pub role: String,
    /// Text.
    pub content: String,
    /// Calls of an assistant's message: `[{id, name, arguments}]`, the arguments as JSON text.
    pub tool_calls: Option<Value>,
    /// The call that a tool's message answers.
    pub tool_call_id: Option<Uuid>,
    /// The step that it came in.
    pub step: Option<i32>,
    /// When.
    pub created_at: DateTime<Utc>,
}

impl TenantTx {
    /// Messages that a run wrote after place `after`, oldest first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn message_list(&mut self, run_id: RunId, after: i64, limit: i64) -> Result<Vec<MessageRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            MessageRecord,
            "SELECT seq, message_id, role, content, tool_calls, tool_call_id, step, created_at FROM messages
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
