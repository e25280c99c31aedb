//! Threads: conversations over several runs.

use std::collections::BTreeMap;

use answerable_core::audit::Action;
use answerable_core::id::ThreadId;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRow {
    /// Its id.
    pub thread_id: Uuid,
    /// Its place in lists.
    pub ord: i64,
    /// Its workspace.
    pub workspace_id: Uuid,
    /// The caller's own words.
    pub metadata: Value,
    /// A run of it has not ended.
    pub busy: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// What became of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadDeleted {
    /// It is out of lists and of further use.
    Deleted,
    /// A run of it has not ended.
    Busy,
    /// There is none.
    Unknown,
}

impl TenantTx {
    /// Makes a thread.
    ///
    /// # Errors
    /// The database is away.
    pub async fn thread_create(&mut self, metadata: &BTreeMap<String, String>) -> Result<ThreadRow> {
        sqlx::query_as!(
            ThreadRow,
            r#"INSERT INTO threads (tenant_id, thread_id, workspace_id, metadata) VALUES ($1, $2, $3, $4)
               RETURNING thread_id, ord, workspace_id, metadata, false AS "busy!", created_at"#,
            self.tenant(),
            Uuid::now_v7(),
            Uuid::now_v7(),
            json!(metadata),
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// Threads, newest first, of places before `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn thread_list(&mut self, before: Option<i64>, limit: i64) -> Result<Vec<ThreadRow>> {
        sqlx::query_as!(
            ThreadRow,
            r#"SELECT thread_id, ord, workspace_id, metadata, created_at,
                   EXISTS (SELECT FROM run_queue q
                           WHERE q.tenant_id = t.tenant_id AND q.thread_id = t.thread_id AND NOT q.ended) AS "busy!"
               FROM threads t
               WHERE tenant_id = $1 AND deleted_at IS NULL AND ($2::bigint IS NULL OR ord < $2)
               ORDER BY ord DESC LIMIT $3"#,
            self.tenant(),
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// A thread.
    ///
    /// # Errors
    /// The database is away.
    pub async fn thread_fetch(&mut self, thread: ThreadId) -> Result<Option<ThreadRow>> {
        sqlx::query_as!(
            ThreadRow,
            r#"SELECT thread_id, ord, workspace_id, metadata, created_at,
                   EXISTS (SELECT FROM run_queue q
                           WHERE q.tenant_id = t.tenant_id AND q.thread_id = t.thread_id AND NOT q.ended) AS "busy!"
               FROM threads t
               WHERE tenant_id = $1 AND thread_id = $2 AND deleted_at IS NULL"#,
            self.tenant(),
            thread.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Locks a thread that a run is about to join, so that runs join one after another and none joins one that is being
    /// deleted; gives its workspace.
    ///
    /// # Errors
    /// The database is away.
    pub async fn thread_lock(&mut self, thread: ThreadId) -> Result<Option<Uuid>> {
        sqlx::query_scalar!(
            "SELECT workspace_id FROM threads
             WHERE tenant_id = $1 AND thread_id = $2 AND deleted_at IS NULL FOR NO KEY UPDATE",
            self.tenant(),
            thread.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Takes a thread out of lists and of further use, and its files away. Its runs stay.
    ///
    /// # Errors
    /// The database is away.
    pub async fn thread_delete(&mut self, thread: ThreadId) -> Result<ThreadDeleted> {
        let Some(workspace) = self.thread_lock(thread).await? else {
            return Ok(ThreadDeleted::Unknown);
        };
        let done = sqlx::query!(
            "UPDATE threads t SET deleted_at = now()
             WHERE tenant_id = $1 AND thread_id = $2 AND NOT EXISTS (
                 SELECT FROM run_queue q WHERE q.tenant_id = t.tenant_id AND q.thread_id = t.thread_id AND NOT q.ended)",
            self.tenant(),
            thread.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        if done.rows_affected() == 0 {
            return Ok(ThreadDeleted::Busy);
        }
        self.workspaces_delete(&[workspace]).await?;
        self.act(Action::ThreadDelete, thread, json!({}));
        Ok(ThreadDeleted::Deleted)
    }
}
