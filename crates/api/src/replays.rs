//! What a request for a replay asks for, and the playing itself: within the request, off the threads that serve others.

use answerable_core::agent::AgentSpec;
use answerable_core::budget::Budgets;
use answerable_core::id::{AgentId, RunId};
use answerable_core::json::canonical;
use answerable_core::permission::{CompiledPolicy, Owner};
use answerable_core::registry::Registry;
use answerable_core::replay::{
    Changes, Difference, Recording, Replayed, Rules, Under, Unplayable, first_difference, replay,
};
use answerable_core::run::MAX_RECOVERIES;
use answerable_core::trace::{Frame, TraceContext};
use answerable_store::{NewReplay, NoRecording, ReplayBase, ReplayRefused, TenantTx};
use serde_json::Value;
use uuid::Uuid;

use crate::admit;
use crate::agents;
use crate::policies;
use crate::problem::Problem;
use crate::shapes::replays::ReplayRequest;
use crate::state::{AppState, Heavy};

/// Who wants a replay, and where its trace hangs.
pub(crate) struct Wanted {
    /// Who.
    pub(crate) by: String,
    /// All who count as having started it, beside those who started the other one.
    pub(crate) creators: Vec<String>,
    /// Where its trace hangs.
    pub(crate) trace: TraceContext,
    /// It is held as long as the run is being played.
    pub(crate) turn: Heavy,
}

/// Under what a run is to be played again.
struct Plan {
    base: ReplayBase,
    /// Another agent than it had.
    agent: Option<(AgentSpec, String)>,
    /// What is judged beside the agent's policy, where anything is judged again.
    policy: Option<CompiledPolicy>,
    /// The policy that the run was started with, where anything is judged again.
    run_policy: Option<CompiledPolicy>,
    context: Value,
    budgets: Budgets,
    /// Calls are judged again.
    judges: bool,
}

/// Plays a run again, as `body` wants it: the replay, ready to be written, and what it was made from.
pub(crate) async fn played(
    state: &AppState,
    tx: &mut TenantTx,
    run_id: RunId,
    body: ReplayRequest,
    wanted: Wanted,
) -> Result<(ReplayBase, NewReplay), Problem> {
    let base = tx.replay_base(run_id).await?.map_err(refused)?;
    let metadata = body.metadata.clone().map_or_else(|| base.metadata.clone(), Value::Object);
    let plan = plan(state, tx, base, body).await?;
    let new_id = RunId(Uuid::now_v7());
    let stored = plan.base.recorded.begin.agent.filter(|_| plan.agent.is_none());
    let agent = stored.map(|(id, version)| (AgentId(id), version));
    let frame = plan.base.frame(tx.tenant_id(), new_id, agent, &wanted.trace);
    let turn = wanted.turn;
    let playing = tokio::task::spawn_blocking(move || {
        let played = plan.play(&frame);
        drop(turn);
        (plan, played)
    });
    let (plan, played) =
        playing.await.map_err(|error| Problem::internal(format!("a replay broke: {error}")))?;
    let (replayed, difference) = played?;
    let spec_hash = plan.agent.map_or_else(|| plan.base.spec_hash.clone(), |(_, hash)| hash);
    let (context, trace, created_by) = (plan.context, wanted.trace, wanted.by);
    let creators = plan.base.creators.iter().cloned().chain(wanted.creators).collect();
    let new = NewReplay {
        run_id: new_id,
        agent,
        spec_hash,
        context,
        metadata,
        trace,
        created_by,
        creators,
        replayed,
        difference,
    };
    Ok((plan.base, new))
}

async fn plan(
    state: &AppState,
    tx: &mut TenantTx,
    base: ReplayBase,
    body: ReplayRequest,
) -> Result<Plan, Problem> {
    let first = &base.recorded.begin.first;
    let agent = match body.agent {
        None => None,
        Some(agent) => {
            let spec = agents::read_spec(state, tx, agent, "/agent").await?;
            let hash = tx.agent_spec_put(&spec).await?;
            (hash != base.spec_hash).then_some((spec, hash))
        }
    };
    let context = match body.context {
        None => base.recorded.begin.context.clone(),
        Some(context) => admit::context(context)?,
    };
    let limits = agent.as_ref().map_or(&first.budgets, |(spec, _)| &spec.budgets);
    let budgets = body.budgets.apply(limits);
    let judges = agent.is_some()
        || body.policy.is_some()
        || canonical(&context) != canonical(&base.recorded.begin.context);
    let policy = match body.policy {
        Some(policy) => Some(policies::read(&policy, Owner::Tenant, "/policy")?),
        None if judges => tenants_own(tx).await?,
        None => None,
    };
    let run_policy = if judges { runs_own(&base)? } else { None };
    Ok(Plan { base, agent, policy, run_policy, context, budgets, judges })
}

/// The tenant's policy as it is now.
async fn tenants_own(tx: &mut TenantTx) -> Result<Option<CompiledPolicy>, Problem> {
    let Some(row) = tx.policy_row().await? else { return Ok(None) };
    let policy = policies::stored(row.policy, Owner::Tenant);
    policy
        .map(|policy| Some(policy.numbered(row.version)))
        .map_err(|fault| Problem::internal(format!("the tenant's policy: {fault}")))
}

/// The policy that the run was started with.
fn runs_own(base: &ReplayBase) -> Result<Option<CompiledPolicy>, Problem> {
    let policy = base.recorded.begin.policy.clone().map(|policy| policies::stored(policy, Owner::Run));
    policy.transpose().map_err(|fault| Problem::internal(format!("the run's policy: {fault}")))
}

impl Plan {
    fn play(&self, frame: &Frame) -> Result<(Replayed, Option<Difference>), Problem> {
        let begin = &self.base.recorded.begin;
        let registry = compile(self.base.recorded.agent()?)?;
        let recording = Recording {
            registry: &registry,
            max_recoveries: MAX_RECOVERIES,
            first: &begin.first,
            before: &self.base.before,
            inputs: &begin.inputs,
            journal: &self.base.recorded.journal,
        };
        let other = self.agent.as_ref().map(|(spec, _)| compile(spec.clone())).transpose()?;
        let rules = Rules {
            tenant: self.policy.as_ref(),
            run: self.run_policy.as_ref(),
            creators: &self.base.creators,
            context: &self.context,
        };
        let changes = Changes {
            registry: other.as_ref().unwrap_or(&registry),
            budgets: &self.budgets,
            rules: self.judges.then_some(rules),
        };
        let is_same = !self.judges && self.budgets == begin.first.budgets;
        let under = if is_same { Under::TheSame } else { Under::Changed(changes) };
        let replayed = replay(&recording, under, frame).map_err(unplayable)?;
        let difference = first_difference(&self.base.story, &replayed.story);
        Ok((replayed, difference))
    }
}

fn compile(spec: AgentSpec) -> Result<Registry, Problem> {
    Registry::compile(spec).map_err(|faults| Problem::internal(format!("a stored agent: {faults:?}")))
}

fn unplayable(why: Unplayable) -> Problem {
    match why {
        Unplayable::HistoryGone => {
            Problem::conflict("Messages that the run was shown were deleted; no other context can be built.")
        }
        Unplayable::Endless => Problem::internal("a replay came to no end"),
    }
}

fn refused(refused: ReplayRefused) -> Problem {
    match refused {
        ReplayRefused::NoRecording(why) => no_recording(why),
        ReplayRefused::NotEnded => Problem::conflict("The run has not ended."),
        ReplayRefused::BaseGone => Problem::conflict("A run that this one stands on was deleted."),
        ReplayRefused::TooManyBefore => Problem::conflict("The run stands on too many others."),
    }
}

/// Why a run's recording can't be had.
pub(crate) fn no_recording(why: NoRecording) -> Problem {
    match why {
        NoRecording::NotFound => Problem::not_found(),
        NoRecording::Gone => Problem::expired(
            "The run's journal was taken away: journals may be kept for a shorter time than runs.",
        ),
        NoRecording::TooLong => {
            Problem::conflict("The run's journal is too long for this; it can be downloaded.")
        }
    }
}
