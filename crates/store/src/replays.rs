//! Replays: what a run is played again from, and the run that comes of it. It is written whole, in the transaction of whoever
//! asked for it, and has ended by then: nobody ever claims it.

mod story;
mod write;

use answerable_core::id::{AgentId, RunId, TenantId, ThreadId};
use answerable_core::message::Message;
use answerable_core::replay::{Difference, Replayed, Story};
use answerable_core::run::RunState;
use answerable_core::trace::{Frame, SpanId, SpanLink, TraceContext};
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::frame::Hangs;
use crate::heirs::lineage::{MAX_LINEAGE, Part};
use crate::load::read_state;
use crate::recordings::{NoRecording, Recorded};
use crate::tx::TenantTx;

/// A run that is to be played again.
#[derive(Debug, Clone)]
pub struct ReplayBase {
    /// What is recorded of it.
    pub recorded: Recorded,
    /// The history that it was shown before its own.
    pub before: Vec<Message>,
    /// What it did, by its rows.
    pub story: Story,
    /// Hash of its agent.
    pub spec_hash: String,
    /// Its metadata.
    pub metadata: Value,
    /// All who count as having started it.
    pub creators: Vec<String>,
    run_id: RunId,
    trace_id: String,
    accepted_at: DateTime<Utc>,
    /// The runs that its history begins with.
    lineage: Vec<Part>,
}

/// Why a run can't be played again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayRefused {
    /// There is no recording of it.
    NoRecording(NoRecording),
    /// It has not ended.
    NotEnded,
    /// A run that it stands on was deleted.
    BaseGone,
    /// It stands on too many others.
    TooManyBefore,
}

/// A replay that is to be written.
#[derive(Debug)]
pub struct NewReplay {
    /// Its id.
    pub run_id: RunId,
    /// The stored agent and its version; `None`: it came with a request.
    pub agent: Option<(AgentId, i32)>,
    /// Hash of the agent, which is stored already.
    pub spec_hash: String,
    /// Its context.
    pub context: Value,
    /// Its metadata: a JSON object of strings.
    pub metadata: Value,
    /// Where its trace hangs.
    pub trace: TraceContext,
    /// Who wants it.
    pub created_by: String,
    /// All who count as having started it, those who started the other one included.
    pub creators: Vec<String>,
    /// The run as it was played.
    pub replayed: Replayed,
    /// What came out otherwise first.
    pub difference: Option<Difference>,
}

impl ReplayBase {
    /// How a replay of it stands in its trace.
    pub fn frame(
        &self,
        tenant: TenantId,
        run: RunId,
        agent: Option<(AgentId, i32)>,
        trace: &TraceContext,
    ) -> Frame {
        let began = self.recorded.begin.first.clock.since.and_then(DateTime::from_timestamp_millis);
        let hangs = Hangs {
            run,
            agent: agent.map(|(id, version)| (id.0, version)),
            thread: None,
            // A replay was accepted long after what happens in it.
            created_at: began.map_or(self.accepted_at, |began| began.min(self.accepted_at)),
            parent: trace.parent.as_ref().map(SpanId::as_str).map(str::to_owned),
            link: trace.link.as_ref().map(SpanLink::traceparent),
            base: Some((self.run_id.0, self.trace_id.clone())),
        };
        hangs.frame(tenant)
    }
}

/// A run's row, as far as a replay needs it.
struct Facts {
    ord: i64,
    spec_hash: String,
    thread_id: Option<Uuid>,
    metadata: Value,
    creators: Vec<String>,
    trace_id: String,
    created_at: DateTime<Utc>,
    lineage_length: i32,
    state: Value,
}

impl TenantTx {
    /// All that a run is played again from. Its row is locked against deletion.
    ///
    /// # Errors
    /// The database is away, or what is stored makes no sense.
    pub async fn replay_base(
        &mut self,
        run_id: RunId,
    ) -> Result<std::result::Result<ReplayBase, ReplayRefused>> {
        let Some(facts) = self.replay_facts(run_id).await? else {
            return Ok(Err(ReplayRefused::NoRecording(NoRecording::NotFound)));
        };
        let state = read_state(facts.state)?;
        if !state.is_ended() {
            return Ok(Err(ReplayRefused::NotEnded));
        }
        let own = self.lineage_fetch(run_id).await?;
        if own.len() != usize::try_from(facts.lineage_length).unwrap_or(0) {
            return Ok(Err(ReplayRefused::BaseGone));
        }
        let mut lineage = match facts.thread_id {
            Some(thread) => self.thread_before(ThreadId(thread), facts.ord, &own).await?,
            None => Vec::new(),
        };
        lineage.extend(own);
        if lineage.len() > MAX_LINEAGE {
            return Ok(Err(ReplayRefused::TooManyBefore));
        }
        let recorded = match self.recording_fetch(run_id).await? {
            Ok(recorded) => recorded,
            Err(why) => return Ok(Err(ReplayRefused::NoRecording(why))),
        };
        Ok(Ok(ReplayBase {
            before: self.history_before(run_id, facts.thread_id).await?,
            story: self.story_fetch(run_id, &state).await?,
            recorded,
            spec_hash: facts.spec_hash,
            metadata: facts.metadata,
            creators: facts.creators,
            run_id,
            trace_id: facts.trace_id,
            accepted_at: facts.created_at,
            lineage,
        }))
    }

    async fn replay_facts(&mut self, run_id: RunId) -> Result<Option<Facts>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            Facts,
            "SELECT r.ord, r.spec_hash, r.thread_id, r.metadata, r.creators, r.trace_id, r.created_at, r.lineage_length, s.state
             FROM runs r JOIN run_states s ON s.tenant_id = r.tenant_id AND s.run_id = r.run_id
             WHERE r.tenant_id = $1 AND r.run_id = $2 FOR KEY SHARE OF r",
            tenant,
            run_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// The history that a run was shown, without what it was given and what it wrote itself.
    async fn history_before(&mut self, run_id: RunId, thread: Option<Uuid>) -> Result<Vec<Message>> {
        let tenant = self.tenant();
        let own = sqlx::query_scalar!(
            "SELECT message_id FROM messages WHERE tenant_id = $1 AND run_id = $2",
            tenant,
            run_id.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let own: std::collections::HashSet<Uuid> = own.into_iter().collect();
        let mut history = self.history(run_id.0, thread).await?;
        history.retain(|message| !own.contains(&message.id.0));
        Ok(history)
    }

    /// Writes a replay of `base`, whole.
    ///
    /// # Errors
    /// The database is away.
    pub async fn replay_create(&mut self, base: &ReplayBase, new: NewReplay) -> Result<()> {
        let run_id = new.run_id;
        let now = self.replay_insert(base, &new).await?;
        self.messages_insert(run_id, &new.replayed.inputs, now).await?;
        self.lineage_insert(run_id, &base.lineage).await?;
        self.first_checkpoint_insert(run_id, &new.replayed.first).await?;
        for (seq, part) in (0..).zip(new.replayed.parts) {
            self.part_write(run_id, seq, part, now.timestamp_millis()).await?;
        }
        self.words_copy(run_id, &new.replayed.decided).await
    }
}

/// The step that a replay's own steps follow.
fn after_step(first: &RunState) -> i32 {
    i32::try_from(first.step).unwrap_or(i32::MAX)
}
