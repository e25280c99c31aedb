//! What is recorded of a run: the state that it began in, what it was given, and its journal.

use answerable_core::agent::AgentSpec;
use answerable_core::budget::Budgets;
use answerable_core::id::{ArtifactId, RunId};
use answerable_core::message::Message;
use answerable_core::permission::VERSION_OF_RUN_POLICIES;
use answerable_core::run::{Event, RunState, version_of};
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::load::{MessageRow, decode, read_state};
use crate::tx::TenantTx;

/// Events of a journal that are read into memory.
const MAX_EVENTS: i64 = 20_000;
/// Bytes of them.
const MAX_BYTES: i64 = 16 * 1024 * 1024;

/// How a run began.
#[derive(Debug, Clone)]
pub struct RunBegin {
    /// The stored agent and its version, if it has one.
    pub agent: Option<(Uuid, i32)>,
    /// The agent as it is stored.
    pub spec: Value,
    /// Its context.
    pub context: Value,
    /// Its own policy, as it was written.
    pub policy: Option<Value>,
    /// The state that it began in.
    pub first: RunState,
    /// What it was given.
    pub inputs: Vec<Message>,
}

/// What is recorded of a run.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// How it began.
    pub begin: RunBegin,
    /// What happened, in order.
    pub journal: Vec<Event>,
}

impl Recorded {
    /// The agent that it was pinned to.
    ///
    /// # Errors
    /// It makes no sense to this version.
    pub fn agent(&self) -> Result<AgentSpec> {
        decode(self.begin.spec.clone(), "agent")
    }

    /// Artifacts that people's messages to it refer to.
    pub fn artifacts_given(&self) -> Vec<ArtifactId> {
        let said = self.journal.iter().filter_map(|event| match event {
            Event::Steered { parts, .. } => Some(parts),
            _ => None,
        });
        let given = self.begin.inputs.iter().map(|message| &message.parts);
        given.chain(said).flatten().filter_map(|part| part.attachment()?.artifact()).collect()
    }
}

/// Why a run's recording can't be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRecording {
    /// There is no such run.
    NotFound,
    /// Its journal was taken away; runs may be kept longer than journals.
    Gone,
    /// It is longer than what is read at once.
    TooLong,
}

/// A line of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalRow {
    /// The commit.
    pub seq: i64,
    /// The place in it.
    pub index: i32,
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// The event.
    pub event: Value,
}

impl TenantTx {
    /// How a run began, if its journal is still there.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_begin(&mut self, run_id: RunId) -> Result<std::result::Result<RunBegin, NoRecording>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            r#"SELECT r.agent_id, r.agent_version, a.spec, r.context, r.policy, r.budgets, r.deadline,
                   greatest(r.created_at, r.not_before) AS "starts!", c.state AS "first?",
                   coalesce((s.state ->> 'depth')::integer, 0) AS "depth!",
                   s.seq > 0 AND NOT EXISTS (SELECT FROM journal j WHERE j.tenant_id = r.tenant_id AND j.run_id = r.run_id)
                       AS "gone!"
               FROM runs r
               JOIN run_states s ON s.tenant_id = r.tenant_id AND s.run_id = r.run_id
               JOIN agent_specs a ON a.tenant_id = r.tenant_id AND a.spec_hash = r.spec_hash
               LEFT JOIN checkpoints c ON c.tenant_id = r.tenant_id AND c.run_id = r.run_id AND c.seq = 0
               WHERE r.tenant_id = $1 AND r.run_id = $2"#,
            tenant,
            run_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(Err(NoRecording::NotFound)) };
        if row.gone {
            return Ok(Err(NoRecording::Gone));
        }
        let inputs = self.run_inputs(run_id).await?;
        let first = match row.first {
            Some(state) => read_state(state)?,
            None => {
                let budgets = decode::<Budgets>(row.budgets, "limits")?;
                let (given, starts) = (inputs.len() as u64, row.starts.timestamp_millis());
                let deadline = row.deadline.map(|at| at.timestamp_millis());
                let has_parts = inputs.iter().any(|message| message.pinned || !message.parts.is_empty());
                let agent = decode::<AgentSpec>(row.spec.clone(), "agent")?;
                let first = RunState::accepted(run_id, budgets, given, starts, deadline);
                let depth = u32::try_from(row.depth).unwrap_or(0);
                let needs =
                    version_of(&agent).max(if row.policy.is_some() { VERSION_OF_RUN_POLICIES } else { 0 });
                first.given(has_parts).needing(needs).below(depth)
            }
        };
        let agent = row.agent_id.zip(row.agent_version);
        let (spec, context, policy) = (row.spec, row.context, row.policy);
        Ok(Ok(RunBegin { agent, spec, context, policy, first, inputs }))
    }

    /// What a run was given at its beginning: what stands before its first step and wasn't said to it later.
    async fn run_inputs(&mut self, run_id: RunId) -> Result<Vec<Message>> {
        let tenant = self.tenant();
        let rows = sqlx::query_as!(
            MessageRow,
            r#"WITH steered AS (
                   SELECT event -> 'Steered' ->> 'message_id' AS id FROM journal
                   WHERE tenant_id = $1 AND run_id = $2 AND event -> 'Steered' IS NOT NULL
               )
               SELECT message_id, seq, role, content, tool_calls, tool_call_id, step, extra, more FROM messages
               WHERE tenant_id = $1 AND run_id = $2 AND step IS NULL
                   AND 'msg_' || message_id NOT IN (SELECT id FROM steered)
               ORDER BY seq"#,
            tenant,
            run_id.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        rows.into_iter().map(Message::try_from).collect()
    }

    /// All that is recorded of a run.
    ///
    /// # Errors
    /// The database is away, or what is stored makes no sense.
    pub async fn recording_fetch(
        &mut self,
        run_id: RunId,
    ) -> Result<std::result::Result<Recorded, NoRecording>> {
        let begin = match self.run_begin(run_id).await? {
            Ok(begin) => begin,
            Err(why) => return Ok(Err(why)),
        };
        if self.journal_is_long(run_id).await? {
            return Ok(Err(NoRecording::TooLong));
        }
        let tenant = self.tenant();
        let events = sqlx::query_scalar!(
            "SELECT event FROM journal WHERE tenant_id = $1 AND run_id = $2 ORDER BY seq, index",
            tenant,
            run_id.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let journal = events.into_iter().map(|event| decode(event, "event")).collect::<Result<_>>()?;
        Ok(Ok(Recorded { begin, journal }))
    }

    async fn journal_is_long(&mut self, run_id: RunId) -> Result<bool> {
        let tenant = self.tenant();
        sqlx::query_scalar!(
            r#"SELECT count(*) > $3 OR coalesce(sum(octet_length(event::text)), 0) > $4 AS "long!"
               FROM journal WHERE tenant_id = $1 AND run_id = $2"#,
            tenant,
            run_id.0,
            MAX_EVENTS,
            MAX_BYTES,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// Lines of a run's journal after a commit and the place in it, in order.
    ///
    /// # Errors
    /// The database is away.
    pub async fn journal_list(
        &mut self,
        run_id: RunId,
        after: (i64, i32),
        limit: i64,
    ) -> Result<Vec<JournalRow>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            JournalRow,
            "SELECT seq, index, at, event FROM journal
             WHERE tenant_id = $1 AND run_id = $2 AND (seq, index) > ($3, $4) ORDER BY seq, index LIMIT $5",
            tenant,
            run_id.0,
            after.0,
            after.1,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}
