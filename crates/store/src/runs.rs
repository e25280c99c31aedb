//! Accepting runs. All of it happens in the request's own transaction: a run that was answered for is stored whole.

mod wanted;

use answerable_core::audit::Action;
use answerable_core::id::{MessageId, RunId, ThreadId};
use answerable_core::input::Content;
use answerable_core::message::Message;
use answerable_core::run::{EventType, RunState};
use answerable_core::trace::{SpanId, SpanLink};
use answerable_ports::Signal;
use answerable_ports::commit::InboundBody;
use chrono::{DateTime, Utc};
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::Result;
use crate::error::{as_json, store_error};
use crate::given::Misfit;
use crate::outbox::{self, RunFacts};
use crate::tx::TenantTx;
pub use wanted::{NewRun, OnBusy, Origin, OriginKind, RunRefused};

impl TenantTx {
    /// Accepts a run, or says why not; then the transaction must not be committed. Gives the state that it begins with.
    ///
    /// Locks in this order, so that nobody waits in a circle: the tenant (only where its queue is limited), the thread,
    /// runs that are cancelled, the concurrency key. The run's place is drawn under them, so it is also its turn.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_create(&mut self, new: &NewRun) -> Result<std::result::Result<RunState, RunRefused>> {
        if let Some(refused) = self.quota_refuses().await? {
            return Ok(Err(refused));
        }
        let workspace = match new.thread_id {
            None => new.origin.as_ref().map_or_else(Uuid::now_v7, |origin| origin.workspace),
            Some(thread) => match self.thread_take(thread, new.on_busy).await? {
                Ok(workspace) => workspace,
                Err(refused) => return Ok(Err(refused)),
            },
        };
        if let Some(key) = &new.concurrency_key {
            self.concurrency_key_lock(key).await?;
        }
        let (now, state) = self.run_insert(new, workspace).await?;
        if let Err(refused) = self.input_insert(new, now, &state).await? {
            return Ok(Err(refused));
        }
        self.queued_announce(new, now, &state).await?;
        self.announce(Signal::Work);
        self.announce(Signal::Progress(new.run_id.0));
        Ok(Ok(state))
    }

    /// Whether such a run could be accepted as far as it goes by what it is, whatever the quotas say and whoever is busy. What
    /// this writes must be undone.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_try(&mut self, new: &NewRun) -> Result<std::result::Result<(), RunRefused>> {
        if let Some(thread) = new.thread_id
            && self.thread_fetch(thread).await?.is_none()
        {
            return Ok(Err(RunRefused::UnknownThread));
        }
        let (now, state) = self.run_insert(new, Uuid::now_v7()).await?;
        self.input_insert(new, now, &state).await
    }

    /// Locks the thread, so that the order of its runs is the order in which they were asked for. Gives its workspace.
    async fn thread_take(
        &mut self,
        thread: ThreadId,
        on_busy: OnBusy,
    ) -> Result<std::result::Result<Uuid, RunRefused>> {
        let workspace = self.thread_lock(thread).await?;
        let Some(workspace) = workspace else { return Ok(Err(RunRefused::UnknownThread)) };
        if on_busy == OnBusy::Queue {
            return Ok(Ok(workspace));
        }
        let tenant = self.tenant();
        // In their order: whoever ends one of them goes on to the row of the next.
        let open = sqlx::query_scalar!(
            "SELECT run_id FROM run_queue WHERE tenant_id = $1 AND thread_id = $2 AND NOT ended ORDER BY ord",
            tenant,
            thread.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        if on_busy == OnBusy::Reject && !open.is_empty() {
            return Ok(Err(RunRefused::ThreadBusy));
        }
        for run in open {
            self.run_cancel(RunId(run), Some("a newer run of the thread took its place".into())).await?;
        }
        Ok(Ok(workspace))
    }

    async fn concurrency_key_lock(&mut self, key: &str) -> Result<()> {
        sqlx::query!("SELECT pg_advisory_xact_lock($1)", key_lock(self.tenant(), key))
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        Ok(())
    }

    /// The run's rows: what never changes, its state, its place in the queue, its first event.
    pub(crate) async fn run_insert(
        &mut self,
        new: &NewRun,
        workspace: Uuid,
    ) -> Result<(DateTime<Utc>, RunState)> {
        let tenant = self.tenant();
        let now = sqlx::query_scalar!(r#"SELECT date_trunc('milliseconds', clock_timestamp()) AS "now!""#)
            .fetch_one(self.conn())
            .await
            .map_err(store_error)?;
        let starts = new.not_before.map_or(now, |at| at.max(now));
        let state = new.first_state(starts);
        let over = state.clock.due(new.budgets.timeout_ms).and_then(DateTime::from_timestamp_millis);
        let expires = over.into_iter().chain(new.deadline).min();
        // A deadline that passes before it may start ends it all the same.
        let wakes = expires.map_or(starts, |expires| expires.min(starts));
        sqlx::query!(
            "WITH made AS (
                 INSERT INTO runs (tenant_id, run_id, agent_id, agent_version, spec_hash, thread_id, workspace_id, context,
                     metadata, budgets, trace_id, created_by, priority, not_before, deadline, concurrency_key, created_at,
                     origin_kind, origin_run_id, origin_step, lineage_length, trace_parent, trace_link, creators, policy,
                     schedule_id, due_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::json, $9, $10::text::json, $11, $12, $13, $14, $15, $16, $17,
                     $22, $23, $24, $25, $27, $28, $29, $30::text::json, $31, $32)
                 RETURNING ord
             ), stated AS (
                 INSERT INTO run_states (tenant_id, run_id, event_seq, state) VALUES ($1, $2, 1, $18::text::json)
             ), queued AS (
                 INSERT INTO run_queue (tenant_id, run_id, ord, priority, thread_id, concurrency_key, wake_at, expires_at, needs)
                 SELECT $1, $2, made.ord, $13, $6, $16, $19, $20, $26 FROM made
             )
             INSERT INTO events (tenant_id, run_id, seq, event_id, type, data, at)
             VALUES ($1, $2, 1, $21, 'run.queued', '{}', $17)",
            tenant,
            new.run_id.0,
            new.agent.map(|(id, _)| id.0),
            new.agent.map(|(_, version)| version),
            new.spec_hash,
            new.thread_id.map(|id| id.0),
            workspace,
            as_json(&new.context)?,
            new.metadata,
            as_json(&new.budgets)?,
            new.trace.trace_id,
            new.created_by,
            new.priority,
            new.not_before,
            new.deadline,
            new.concurrency_key,
            now,
            as_json(&state)?,
            wakes,
            expires,
            Uuid::now_v7(),
            new.origin.as_ref().map(|origin| origin.kind.as_str()),
            new.origin.as_ref().map(|origin| origin.run_id.0),
            new.origin.as_ref().map(|origin| i32::try_from(origin.after_step).unwrap_or(i32::MAX)),
            new.origin.as_ref().map_or(0, |origin| origin.lineage),
            i16::try_from(state.version).unwrap_or(i16::MAX),
            new.trace.parent.as_ref().map(SpanId::as_str),
            new.trace.link.as_ref().map(SpanLink::traceparent),
            &new.creators,
            new.policy.as_ref().map(as_json).transpose()?,
            new.schedule.map(|(id, _)| id.0),
            new.schedule.map(|(_, due_at)| due_at),
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok((now, state))
    }

    /// What it was given.
    pub(crate) async fn input_insert(
        &mut self,
        new: &NewRun,
        now: DateTime<Utc>,
        state: &RunState,
    ) -> Result<std::result::Result<(), RunRefused>> {
        let contents: Vec<&Content> = new.messages.iter().map(|message| &message.content).collect();
        let parts = match self.parts_keep(new.run_id, &contents).await? {
            Ok(parts) => parts,
            Err(Misfit::Content(message, fault)) => {
                return Ok(Err(RunRefused::Input(fault.under(&format!("/{message}/content")))));
            }
            Err(Misfit::Full(full)) => return Ok(Err(RunRefused::Full(full))),
        };
        let first = state.next_message - new.messages.len() as u64;
        let given = new.messages.iter().zip(parts).zip(first..).map(|((message, parts), seq)| Message {
            parts,
            pinned: message.pinned,
            ..Message::text(MessageId(Uuid::now_v7()), seq, message.role, &message.content.text)
        });
        self.messages_insert(new.run_id, &given.collect::<Vec<_>>(), now).await.map(Ok)
    }

    /// What webhooks hear of it.
    pub(crate) async fn queued_announce(
        &mut self,
        new: &NewRun,
        now: DateTime<Utc>,
        state: &RunState,
    ) -> Result<()> {
        let tenant = self.tenant();
        let facts = RunFacts::of(new.run_id, new.thread_id.map(|id| id.0), state);
        let (body, with_input) = outbox::run_event(EventType::RunQueued, now, &facts);
        let made = sqlx::query!(
            "INSERT INTO deliveries (tenant_id, delivery_id, webhook_id, run_id, type, body, next_attempt_at, created_at)
             SELECT $1, uuid_v7(), webhook_id, $2, 'run.queued', CASE WHEN include_input THEN $4 ELSE $3 END, $5, $5
             FROM webhooks WHERE tenant_id = $1 AND disabled_at IS NULL AND webhook_hears(events, 'run.queued')",
            tenant,
            new.run_id.0,
            body,
            with_input,
            now,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        if made.rows_affected() > 0 {
            self.announce(Signal::Deliveries);
        }
        Ok(())
    }

    /// Asks for a run's end. One that has ended stays as it is, and a second cancel adds nothing. `false`: no such run.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_cancel(&mut self, run_id: RunId, reason: Option<String>) -> Result<bool> {
        let Some(locked) = self.run_lock(run_id).await? else { return Ok(false) };
        if !locked.state.is_ended() && !self.inbox_count(run_id).await?.1 {
            self.inbox_add(run_id, &InboundBody::Cancel { reason }, true).await?;
            self.act(Action::RunCancel, run_id, json!({}));
        }
        Ok(true)
    }
}

/// What runs of a tenant with the same key are ordered by. All locks of this kind share one space of numbers, those of
/// claiming among them, and tenants choose their keys: so the number is one that nobody can aim at.
fn key_lock(tenant: Uuid, key: &str) -> i64 {
    let hash =
        Sha256::new().chain_update("concurrency key\0").chain_update(tenant).chain_update(key).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_tenants_have_locks_of_their_own() {
        let (own, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!(key_lock(own, "a"), key_lock(own, "a"));
        let locks = [key_lock(own, "a"), key_lock(own, "b"), key_lock(other, "a"), key_lock(other, "b")];
        assert!((1..4).all(|at| !locks[..at].contains(&locks[at])), "{locks:?}");
    }
}
