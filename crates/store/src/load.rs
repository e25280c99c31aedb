//! A run as its new owner needs it.

use std::collections::BTreeMap;

use answerable_core::Millis;
use answerable_core::agent::AgentSpec;
use answerable_core::id::{CallId, MessageId, WorkspaceId};
use answerable_core::message::{Message, MessageCall, Part, Role, Summary};
use answerable_core::permission::Grant;
use answerable_core::run::{RunState, STATE_VERSION};
use answerable_ports::commit::{Inbound, InboundBody};
use answerable_ports::{Lease, LoadedRun, StoreError};
use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::frame::Hangs;
use crate::grants::StoredGrant;
use crate::tx::TenantTx;

impl TenantTx {
    /// Loads a run for the holder of its lease; `None`: the lease is lost.
    pub(crate) async fn run_load(&mut self, lease: Lease) -> Result<Option<LoadedRun>> {
        let row = sqlx::query!(
            r#"SELECT s.seq, s.inbox_seq, s.state, r.spec_hash, r.agent_id, r.thread_id, r.workspace_id, r.context, r.trace_id, a.spec,
                 r.agent_version, r.created_at, r.trace_parent, r.trace_link, r.origin_run_id, t.tools AS "tools?",
                 base.trace_id AS "base_trace_id?"
             FROM run_states s
             JOIN runs r ON r.tenant_id = s.tenant_id AND r.run_id = s.run_id
             JOIN agent_specs a ON a.tenant_id = r.tenant_id AND a.spec_hash = r.spec_hash
             LEFT JOIN run_tools t ON t.tenant_id = r.tenant_id AND t.run_id = r.run_id
             LEFT JOIN runs base ON base.tenant_id = r.tenant_id AND base.run_id = r.origin_run_id
             WHERE s.tenant_id = $1 AND s.run_id = $2 AND s.epoch = $3"#,
            self.tenant(),
            lease.run_id.0,
            lease.epoch,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let state = read_state(row.state)?;
        let step = i32::try_from(state.step).unwrap_or(i32::MAX);
        let rested = self.suspensions_after(state.clock.since).await?;
        let hangs = Hangs {
            run: lease.run_id,
            agent: row.agent_id.zip(row.agent_version),
            thread: row.thread_id,
            created_at: row.created_at,
            parent: row.trace_parent,
            link: row.trace_link,
            base: row.origin_run_id.zip(row.base_trace_id),
        };
        Ok(Some(LoadedRun {
            history: self.history(lease.run_id.0, row.thread_id).await?,
            inputs: self.call_inputs(lease.run_id.0, step).await?,
            inbox: self.inbox_after(lease.run_id.0, 0).await?,
            state,
            seq: row.seq,
            agent: decode::<AgentSpec>(row.spec, "agent")?,
            agent_hash: row.spec_hash,
            tools: row.tools.map(|tools| decode(tools, "list of tools")).transpose()?.unwrap_or_default(),
            agent_id: row.agent_id,
            thread_id: row.thread_id,
            workspace_id: WorkspaceId(row.workspace_id),
            context: row.context,
            trace_id: row.trace_id,
            frame: hangs.frame(lease.tenant_id),
            known_inbox: row.inbox_seq,
            rested,
        }))
    }

    /// What the model may be shown, in order: of the thread's earlier runs that have ended, of the runs that this one
    /// stands on as far as they count, then the run's own.
    pub(crate) async fn history(&mut self, run: Uuid, thread: Option<Uuid>) -> Result<Vec<Message>> {
        let rows = sqlx::query_as!(
            MessageRow,
            r#"WITH parts AS (
                   SELECT ancestor_id AS run_id, through_seq FROM run_lineage WHERE tenant_id = $1 AND run_id = $2
                   UNION ALL SELECT $2, 9223372036854775807
               ), all_parts AS (
                   SELECT run_id, through_seq FROM parts
                   UNION ALL
                   SELECT r.run_id, 9223372036854775807 FROM runs r
                   WHERE r.tenant_id = $1 AND r.thread_id = $3 AND r.finished_at IS NOT NULL
                       AND r.ord < (SELECT ord FROM runs WHERE tenant_id = $1 AND run_id = $2)
                       AND NOT EXISTS (SELECT FROM parts WHERE parts.run_id = r.run_id)
               )
               SELECT m.message_id AS "message_id!", m.seq AS "seq!", m.role AS "role!", m.content AS "content!",
                   m.tool_calls, m.tool_call_id, m.step, m.extra, m.more
               FROM all_parts p
               JOIN runs r ON r.tenant_id = $1 AND r.run_id = p.run_id
               JOIN messages m ON m.tenant_id = $1 AND m.run_id = p.run_id AND m.seq <= p.through_seq
               ORDER BY r.ord, m.seq"#,
            self.tenant(),
            run,
            thread,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        rows.into_iter().map(Message::try_from).collect()
    }

    /// From when until when the tenant was suspended, as far as that ended after `since`.
    async fn suspensions_after(&mut self, since: Option<Millis>) -> Result<Vec<(Millis, Millis)>> {
        let Some(since) = since else { return Ok(Vec::new()) };
        let rows = sqlx::query!(
            "SELECT began_at, until FROM suspensions WHERE tenant_id = $1 AND until > to_timestamp($2::bigint / 1000.0)
             ORDER BY until",
            self.tenant(),
            since,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let millis = |at: DateTime<Utc>| at.timestamp_millis();
        Ok(rows.into_iter().map(|row| (millis(row.began_at), millis(row.until))).collect())
    }

    async fn call_inputs(&mut self, run: Uuid, step: i32) -> Result<BTreeMap<CallId, Value>> {
        let rows = sqlx::query!(
            "SELECT call_id, input FROM calls WHERE tenant_id = $1 AND run_id = $2 AND step = $3",
            self.tenant(),
            run,
            step,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(|row| (CallId(row.call_id), row.input)).collect())
    }

    /// What waits for a run, of numbers over `after`, in order.
    pub(crate) async fn inbox_after(&mut self, run: Uuid, after: i64) -> Result<Vec<Inbound>> {
        let rows = sqlx::query!(
            "SELECT number, body FROM inbox WHERE tenant_id = $1 AND run_id = $2 AND number > $3 ORDER BY number",
            self.tenant(),
            run,
            after,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let read = |number, body| Ok(Inbound { number, body: decode::<InboundBody>(body, "inbox")? });
        rows.into_iter().map(|row| read(row.number, row.body)).collect()
    }

    /// Remembered approvals that cover a run and haven't ended.
    pub(crate) async fn grants_covering(
        &mut self,
        run: Uuid,
        thread: Option<Uuid>,
        agent: Option<Uuid>,
    ) -> Result<Vec<Grant>> {
        let stored = sqlx::query_as!(
            StoredGrant,
            r#"SELECT grant_id, tool_name, input_hash, expires_at, created_by, deciders,
                 decider_keys AS "decider_keys: Vec<Option<Uuid>>", max_risk FROM grants
             WHERE tenant_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
               AND ((scope = 'run' AND scope_id = $2) OR (scope = 'thread' AND scope_id = $3)
                 OR (scope = 'agent' AND scope_id = $4) OR scope = 'tenant')
             ORDER BY ord"#,
            self.tenant(),
            run,
            thread,
            agent,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        self.grants_read(stored).await
    }
}

/// A message as it is stored.
pub(crate) struct MessageRow {
    pub(crate) message_id: Uuid,
    pub(crate) seq: i64,
    pub(crate) role: String,
    pub(crate) content: String,
    pub(crate) tool_calls: Option<Value>,
    pub(crate) tool_call_id: Option<Uuid>,
    pub(crate) step: Option<i32>,
    pub(crate) extra: Option<Value>,
    pub(crate) more: Option<Value>,
}

/// What few messages have: pieces beside text, a pin, what they sum up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct More {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pinned: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<Summary>,
}

impl More {
    /// What a message has of it; `None`: nothing.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        let more = Self {
            parts: message.parts.clone(),
            pinned: message.pinned.then_some(true),
            summary: message.summary.clone(),
        };
        let is_more = !more.parts.is_empty() || more.pinned.is_some() || more.summary.is_some();
        is_more.then_some(more)
    }
}

impl TryFrom<MessageRow> for Message {
    type Error = StoreError;

    fn try_from(row: MessageRow) -> Result<Self> {
        let more =
            row.more.map(|more| decode::<More>(more, "message's rest")).transpose()?.unwrap_or_default();
        Ok(Self {
            id: MessageId(row.message_id),
            seq: u64::try_from(row.seq).unwrap_or(0),
            role: match row.role.as_str() {
                "system" => Role::System,
                "assistant" => Role::Assistant,
                "tool" => Role::Tool,
                _ => Role::User,
            },
            content: row.content,
            tool_calls: row
                .tool_calls
                .map(|calls| decode::<Vec<MessageCall>>(calls, "tool calls"))
                .transpose()?
                .unwrap_or_default(),
            tool_call_id: row.tool_call_id.map(CallId),
            step: row.step.and_then(|step| u32::try_from(step).ok()),
            extra: row.extra.map(|extra| decode(extra, "message extra")).transpose()?,
            parts: more.parts,
            pinned: more.pinned.unwrap_or(false),
            summary: more.summary,
        })
    }
}

/// Reads a stored state of this or any older version.
///
/// # Errors
/// It was written by a newer binary, or makes no sense.
pub fn read_state(state: Value) -> Result<RunState> {
    let version = state.get("version").and_then(Value::as_u64).unwrap_or(0);
    if version > u64::from(STATE_VERSION) {
        return Err(StoreError::Broken(format!("a state of version {version} needs a newer binary")));
    }
    decode(state, "state")
}

pub(crate) fn decode<T: DeserializeOwned>(value: Value, what: &str) -> Result<T> {
    serde_json::from_value(value)
        .map_err(|error| StoreError::Broken(format!("a stored {what} can't be read: {error}")))
}
