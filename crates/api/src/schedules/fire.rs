//! Firing a schedule: its run is admitted as a request for one would be, in one transaction with what is written of it.

use std::time::Duration;

use answerable_core::id::RunId;
use answerable_core::schedule::{Due, Recurrence};
use answerable_store::{DueSchedule, Fired, ScheduleRow, TakenSchedule, TenantTx};
use chrono::{DateTime, Utc};

use super::wanted;
use crate::admit::{self, Asker};
use crate::problem::Problem;
use crate::state::AppState;
use crate::trace_parent::TraceParent;

/// Time that one firing may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Fires a schedule that seems to be due; whether it was, and this server did it.
pub(super) async fn fire(state: &AppState, due: DueSchedule) -> bool {
    let failed = match tokio::time::timeout(PATIENCE, dealt_with(state, due)).await {
        Ok(Ok(fired)) => return fired,
        Ok(Err(problem)) if !problem.is_internal() => {
            tracing::debug!(tenant = %due.tenant, schedule = %due.schedule, "a schedule could not be fired; it is tried again");
            return false;
        }
        Ok(Err(problem)) => format!("{problem:?}"),
        Err(_) => "it took too long".to_owned(),
    };
    tracing::error!(tenant = %due.tenant, schedule = %due.schedule, cause = failed, "a schedule could not be fired; it is tried again");
    false
}

async fn dealt_with(state: &AppState, due: DueSchedule) -> Result<bool, Problem> {
    let mut tx = state.store.tenant(due.tenant).await?;
    let Some(taken) = tx.schedule_take(due.schedule).await? else { return Ok(false) };
    let TakenSchedule { schedule, due_at, seen_at, now } = taken;
    let becomes = Due::of(due_at, seen_at, now);
    let fired = match becomes {
        Due::Missed => Fired::Missed,
        Due::Now if schedule.spec.skip_if_running && tx.schedule_is_running(due.schedule).await? => {
            Fired::Skipped
        }
        Due::Now => begun(state, &mut tx, &schedule, due_at).await?,
    };
    let until = becomes.passes_until(due_at, now);
    let next = match Recurrence::read(&schedule.spec.cron, &schedule.spec.timezone) {
        Ok(recurrence) => recurrence.next_after(until),
        Err(faults) => {
            // A zone that this version doesn't know any more, as others did.
            tracing::error!(tenant = %due.tenant, schedule = %due.schedule, ?faults, "a schedule can't be read; it is due no more");
            None
        }
    };
    tx.schedule_fired(due.schedule, due_at, &fired, next, until).await?;
    tx.commit().await?;
    Ok(true)
}

/// A run of it, or why there is none. Only what is nobody's fault leaves the due time undealt with.
async fn begun(
    state: &AppState,
    tx: &mut TenantTx,
    schedule: &ScheduleRow,
    due_at: DateTime<Utc>,
) -> Result<Fired, Problem> {
    let spec = &schedule.spec;
    let asker = Asker { who: spec.asker.clone(), creators: spec.creators.clone(), is_admin: spec.as_admin };
    let place = tx.savepoint().await?;
    match start(state, tx, schedule, asker, due_at, TraceParent::none()).await {
        Ok(run) => {
            tx.keep(place).await?;
            Ok(Fired::Started(run))
        }
        Err(problem) if problem.is_ours() && !problem.is_internal() => Err(problem),
        Err(problem) => {
            tx.go_back(place).await?;
            if problem.is_internal() {
                tracing::error!(tenant = %tx.tenant_id(), schedule = %schedule.id(), cause = ?problem, "a schedule's run could not be started");
            }
            Ok(Fired::Refused(problem.in_short()))
        }
    }
}

/// Starts a run of a schedule, which is locked. Faults are told at `/run`.
pub(crate) async fn start(
    state: &AppState,
    tx: &mut TenantTx,
    schedule: &ScheduleRow,
    asker: Asker,
    due_at: DateTime<Utc>,
    caller: TraceParent,
) -> Result<RunId, Problem> {
    let body = wanted::run_of(&schedule.spec.run)?;
    let mut new = admit::admit(state, tx, body, asker, caller).await.map_err(wanted::in_run)?;
    new.schedule = Some((schedule.id(), due_at));
    tx.run_create(&new).await?.map_err(|refused| wanted::in_run(admit::refused(refused)))?;
    Ok(new.run_id)
}
