//! Starting, watching and changing runs.

use std::time::Duration;

use answerable_core::id::{AgentId, RunId, ScheduleId, ThreadId};
use answerable_store::{ChangeRefused, Changer, RunFilter, RunPatch, TenantTx};
use axum::extract::State;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::admit::{self, Asker};
use crate::auth::{RunsRead, RunsWrite, Tenant};
use crate::body::Body;
use crate::given;
use crate::idempotency::{Once, Replay, Turn};
use crate::page::{self, Page};
use crate::path::Id;
use crate::prefer::{MAX_WAIT, PreferWait};
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, get, patch, post};
use crate::shapes::Time;
use crate::shapes::evidence::{Message, SteerRequest};
use crate::shapes::runs::{CancelRequest, Run, RunCreate, RunUpdate};
use crate::state::AppState;
use crate::trace_parent::TraceParent;
use crate::watch;

const STATUSES: [&str; 7] =
    ["queued", "running", "waiting_approval", "waiting_tool", "finished", "failed", "cancelled"];

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/runs", create),
        get("/v1/runs", list),
        get("/v1/runs/{run_id}", fetch),
        patch("/v1/runs/{run_id}", update),
        get("/v1/runs/{run_id}/wait", wait),
        post("/v1/runs/{run_id}/cancel", cancel),
        post("/v1/runs/{run_id}/messages", steer),
    ]
}

async fn create(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    prefer: PreferWait,
    caller: TraceParent,
    once: Once<RunCreate>,
) -> Result<Answer, Problem> {
    state.takes_work()?;
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return replayed(&state, &tenant, prefer, replay).await,
    };
    let asker = Asker { who: tenant.asker(), creators: tenant.creators(), is_admin: tenant.is_admin };
    let new = admit::admit(&state, &mut first.tx, once.body, asker, caller).await?;
    first.tx.run_create(&new).await?.map_err(admit::refused)?;
    let run = shown(&mut first.tx, new.run_id).await?;
    let answer = Answer::created(format!("/v1/runs/{}", new.run_id), &run)?;
    let answer = first.answer_with_run(answer, new.run_id.0).await?;
    held(&state, &tenant, new.run_id, prefer, answer).await
}

/// A replay shows the run as it stands now, and holds the answer as the first would.
pub(super) async fn replayed(
    state: &AppState,
    tenant: &Tenant<RunsWrite>,
    prefer: PreferWait,
    replay: Replay,
) -> Result<Answer, Problem> {
    let Some(run_id) = replay.run_id().map(RunId) else { return Ok(replay.answer()) };
    let run = shown(&mut state.store.tenant(tenant.id).await?, run_id).await?;
    held(state, tenant, run_id, prefer, replay.answer().showing(&run)?).await
}

/// Holds the answer as long as is asked for. Who may be here no longer gets it at once, and as it was.
pub(super) async fn held(
    state: &AppState,
    tenant: &Tenant<RunsWrite>,
    run_id: RunId,
    prefer: PreferWait,
    answer: Answer,
) -> Result<Answer, Problem> {
    let Some(time) = prefer.0 else { return Ok(answer) };
    // The run is stored; whatever goes wrong from here on, the answer stands. Also where too many wait already.
    if watch::until_settled(state, tenant, (run_id, true), time).await.is_err() {
        return Ok(answer);
    }
    match watched(state, tenant, run_id).await {
        Ok(run) => answer.showing(&run),
        Err(_) => Ok(answer),
    }
}

/// The run as it is after a wait.
async fn watched<S>(state: &AppState, tenant: &Tenant<S>, run_id: RunId) -> Result<Run, Problem> {
    let until = Instant::now() + watch::LOOK_PATIENCE;
    let read =
        watch::in_turn(state, tenant.id, until, move |mut tx| async move { shown(&mut tx, run_id).await });
    read.await?.ok_or_else(|| Problem::unavailable(1))
}

/// The run as it is.
pub(super) async fn shown(tx: &mut TenantTx, run_id: RunId) -> Result<Run, Problem> {
    Ok(tx.run_fetch(run_id).await?.ok_or_else(Problem::not_found)?.into())
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let before = page.after_parsed("runs")?;
    // What can't be an id matches nothing.
    let Some(filter) = filter(&params)? else { return page::whole(Vec::<Run>::new()) };
    let found = state.store.tenant(tenant.id).await?.run_list(&filter, before, page.limit).await?;
    page.answer_with_next("runs", found.runs, found.next.map(|next| next.to_string()), Run::from)
}

fn filter(params: &Params) -> Result<Option<RunFilter>, Problem> {
    let status = params.word("status", &STATUSES)?.map(str::to_owned);
    let (Ok(agent_id), Ok(thread_id), Ok(schedule_id)) = (
        params.id::<AgentId>("agent_id"),
        params.id::<ThreadId>("thread_id"),
        params.id::<ScheduleId>("schedule_id"),
    ) else {
        return Ok(None);
    };
    let metadata: Map<String, Value> =
        params.with_prefix("metadata.").map(|(name, value)| (name.to_owned(), value.into())).collect();
    let metadata = (!metadata.is_empty()).then_some(Value::Object(metadata));
    Ok(Some(RunFilter { status, agent_id, thread_id, schedule_id, metadata }))
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
) -> Result<Answer, Problem> {
    Answer::ok(&shown(&mut state.store.tenant(tenant.id).await?, run_id).await?)
}

async fn update(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(run_id): Id<RunId>,
    Body(update): Body<RunUpdate>,
) -> Result<Answer, Problem> {
    let changer = Changer { by: tenant.who(), is_admin: tenant.is_admin };
    let change = RunPatch { budgets: update.budgets, metadata: update.metadata };
    let mut tx = tenant.begin(&state).await?;
    tx.run_patch(run_id, &change, &changer).await?.map_err(unchanged)?;
    let run = shown(&mut tx, run_id).await?;
    tx.commit().await?;
    Answer::ok(&run)
}

fn unchanged(refused: ChangeRefused) -> Problem {
    match refused {
        ChangeRefused::NotFound => Problem::not_found(),
        ChangeRefused::Ended => Problem::conflict("The run has ended."),
        ChangeRefused::AboveAgent(names) => admit::above_agent(&names),
        ChangeRefused::Invalid(faults) => Problem::invalid(faults),
        ChangeRefused::Full(full) => Problem::full(full),
        ChangeRefused::InboxFull => Problem::conflict("Too much waits for this run already.").after(2),
    }
}

async fn wait(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
    params: Params,
) -> Result<Answer, Problem> {
    let seconds = params.integer("timeout", 0, 60)?.and_then(|seconds| u64::try_from(seconds).ok());
    let time = seconds.map_or(MAX_WAIT, Duration::from_secs);
    watch::until_settled(&state, &tenant, (run_id, false), time).await?;
    Answer::ok(&watched(&state, &tenant, run_id).await?)
}

async fn cancel(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(run_id): Id<RunId>,
    once: Once<CancelRequest>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    if !first.tx.run_cancel(run_id, once.body.reason).await? {
        return Err(Problem::not_found());
    }
    let run = shown(&mut first.tx, run_id).await?;
    first.answer_with_run(Answer::ok(&run)?, run_id.0).await
}

async fn steer(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(run_id): Id<RunId>,
    once: Once<SteerRequest>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let content = given::content(&state, &once.body.content)?;
    let steered = first.tx.run_steer(run_id, &content, once.body.pinned).await?;
    let (message, at) = steered.map_err(unchanged)?;
    let message = Message::waiting(message, Time(at));
    let answer = Answer::created(format!("/v1/runs/{run_id}/messages"), &message)?;
    first.answer_with_run(answer, run_id.0).await
}
