//! Messages as they are shown.

use answerable_core::id::{RunId, ThreadId};
use answerable_core::message::{Part, Summary};
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::types::Json;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::load::More;
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
    more: Option<Json<More>>,
}

impl MessageRecord {
    /// Its pieces, where it is more than text.
    pub fn parts(&self) -> &[Part] {
        self.more.as_ref().map_or(&[], |more| &more.0.parts)
    }

    /// What it sums up.
    pub fn summary(&self) -> Option<&Summary> {
        self.more.as_ref().and_then(|more| more.0.summary.as_ref())
    }

    /// No context leaves it out.
    pub fn pinned(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.0.pinned == Some(true))
    }
}

impl TenantTx {
    /// Messages of a run after place `after`, oldest first: those of the runs that it stands on, and what it wrote.
    ///
    /// # Errors
    /// The database is away.
    pub async fn message_list(
        &mut self,
        run_id: RunId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<MessageRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            MessageRecord,
            r#"SELECT m.seq, m.message_id, m.role, m.content, m.tool_calls, m.tool_call_id, m.step, m.created_at,
                 m.more AS "more: Json<More>"
             FROM run_parts($1, $2) p
             JOIN messages m ON m.tenant_id = $1 AND m.run_id = p.run_id AND m.seq <= p.through_seq
             WHERE m.seq > $3 ORDER BY m.seq LIMIT $4"#,
            tenant,
            run_id.0,
            after,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Messages of all runs of a thread after the place `after`, oldest first, each with its run's place.
    ///
    /// # Errors
    /// The database is away.
    pub async fn thread_message_list(
        &mut self,
        thread_id: ThreadId,
        after: (i64, i64),
        limit: i64,
    ) -> Result<Vec<(i64, MessageRecord)>> {
        let tenant = self.tenant();
        let rows = sqlx::query!(
            r#"SELECT r.ord, m.seq, m.message_id, m.role, m.content, m.tool_calls, m.tool_call_id, m.step, m.created_at,
                 m.more AS "more: Json<More>"
             FROM runs r JOIN messages m ON m.tenant_id = r.tenant_id AND m.run_id = r.run_id
             WHERE r.tenant_id = $1 AND r.thread_id = $2 AND r.ord >= $3 AND (r.ord, m.seq) > ($3, $4)
             ORDER BY r.ord, m.seq LIMIT $5"#,
            tenant,
            thread_id.0,
            after.0,
            after.1,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let records = rows.into_iter().map(|row| {
            let record = MessageRecord {
                seq: row.seq,
                message_id: row.message_id,
                role: row.role,
                content: row.content,
                tool_calls: row.tool_calls,
                tool_call_id: row.tool_call_id,
                step: row.step,
                created_at: row.created_at,
                more: row.more,
            };
            (row.ord, record)
        });
        Ok(records.collect())
    }
}
