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
const MAX_SPANS: u64 = 20_000;

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/runs/{run_id}/trace", fetch)]
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
) -> Result<Answer, Problem> {
    let found = state.store.tenant(tenant.id).await?.trace_fetch(run_id, MAX_SPANS).await?;
    Answer::ok(&trace::otlp(&found.ok_or_else(Problem::not_found)?))
}
