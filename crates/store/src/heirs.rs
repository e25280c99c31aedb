//! Runs that stand on other runs: continued where one ended, or forked from a checkpoint. Nothing is copied but the state;
//! history and steps are read from the runs they were made in, and effects from the ledger.

mod base;
mod effects;
pub(crate) mod lineage;

use answerable_core::FieldError;
use answerable_core::budget::{BudgetPatch, Budgets, below_used, raised};
use answerable_core::id::{AgentId, RunId, ThreadId};
use answerable_core::input::InputMessage;
use answerable_core::json::{canonical, sha256_hex};
use answerable_core::run::{RunState, Status};
use answerable_core::trace::TraceContext;
use uuid::Uuid;

use crate::Result;
use crate::counts::Counted;
use crate::error::{as_json, store_error};
use crate::run_change::{Changer, below};
use crate::runs::{NewRun, OnBusy, Origin, OriginKind, RunRefused};
use crate::tx::TenantTx;
use base::Base;
use lineage::{MAX_LINEAGE, Part};

/// A run that is to stand on another one.
#[derive(Debug, Clone)]
pub struct NewHeir {
    /// Its id.
    pub run_id: RunId,
    /// How it stands on it.
    pub stand: Stand,
    /// What is said to it.
    pub messages: Vec<InputMessage>,
    /// Where its trace hangs.
    pub trace: TraceContext,
    /// Who wants it.
    pub asker: Changer,
    /// All who count as having started it, beside those who started what it stands on.
    pub creators: Vec<String>,
}

/// How a run is to stand on another one.
#[derive(Debug, Clone)]
pub enum Stand {
    /// It goes on where the other one ended.
    Continue {
        /// Changed limits.
        budgets: BudgetPatch,
    },
    /// It goes on from a checkpoint of the other one.
    Fork(Fork),
}

/// Where a fork goes on, and with what.
#[derive(Debug, Clone)]
pub struct Fork {
    /// The step that the checkpoint follows; 0: from the input on.
    pub after_step: u32,
    /// Another agent: the hash of what it is, its limits, and what it needs ([`NewRun::needs`]).
    pub agent: Option<(String, Budgets, u16)>,
    /// Effects are made again, not taken from the ledger.
    pub repeat_effects: bool,
}

/// Why a run can't stand on another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeirRefused {
    /// There is no such run.
    NotFound,
    /// It has not ended.
    NotEnded,
    /// It was cancelled: somebody wanted it to end.
    Cancelled,
    /// It has answered: there is nothing to go on with but a word.
    NeedsInput,
    /// There is no checkpoint after that step.
    NoCheckpoint,
    /// It is a replay: it made no effects that could be gone on from.
    Replay,
    /// A run that it stands on was deleted.
    BaseGone,
    /// It stands on too many runs already.
    TooLong,
    /// Limits above the agent's are an admin's.
    AboveAgent(Vec<&'static str>),
    /// What is asked for can't be.
    Invalid(Vec<FieldError>),
    /// No run can be accepted now.
    Run(RunRefused),
}

impl TenantTx {
    /// Accepts a run that stands on `base`, or says why not; then the transaction must not be committed.
    ///
    /// # Errors
    /// The database is away.
    pub async fn heir_create(
        &mut self,
        base: RunId,
        wanted: &NewHeir,
    ) -> Result<std::result::Result<(), HeirRefused>> {
        let Some(facts) = self.base_fetch(base).await? else { return Ok(Err(HeirRefused::NotFound)) };
        if facts.is_replay {
            return Ok(Err(HeirRefused::Replay));
        }
        let mut parts = self.lineage_fetch(base).await?;
        if parts.len() != usize::try_from(facts.lineage_length).unwrap_or(0) {
            return Ok(Err(HeirRefused::BaseGone));
        }
        if parts.len() >= MAX_LINEAGE {
            return Ok(Err(HeirRefused::TooLong));
        }
        parts.push(Part::whole(base, &facts.state));
        match &wanted.stand {
            Stand::Continue { budgets } => self.continue_create(base, facts, parts, wanted, budgets).await,
            Stand::Fork(fork) => self.fork_create(base, facts, parts, wanted, fork).await,
        }
    }

    async fn continue_create(
        &mut self,
        base: RunId,
        facts: Base,
        parts: Vec<Part>,
        wanted: &NewHeir,
        patch: &BudgetPatch,
    ) -> Result<std::result::Result<(), HeirRefused>> {
        let mut state = facts.state.clone();
        match state.status {
            Status::Cancelled => return Ok(Err(HeirRefused::Cancelled)),
            Status::Finished if wanted.messages.is_empty() => return Ok(Err(HeirRefused::NeedsInput)),
            Status::Finished | Status::Failed => {}
            _ => return Ok(Err(HeirRefused::NotEnded)),
        }
        let agent = self.budget_facts(base).await?.0;
        let budgets = match continued_budgets(&agent.budgets, &state, patch, wanted.asker.is_admin) {
            Ok(budgets) => budgets,
            Err(refused) => return Ok(Err(refused)),
        };
        let effects = self.effects_left(base).await?;
        let unknown = self.effects_unknown(base).await?;
        // What a person has settled since is no longer refused: it is taken from the ledger, or made.
        state.unsettled.retain(|unsettled| unknown.contains(unsettled));
        let mut origin = origin(OriginKind::Continue, base, state, effects.len(), &parts);
        origin.workspace = facts.workspace_id;
        let (thread_id, agent, spec_hash) = (facts.thread_id, facts.agent, facts.spec_hash.clone());
        let new = heir(wanted, &facts, thread_id, agent, spec_hash, budgets, origin);
        self.heir_store(new, &parts, &effects).await
    }

    async fn fork_create(
        &mut self,
        base: RunId,
        facts: Base,
        parts: Vec<Part>,
        wanted: &NewHeir,
        fork: &Fork,
    ) -> Result<std::result::Result<(), HeirRefused>> {
        let Some((state, mut kept)) = self.checkpoint_find(&parts, fork.after_step, &facts.state).await?
        else {
            return Ok(Err(HeirRefused::NoCheckpoint));
        };
        let effects = if fork.repeat_effects {
            Vec::new()
        } else {
            self.effects_after(base, &parts, fork.after_step).await?
        };
        if let Some(thread) = facts.thread_id {
            let before = self.thread_before(thread, facts.ord, &kept).await?;
            kept.splice(0..0, before);
        }
        if kept.len() > MAX_LINEAGE {
            return Ok(Err(HeirRefused::TooLong));
        }
        let needs = fork.agent.as_ref().map_or(0, |(.., needs)| *needs);
        let (agent, spec_hash, budgets) = match &fork.agent {
            Some((spec_hash, budgets, _)) => (None, spec_hash.clone(), budgets.clone()),
            None => (facts.agent, facts.spec_hash.clone(), facts.state.budgets.clone()),
        };
        let mut origin = origin(OriginKind::Fork, base, state, effects.len(), &kept);
        origin.after_step = fork.after_step;
        let new = NewRun { needs, ..heir(wanted, &facts, None, agent, spec_hash, budgets, origin) };
        let files = new.origin.as_ref().map(|origin| origin.workspace);
        let stored = self.heir_store(new, &kept, &effects).await?;
        // What it changes is its own; effects that it takes from the ledger are in what it begins with.
        if let (Ok(()), Some(files)) = (&stored, files) {
            self.workspace_copy(facts.workspace_id, files).await?;
            // A whole workspace may be much.
            if let Err(full) = self.room_after(Counted::WorkspaceBytes, i64::MAX).await? {
                return Ok(Err(HeirRefused::Run(RunRefused::Full(full))));
            }
        }
        Ok(stored)
    }

    async fn heir_store(
        &mut self,
        new: NewRun,
        parts: &[Part],
        effects: &[Uuid],
    ) -> Result<std::result::Result<(), HeirRefused>> {
        let state = match self.run_create(&new).await? {
            Ok(state) => state,
            Err(refused) => return Ok(Err(HeirRefused::Run(refused))),
        };
        self.lineage_insert(new.run_id, parts).await?;
        self.effects_insert(new.run_id, effects).await?;
        self.first_checkpoint_insert(new.run_id, &state).await?;
        Ok(Ok(()))
    }

    /// Checkpoint 0 of an heir: what it goes on from.
    pub(crate) async fn first_checkpoint_insert(&mut self, run_id: RunId, state: &RunState) -> Result<()> {
        let tenant = self.tenant();
        let hash = sha256_hex(canonical(&serde_json::to_value(state).unwrap_or_default()).as_bytes());
        sqlx::query!(
            "INSERT INTO checkpoints (tenant_id, run_id, seq, step, state, state_hash, created_at)
             VALUES ($1, $2, 0, $3, $4::text::json, $5, clock_timestamp())",
            tenant,
            run_id.0,
            i32::try_from(state.step).unwrap_or(i32::MAX),
            as_json(state)?,
            hash,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}

fn origin(kind: OriginKind, run_id: RunId, state: RunState, effects: usize, parts: &[Part]) -> Origin {
    Origin {
        kind,
        run_id,
        after_step: state.step,
        state,
        effects: u32::try_from(effects).unwrap_or(u32::MAX),
        lineage: i32::try_from(parts.len()).unwrap_or(i32::MAX),
        workspace: Uuid::now_v7(),
    }
}

fn heir(
    wanted: &NewHeir,
    base: &Base,
    thread_id: Option<ThreadId>,
    agent: Option<(AgentId, i32)>,
    spec_hash: String,
    budgets: Budgets,
    origin: Origin,
) -> NewRun {
    NewRun {
        run_id: wanted.run_id,
        agent,
        spec_hash,
        thread_id,
        on_busy: OnBusy::Queue,
        budgets,
        messages: wanted.messages.clone(),
        context: base.context.clone(),
        metadata: base.metadata.clone(),
        trace: wanted.trace.clone(),
        created_by: wanted.asker.by.clone(),
        creators: base.creators.iter().chain(&wanted.creators).cloned().collect(),
        policy: base.policy.clone(),
        priority: base.priority,
        not_before: None,
        deadline: None,
        concurrency_key: base.concurrency_key.clone(),
        origin: Some(origin),
        schedule: None,
        depth: 0,
        // What it stands on had the same agent.
        needs: 0,
    }
}

/// The limits of a continued run: the old ones, changed. What was used counts against them, so that without an admin they
/// may be raised to the agent's own on top of that: as much as a new run would be given.
fn continued_budgets(
    agent: &Budgets,
    state: &RunState,
    patch: &BudgetPatch,
    is_admin: bool,
) -> std::result::Result<Budgets, HeirRefused> {
    let used = &state.used;
    let elapsed = state.clock.ran_ms;
    let most = Budgets {
        max_steps: agent.max_steps.saturating_add(used.steps),
        max_tokens: agent.max_tokens.saturating_add(used.tokens()),
        max_tool_calls: agent.max_tool_calls.saturating_add(used.tool_calls),
        timeout_ms: agent.timeout_ms.saturating_add(elapsed),
        max_cost_microusd: agent.max_cost_microusd.map(|most| most.saturating_add(used.cost_microusd)),
        on_exhausted: agent.on_exhausted,
    };
    let above = raised(&most, &patch.apply(&most));
    if !is_admin && !above.is_empty() {
        return Err(HeirRefused::AboveAgent(above));
    }
    let wanted = patch.apply(&state.budgets);
    let faults = below(&below_used(&wanted, used, elapsed), patch);
    if faults.is_empty() { Ok(wanted) } else { Err(HeirRefused::Invalid(faults)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continued_run_may_use_as_much_again() {
        let agent = Budgets { max_steps: 5, ..Budgets::default() };
        let mut state = RunState::accepted(RunId(Uuid::nil()), agent.clone(), 1, 0, None);
        state.used.steps = 4;
        let patch = |steps| BudgetPatch { max_steps: Some(steps), ..BudgetPatch::default() };
        let steps = |wanted, admin| {
            continued_budgets(&agent, &state, &patch(wanted), admin).map(|budgets| budgets.max_steps)
        };
        assert_eq!(steps(9, false), Ok(9));
        assert_eq!(steps(10, false), Err(HeirRefused::AboveAgent(vec!["max_steps"])));
        assert_eq!(steps(10, true), Ok(10));
        assert!(matches!(steps(3, true), Err(HeirRefused::Invalid(_))), "below what is used");
        let unchanged = continued_budgets(&agent, &state, &BudgetPatch::default(), false);
        assert_eq!(unchanged.expect("the old ones").max_steps, 5);
    }
}
