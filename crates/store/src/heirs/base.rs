//! The run that another one is to stand on, and its state after a step.

use answerable_core::id::{AgentId, RunId, ThreadId};
use answerable_core::run::RunState;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::lineage::{self, Part};
use crate::Result;
use crate::error::store_error;
use crate::load::read_state;
use crate::tx::TenantTx;

/// What is known of the run that is stood on.
pub(super) struct Base {
    pub(super) ord: i64,
    pub(super) agent: Option<(AgentId, i32)>,
    pub(super) spec_hash: String,
    pub(super) thread_id: Option<ThreadId>,
    pub(super) workspace_id: Uuid,
    pub(super) context: Value,
    pub(super) metadata: Value,
    pub(super) creators: Vec<String>,
    pub(super) policy: Option<Value>,
    pub(super) priority: i16,
    pub(super) concurrency_key: Option<String>,
    pub(super) state: RunState,
    pub(super) lineage_length: i32,
    pub(super) is_replay: bool,
}

impl TenantTx {
    /// The run that is stood on. Its row is locked against deletion; nothing else of it can change that matters here.
    pub(super) async fn base_fetch(&mut self, run_id: RunId) -> Result<Option<Base>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            r#"SELECT r.ord, r.agent_id, r.agent_version, r.spec_hash, r.thread_id, r.workspace_id, r.context, r.metadata, r.policy,
                 CASE WHEN r.creators = '{}' THEN ARRAY[r.created_by] ELSE r.creators END AS "creators!",
                 r.priority, r.concurrency_key, r.lineage_length, s.state, r.origin_kind IS NOT DISTINCT FROM 'replay' AS "is_replay!"
             FROM runs r JOIN run_states s ON s.tenant_id = r.tenant_id AND s.run_id = r.run_id
             WHERE r.tenant_id = $1 AND r.run_id = $2 FOR KEY SHARE OF r"#,
            tenant,
            run_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Base {
            ord: row.ord,
            agent: row.agent_id.map(AgentId).zip(row.agent_version),
            spec_hash: row.spec_hash,
            thread_id: row.thread_id.map(ThreadId),
            workspace_id: row.workspace_id,
            context: row.context,
            metadata: row.metadata,
            creators: row.creators,
            policy: row.policy,
            priority: row.priority,
            concurrency_key: row.concurrency_key,
            state: read_state(row.state)?,
            lineage_length: row.lineage_length,
            is_replay: row.is_replay,
        }))
    }

    /// The state after a step, by its checkpoint, and the parts as far as they led to it.
    pub(super) async fn checkpoint_find(
        &mut self,
        parts: &[Part],
        after_step: u32,
        newest: &RunState,
    ) -> Result<Option<(RunState, Vec<Part>)>> {
        let mut kept = lineage::up_to(parts, after_step);
        let Some(last) = kept.last_mut() else { return Ok(None) };
        let state = if after_step == 0 {
            let messages = self.input_count(last.run).await?;
            let mut state =
                RunState::accepted(newest.run_id, newest.budgets.clone(), messages, 0, newest.deadline);
            state.clock.stop(0);
            // Its agent may need newer servers.
            state.needing(newest.version)
        } else {
            match self.checkpoint_state(last.run, after_step).await? {
                Some(state) => state,
                None => return Ok(None),
            }
        };
        last.cut(after_step, state.next_message - 1);
        Ok(Some((state, kept)))
    }

    async fn checkpoint_state(&mut self, run: Uuid, step: u32) -> Result<Option<RunState>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            "SELECT state, created_at FROM checkpoints WHERE tenant_id = $1 AND run_id = $2 AND step = $3
             ORDER BY seq DESC LIMIT 1",
            tenant,
            run,
            i32::try_from(step).unwrap_or(i32::MAX),
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let (mut state, at): (RunState, DateTime<Utc>) = (read_state(row.state)?, row.created_at);
        state.clock.stop(at.timestamp_millis());
        Ok(Some(state))
    }

    /// Messages that a run was given at its beginning.
    async fn input_count(&mut self, run: Uuid) -> Result<u64> {
        let tenant = self.tenant();
        let count = sqlx::query_scalar!(
            r#"SELECT coalesce((SELECT min(seq) - 1 FROM messages WHERE tenant_id = $1 AND run_id = $2 AND step IS NOT NULL),
                   (SELECT max(seq) FROM messages WHERE tenant_id = $1 AND run_id = $2), 0) AS "count!""#,
            tenant,
            run,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}
