//! RunStore: the engine's side of the store.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use answerable_core::Millis;
use answerable_core::agent::{AgentSpec, ToolSpec};
use answerable_core::id::{AgentId, ApprovalId, ArtifactId, CallId, LedgerId, RunId, TenantId, WorkspaceId};
use answerable_core::ledger::Outcome;
use answerable_core::message::Message;
use answerable_core::permission::{Grant, Policy};
use answerable_core::run::{KeyHolder, PinnedAgent, RunState};
use answerable_core::trace::Frame;
use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::Value;
use uuid::Uuid;

use crate::allowance::{Allowance, AllowanceWanted};
use crate::commit::{Commit, CommitOutcome, Inbound, StoredArtifact};
use crate::kept::ArtifactsKept;
use crate::model::ModelTarget;
use crate::place::{PlaceTaken, PlaceWanted, Placed};

/// Why the store can't answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// It may answer later: the connection is gone, the pool is full, the server restarts.
    #[error("the database is away: {0}")]
    Away(String),
    /// It won't: what was asked or what is stored makes no sense to it.
    #[error("the store failed: {0}")]
    Broken(String),
}

/// The right to work on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The run's tenant.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// Rises with each claim; only the holder of the newest writes.
    pub epoch: i64,
}

/// What a server can take on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room<'a> {
    /// So many runs.
    pub limit: usize,
    /// Only those that were cancelled or whose time is over.
    pub pressing: bool,
    /// None of these tenants'.
    pub except: &'a [TenantId],
}

/// A run that this server has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// The lease.
    pub lease: Lease,
    /// Servers that died with the run so far.
    pub deaths: u32,
    /// A run that never started may start now; if not, it was claimed for something else (a cancel, its time is up).
    pub may_start: bool,
}

/// What a claim came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// The runs that this server has now.
    pub runs: Vec<Claimed>,
    /// More may be due that there was no room for, or that was not looked at: the next claim begins with it.
    pub more: bool,
}

/// What became of a renewal. A lease that is in neither set could not be looked at: somebody was just at its row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Good for their whole span again.
    pub renewed: HashSet<Lease>,
    /// Another's, or nobody's.
    pub lost: HashSet<Lease>,
    /// Those of the renewed ones whose tenants are suspended: nothing more is begun for them.
    pub suspended: HashSet<Lease>,
}

/// All that is needed to go on with a run.
#[derive(Debug, Clone)]
pub struct LoadedRun {
    /// The state.
    pub state: RunState,
    /// Commits so far: what the next one expects.
    pub seq: i64,
    /// The pinned agent.
    pub agent: AgentSpec,
    /// Hash of the pinned agent, for caching what is compiled of it.
    pub agent_hash: String,
    /// The tools of MCP servers that it was told of last; none where its agent takes none, or nobody was asked yet.
    pub tools: Vec<ToolSpec>,
    /// Agent and thread, for grants.
    pub agent_id: Option<Uuid>,
    /// Thread, if it has one.
    pub thread_id: Option<Uuid>,
    /// The files of its thread, or its own.
    pub workspace_id: WorkspaceId,
    /// The run's context.
    pub context: Value,
    /// Its trace: 32 hex digits.
    pub trace_id: String,
    /// What is the same for all of its spans.
    pub frame: Frame,
    /// The history: of earlier runs of its thread, then its own.
    pub history: Vec<Message>,
    /// Inputs of the open step's calls.
    pub inputs: BTreeMap<CallId, Value>,
    /// What waits for it.
    pub inbox: Vec<Inbound>,
    /// The newest number that the inbox has had.
    pub known_inbox: i64,
    /// From when until when its tenant was suspended, since its clock runs; oldest first.
    pub rested: Vec<(Millis, Millis)>,
}

/// What became of a call that its run no longer waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct LateOutcome {
    /// Its entry.
    pub ledger_id: LedgerId,
    /// The attempt that this is about; a later one is not touched.
    pub attempts: u32,
    /// What became of it.
    pub outcome: Outcome,
    /// Its output, if it succeeded.
    pub content: Option<String>,
    /// What of it is kept apart.
    pub artifacts: Vec<StoredArtifact>,
}

/// When a run that is handed back needs a server again. Something that comes in wakes it in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// At once.
    Now,
    /// Not before.
    At(Millis),
    /// Not by itself.
    OnInbox,
}

/// What the gate judges by at this moment, beside the agent.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Their number; it rises with every change that may forbid what was allowed.
    pub number: i64,
    /// The tenant's policy, and its version.
    pub tenant_policy: Option<(i32, Policy)>,
    /// The policy that the run was started with.
    pub run_policy: Option<Policy>,
    /// Who started the run: a key, and whoever it spoke for.
    pub creators: Vec<String>,
    /// Remembered approvals that cover the run.
    pub grants: Vec<Grant>,
    /// Who approved what, of the run's approvals that are given and not used up: those whose keys are valid still.
    pub deciders: BTreeMap<ApprovalId, Vec<Decider>>,
}

/// Somebody who approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider {
    /// Who.
    pub by: String,
    /// Their word counts until then: their key expires.
    pub until: Option<Millis>,
}

/// The engine's side of the store. Cross-tenant only where a lease isn't there yet.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Claims runs that have something to do, fairly between tenants, as many as there is room for.
    async fn claim(&self, server: Uuid, room: &Room<'_>, lease_for: Duration) -> Result<Claims, StoreError>;

    /// Claims runs whose server died, but none of `held`: those this process works on still, and if it was only slow it
    /// renews them. Counts a death for each.
    async fn reclaim(
        &self,
        server: Uuid,
        limit: usize,
        lease_for: Duration,
        held: &[Uuid],
    ) -> Result<Vec<Claimed>, StoreError>;

    /// Gives back the runs that this server has claimed and that are none of `held`; gives how many. After a claim whose
    /// answer was lost nobody knows of them, and they count no death.
    async fn put_back(&self, server: Uuid, held: &[Uuid]) -> Result<u64, StoreError>;

    /// Renews leases, and leaves word that this server lives; also without any.
    async fn renew(&self, server: Uuid, leases: &[Lease], lease_for: Duration)
    -> Result<Renewal, StoreError>;

    /// Gives a run back unfinished: any server may go on with it from then on, or as soon as something comes in that is
    /// newer than `known_inbox`. Counts no death.
    async fn hand_back(&self, lease: Lease, wake: Wake, known_inbox: i64) -> Result<(), StoreError>;

    /// Loads a run. `None`: the lease is lost.
    async fn load(&self, lease: Lease) -> Result<Option<LoadedRun>, StoreError>;

    /// The one write: all of it or nothing, and nothing without the lease and the expected `seq`.
    /// After [`StoreError::Away`] it is unknown whether it was stored: the same commit under the same `id` may be sent
    /// again, and is stored once.
    async fn commit(
        &self,
        lease: Lease,
        seq: i64,
        commit: Commit,
        id: Uuid,
    ) -> Result<CommitOutcome, StoreError>;

    /// What waits for a run, of numbers over `after`.
    async fn inbox(&self, lease: Lease, after: i64) -> Result<Vec<Inbound>, StoreError>;

    /// What the gate judges by now.
    async fn rules(
        &self,
        lease: Lease,
        thread_id: Option<Uuid>,
        agent_id: Option<Uuid>,
    ) -> Result<Rules, StoreError>;

    /// A tenant's provider.
    async fn model_target(&self, tenant_id: TenantId, name: &str) -> Result<Option<ModelTarget>, StoreError>;

    /// The artifacts that a run has.
    async fn artifacts_kept(&self, lease: Lease) -> Result<ArtifactsKept, StoreError>;

    /// What those of these artifacts hold that the tenant still has.
    async fn artifacts(
        &self,
        tenant_id: TenantId,
        ids: &[ArtifactId],
    ) -> Result<BTreeMap<ArtifactId, Arc<[u8]>>, StoreError>;

    /// Those of the named secrets that exist.
    async fn secrets(
        &self,
        tenant_id: TenantId,
        names: &[String],
    ) -> Result<BTreeMap<String, SecretString>, StoreError>;

    /// The tenant's signing secrets for tool calls, the newest first; made at the first call.
    async fn signing_secrets(&self, tenant_id: TenantId) -> Result<Vec<SecretString>, StoreError>;

    /// Who has a business key of a tool. `Err(())` inside: somebody whose call is still under way.
    async fn key_holder(
        &self,
        tenant_id: TenantId,
        tool_name: &str,
        key: &str,
        input_hash: &str,
    ) -> Result<Option<Result<KeyHolder, ()>>, StoreError>;

    /// The same effect made before by a run that this one stands on, which no call has taken yet. `Err(())` inside: it is
    /// still under way.
    async fn earlier_effect(
        &self,
        lease: Lease,
        tool_name: &str,
        input_hash: &str,
    ) -> Result<Option<Result<KeyHolder, ()>>, StoreError>;

    /// Asks for what an attempt on a model may take of its tenant's day. [`Allowance::Given`] is durable before it is said.
    /// Asked again, it takes the place of what was given before.
    async fn take_allowance(&self, lease: Lease, wanted: AllowanceWanted) -> Result<Allowance, StoreError>;

    /// Asks for a place among the calls of a tool that has limits. [`Placed::Taken`] is durable before it is said. Asked
    /// again with the same words, it says the same.
    async fn take_place(&self, lease: Lease, wanted: &PlaceWanted) -> Result<Placed, StoreError>;

    /// Gives up an attempt's place, or its place in line; the next attempt's is another. `left`: it was used, which stays written down until the call's
    /// outcome is. Does nothing if the run is another server's by now.
    async fn free_place(&self, lease: Lease, place: &PlaceTaken, left: bool) -> Result<(), StoreError>;

    /// Places that calls of the run have had. A call of a tool with limits that isn't among them has never left.
    async fn places(&self, lease: Lease) -> Result<Vec<PlaceTaken>, StoreError>;

    /// Writes down what became of a call whose run has ended or is another server's, if nobody knows yet. `false`: the new
    /// owner has not said yet what it takes the call for; ask again. Needs no lease: a late effect is a fact, whoever learns
    /// of it.
    async fn late_outcome(&self, lease: Lease, late: &LateOutcome) -> Result<bool, StoreError>;

    /// The agent that a tool calls, in that version or its newest; or, in words for the model, why it can't be called.
    async fn called_agent(
        &self,
        tenant_id: TenantId,
        agent: AgentId,
        version: Option<u32>,
    ) -> Result<Result<PinnedAgent, String>, StoreError>;

    /// Tells runs of the end of those that they called, and runs to end whose callers want that, where a server died
    /// between writing it down and telling. Gives how many.
    async fn tell_children(&self) -> Result<u64, StoreError>;

    /// Ends a lease that was kept for late calls; entries that are still open become uncertain (writes) or failed (reads).
    async fn settle_ended(&self, lease: Lease) -> Result<(), StoreError>;
}
