//! Runs that are started again and again.

use answerable_core::id::{RunId, ScheduleId};
use answerable_store::{Counted, TenantTx};
use axum::extract::State;

use super::runs::{held, replayed, shown};
use crate::admit::{Asker, room_for};
use crate::auth::{RunsRead, RunsWrite, Tenant};
use crate::body::{Body, Nothing};
use crate::idempotency::{Once, Turn};
use crate::page::Page;
use crate::path::Id;
use crate::prefer::PreferWait;
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, delete, get, patch, post};
use crate::schedules::fire;
use crate::schedules::wanted::{self, Maker};
use crate::shapes::schedules::{Firing, Schedule, ScheduleCreate, ScheduleUpdate};
use crate::state::AppState;
use crate::trace_parent::TraceParent;

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/schedules", create),
        get("/v1/schedules", list),
        get("/v1/schedules/{schedule_id}", fetch),
        patch("/v1/schedules/{schedule_id}", update),
        delete("/v1/schedules/{schedule_id}", remove),
        post("/v1/schedules/{schedule_id}/trigger", trigger),
        get("/v1/schedules/{schedule_id}/firings", firings),
    ]
}

fn maker(tenant: &Tenant<RunsWrite>) -> Maker {
    let (by, asker, creators) = (tenant.who(), tenant.asker(), tenant.creators());
    Maker { by, asker, creators, is_admin: tenant.is_admin }
}

async fn create(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    once: Once<ScheduleCreate>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let (spec, due) = wanted::made(&state, &mut first.tx, maker(&tenant), once.body).await?;
    room_for(&mut first.tx, Counted::Schedules).await?;
    let row = first.tx.schedule_create(&spec, &due).await?;
    let path = format!("/v1/schedules/{}", row.id());
    first.answer(Answer::created(path, &Schedule::from(row))?).await
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let before = page.after_parsed("schedules")?;
    let mut tx = state.store.tenant(tenant.id).await?;
    let rows = tx.schedule_list(params.get("created_by"), before, page.fetch()).await?;
    page.answer("schedules", rows, |row| row.ord.to_string(), Schedule::from)
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(schedule): Id<ScheduleId>,
) -> Result<Answer, Problem> {
    let row = state.store.tenant(tenant.id).await?.schedule_fetch(schedule).await?;
    Answer::ok(&Schedule::from(row.ok_or_else(Problem::not_found)?))
}

async fn update(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(schedule): Id<ScheduleId>,
    Body(change): Body<ScheduleUpdate>,
) -> Result<Answer, Problem> {
    let mut tx = tenant.begin(&state).await?;
    let before = tx.schedule_lock(schedule).await?.ok_or_else(Problem::not_found)?;
    let (spec, due) = wanted::changed(&state, &mut tx, maker(&tenant), &before, change).await?;
    let row = tx.schedule_update(&before, &spec, &due).await?;
    tx.commit().await?;
    Answer::ok(&Schedule::from(row))
}

async fn remove(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(schedule): Id<ScheduleId>,
) -> Result<Answer, Problem> {
    let mut tx = tenant.begin(&state).await?;
    if !tx.schedule_delete(schedule).await? {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    Ok(Answer::no_content())
}

async fn trigger(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(schedule): Id<ScheduleId>,
    prefer: PreferWait,
    caller: TraceParent,
    once: Once<Nothing>,
) -> Result<Answer, Problem> {
    state.takes_work()?;
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return replayed(&state, &tenant, prefer, replay).await,
    };
    let run_id = triggered(&state, &mut first.tx, &tenant, schedule, caller).await?;
    let answer = Answer::created(format!("/v1/runs/{run_id}"), &shown(&mut first.tx, run_id).await?)?;
    let answer = first.answer_with_run(answer, run_id.0).await?;
    held(&state, &tenant, run_id, prefer, answer).await
}

/// Starts a run of a schedule now, in the name of who asks and of those who made it.
async fn triggered(
    state: &AppState,
    tx: &mut TenantTx,
    tenant: &Tenant<RunsWrite>,
    schedule: ScheduleId,
    caller: TraceParent,
) -> Result<RunId, Problem> {
    let row = tx.schedule_lock(schedule).await?.ok_or_else(Problem::not_found)?;
    if row.spec.skip_if_running && tx.schedule_is_running(schedule).await? {
        return Err(Problem::conflict("A run of the schedule has not ended."));
    }
    let creators = wanted::joined(&row.spec.creators, tenant.creators());
    let asker = Asker { who: tenant.asker(), creators, is_admin: tenant.is_admin };
    let now = tx.moment().await?;
    let run = fire::start(state, tx, &row, asker, now, caller).await?;
    tx.schedule_triggered(schedule, now, run, &tenant.who()).await?;
    Ok(run)
}

async fn firings(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(schedule): Id<ScheduleId>,
    page: Page,
) -> Result<Answer, Problem> {
    let list = format!("firings {schedule}");
    let before = page.after_parsed(&list)?;
    let mut tx = state.store.tenant(tenant.id).await?;
    tx.schedule_fetch(schedule).await?.ok_or_else(Problem::not_found)?;
    let rows = tx.firing_list(schedule, before, page.fetch()).await?;
    page.answer(&list, rows, |row| row.ord.to_string(), Firing::from)
}
