//! Replays: a run once more, from what is recorded of it.

use std::sync::Arc;

use answerable_core::id::RunId;
use axum::extract::State;

use super::runs::shown;
use crate::auth::{RunsWrite, Tenant};
use crate::idempotency::{Once, Turn};
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::replays::{Wanted, played};
use crate::router::{Route, post};
use crate::shapes::replays::ReplayRequest;
use crate::state::AppState;
use crate::trace_parent::TraceParent;

pub(super) fn routes() -> Vec<Route> {
    vec![post("/v1/runs/{run_id}/replay", create)]
}

async fn create(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(run_id): Id<RunId>,
    caller: TraceParent,
    once: Once<ReplayRequest>,
) -> Result<Answer, Problem> {
    state.takes_work()?;
    let turn = state.heavy_work(tenant.id).await?;
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let (by, trace) = (tenant.asker(), caller.context(&mut first.tx).await?);
    let wanted = Wanted { by, creators: tenant.creators(), trace, turn: Arc::clone(&turn) };
    let (base, new) = played(&state, &mut first.tx, run_id, once.body, wanted).await?;
    let new_id = new.run_id;
    first.tx.replay_create(&base, new).await?;
    drop(turn);
    let run = shown(&mut first.tx, new_id).await?;
    let answer = Answer::created(format!("/v1/runs/{new_id}"), &run)?;
    first.answer_with_run(answer, new_id.0).await
}
