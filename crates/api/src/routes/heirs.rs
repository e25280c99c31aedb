//! Runs that stand on other runs: continued where one ended, or forked from a checkpoint.

use answerable_core::id::RunId;
use answerable_core::input::InputMessage;
use answerable_core::run::version_of;
use answerable_store::{Changer, Fork, HeirRefused, NewHeir, RunRefused, Stand, TenantTx};
use axum::extract::State;
use serde_json::Value;
use uuid::Uuid;

use super::runs::{held, replayed, shown};
use crate::admit;
use crate::agents;
use crate::auth::{RunsWrite, Tenant};
use crate::given;
use crate::idempotency::{First, Once, Turn};
use crate::path::Id;
use crate::prefer::PreferWait;
use crate::problem::{Answer, Problem};
use crate::router::{Route, post};
use crate::shapes::heirs::{ContinueRequest, ForkRequest};
use crate::state::AppState;
use crate::trace_parent::TraceParent;

pub(super) fn routes() -> Vec<Route> {
    vec![post("/v1/runs/{run_id}/continue", go_on), post("/v1/runs/{run_id}/fork", fork)]
}

async fn go_on(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(run_id): Id<RunId>,
    prefer: PreferWait,
    caller: TraceParent,
    once: Once<ContinueRequest>,
) -> Result<Answer, Problem> {
    state.takes_work()?;
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return replayed(&state, &tenant, prefer, replay).await,
    };
    let messages = said(&state, once.body.input.as_ref())?;
    let heir = NewHeir {
        run_id: RunId(Uuid::now_v7()),
        stand: Stand::Continue { budgets: once.body.budgets },
        messages,
        trace: caller.context(&mut first.tx).await?,
        asker: asker(&tenant),
        creators: tenant.creators(),
    };
    made(&state, &tenant, first, run_id, heir, prefer).await
}

async fn fork(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(run_id): Id<RunId>,
    prefer: PreferWait,
    caller: TraceParent,
    once: Once<ForkRequest>,
) -> Result<Answer, Problem> {
    state.takes_work()?;
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return replayed(&state, &tenant, prefer, replay).await,
    };
    let heir = NewHeir {
        run_id: RunId(Uuid::now_v7()),
        stand: fork_of(&state, &mut first.tx, &once.body).await?,
        messages: said(&state, once.body.input.as_ref())?,
        trace: caller.context(&mut first.tx).await?,
        asker: asker(&tenant),
        creators: tenant.creators(),
    };
    made(&state, &tenant, first, run_id, heir, prefer).await
}

fn said(state: &AppState, input: Option<&Value>) -> Result<Vec<InputMessage>, Problem> {
    input.map_or_else(|| Ok(Vec::new()), |input| given::input(state, input))
}

async fn fork_of(state: &AppState, tx: &mut TenantTx, body: &ForkRequest) -> Result<Stand, Problem> {
    let agent = match &body.agent {
        None => None,
        Some(agent) => {
            let spec = agents::read_spec(state, tx, agent.clone(), "/agent").await?;
            let needs = version_of(&spec);
            Some((tx.agent_spec_put(&spec).await?, spec.budgets, needs))
        }
    };
    let (after_step, repeat_effects) = (body.after_step, body.repeats_effects());
    Ok(Stand::Fork(Fork { after_step, agent, repeat_effects }))
}

fn asker(tenant: &Tenant<RunsWrite>) -> Changer {
    Changer { by: tenant.asker(), is_admin: tenant.is_admin }
}

async fn made(
    state: &AppState,
    tenant: &Tenant<RunsWrite>,
    mut first: First<TenantTx>,
    base: RunId,
    heir: NewHeir,
    prefer: PreferWait,
) -> Result<Answer, Problem> {
    first.tx.heir_create(base, &heir).await?.map_err(refused)?;
    let run = shown(&mut first.tx, heir.run_id).await?;
    let answer = Answer::created(format!("/v1/runs/{}", heir.run_id), &run)?;
    let answer = first.answer_with_run(answer, heir.run_id.0).await?;
    held(state, tenant, heir.run_id, prefer, answer).await
}

fn refused(refused: HeirRefused) -> Problem {
    match refused {
        HeirRefused::NotFound => Problem::not_found(),
        HeirRefused::NotEnded => Problem::conflict("The run has not ended; steer it instead."),
        HeirRefused::Cancelled => Problem::conflict("The run was cancelled; fork it instead."),
        HeirRefused::NeedsInput => Problem::invalid_at(
            "/input",
            "is needed: the run has answered, and has nothing else to go on with",
        ),
        HeirRefused::NoCheckpoint => {
            Problem::invalid_at("/after_step", "the run has no checkpoint after this step")
        }
        HeirRefused::Replay => Problem::conflict(
            "The run is a replay: nothing of it happened. Continue or fork the run that it replays.",
        ),
        HeirRefused::BaseGone => Problem::conflict("A run that this one stands on was deleted."),
        HeirRefused::TooLong => Problem::conflict("The run stands on too many others."),
        HeirRefused::AboveAgent(names) => admit::above_agent(&names),
        HeirRefused::Invalid(faults) => Problem::invalid(faults),
        HeirRefused::Run(RunRefused::UnknownThread) => Problem::conflict("The run's thread was deleted."),
        HeirRefused::Run(refused) => admit::refused(refused),
    }
}
