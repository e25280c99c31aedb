//! What is recorded of a run, to be taken away: as an eval case, and as its journal.

use answerable_core::id::RunId;
use axum::extract::State;
use axum::response::Response;

use super::runs::shown;
use crate::auth::{RunsRead, Tenant};
use crate::eval_cases::{self, Case};
use crate::journal;
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::replays::no_recording;
use crate::router::{Route, get};
use crate::state::AppState;

/// Entries of a run's ledger that a case tells of: as many as a run's journal can hold.
const MAX_ENTRIES: i64 = 20_000;

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/runs/{run_id}/export", export), get("/v1/runs/{run_id}/journal", download)]
}

async fn export(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
) -> Result<Answer, Problem> {
    let turn = state.heavy_work(tenant.id).await?;
    let mut tx = state.store.tenant(tenant.id).await?;
    let recorded = tx.recording_fetch(run_id).await?.map_err(no_recording)?;
    let run = shown(&mut tx, run_id).await?;
    let ledger = tx.ledger_list(run_id, None, MAX_ENTRIES).await?;
    let hashes = tx.artifact_hashes(&recorded.artifacts_given()).await?;
    drop(tx);
    Answer::ok(&eval_cases::made(Case { run_id, recorded, run, ledger, hashes }, turn).await?)
}

async fn download(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
) -> Result<Response, Problem> {
    let begin = state.store.tenant(tenant.id).await?.run_begin(run_id).await?;
    journal::stream(&state, tenant.id, run_id, begin.map_err(no_recording)?)
}
