//! A run's spans.

use answerable_core::id::RunId;
use axum::extract::State;

use crate::auth::{RunsRead, Tenant};
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::router::{Route, get};
use crate::shapes::trace;
use crate::state::AppState;

/// Spans of one answer; of a longer trace the newest.
const MAX_SPANS: i64 = 20_000;
/// Their bytes, as they are stored.
const MAX_BYTES: i64 = 16 * 1024 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/runs/{run_id}/trace", fetch)]
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
) -> Result<Answer, Problem> {
    let _turn = state.heavy_work(tenant.id).await?;
    let found = state.store.tenant(tenant.id).await?.trace_fetch(run_id, MAX_SPANS, MAX_BYTES).await?;
    Answer::ok(&trace::otlp(&found.ok_or_else(Problem::not_found)?))
}
