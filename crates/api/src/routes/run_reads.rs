//! What a run leaves behind, in lists, and its events as a stream.

use answerable_core::id::RunId;
use answerable_store::TenantTx;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;

use crate::auth::{ReadOrDecide, RunsRead, Tenant};
use crate::page::Page;
use crate::path::{Id, Ids};
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, get};
use crate::shapes::approvals::Approval;
use crate::shapes::evidence::{Artifact, Checkpoint, Event, LedgerEntry, Message, Step};
use crate::sse;
use crate::state::AppState;

/// Largest number that a place in a stream may have: what every JSON parser holds exactly.
const MAX_SEQ: i64 = 9_007_199_254_740_991;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/runs/{run_id}/messages", messages),
        get("/v1/runs/{run_id}/events", events),
        get("/v1/runs/{run_id}/steps", steps),
        get("/v1/runs/{run_id}/steps/{number}", step),
        get("/v1/runs/{run_id}/ledger", ledger),
        get("/v1/runs/{run_id}/approvals", approvals),
        get("/v1/runs/{run_id}/artifacts", artifacts),
        get("/v1/runs/{run_id}/checkpoints", checkpoints),
    ]
}

/// A transaction, if the run is the tenant's.
async fn of_run<S>(state: &AppState, tenant: &Tenant<S>, run_id: RunId) -> Result<TenantTx, Problem> {
    let mut tx = state.store.tenant(tenant.id).await?;
    if tx.run_exists(run_id).await? { Ok(tx) } else { Err(Problem::not_found()) }
}

async fn messages(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
    page: Page,
) -> Result<Answer, Problem> {
    let list = format!("messages:{run_id}");
    let after = page.after_parsed(&list)?.unwrap_or(0);
    let rows = of_run(&state, &tenant, run_id).await?.message_list(run_id, after, page.fetch()).await?;
    page.answer(&list, rows, |row| row.seq.to_string(), Message::from)
}

async fn events(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
    params: Params,
    page: Page,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = params.integer("after", 0, MAX_SEQ)?.unwrap_or(0);
    if sse::is_wanted(&headers) {
        let after = sse::last_event_id(&headers)?.unwrap_or(after);
        return sse::stream(&state, &tenant, run_id, after).await;
    }
    let list = format!("events:{run_id}");
    let after = page.after_parsed(&list)?.unwrap_or(0).max(after);
    let rows = of_run(&state, &tenant, run_id).await?.event_list(run_id, after, page.fetch()).await?;
    let answer = page.answer(&list, rows, |row| row.seq.to_string(), |row| Event::of(run_id, row))?;
    Ok(answer.into_response())
}

async fn steps(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
    page: Page,
) -> Result<Answer, Problem> {
    let list = format!("steps:{run_id}");
    let after = page.after_parsed(&list)?.unwrap_or(0);
    let rows = of_run(&state, &tenant, run_id).await?.step_list(run_id, after, page.fetch()).await?;
    page.answer(&list, rows, |row| row.number.to_string(), Step::from)
}

async fn step(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Ids(run_id, number): Ids<RunId, i32>,
) -> Result<Answer, Problem> {
    let found = state.store.tenant(tenant.id).await?.step_list(run_id, number.saturating_sub(1), 1).await?;
    let step = found.into_iter().find(|step| step.number == number);
    Answer::ok(&step.map(Step::from).ok_or_else(Problem::not_found)?)
}

async fn ledger(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
    page: Page,
) -> Result<Answer, Problem> {
    let list = format!("ledger:{run_id}");
    let after = page.after_parsed(&list)?;
    let rows = of_run(&state, &tenant, run_id).await?.ledger_list(run_id, after, page.fetch()).await?;
    page.answer(&list, rows, |row| row.ledger_id.to_string(), LedgerEntry::from)
}

async fn approvals(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrDecide>,
    Id(run_id): Id<RunId>,
    page: Page,
) -> Result<Answer, Problem> {
    let list = format!("approvals:{run_id}");
    let after = page.after_parsed(&list)?.unwrap_or(0);
    let rows =
        of_run(&state, &tenant, run_id).await?.approval_list_of_run(run_id, after, page.fetch()).await?;
    page.answer(&list, rows, |row| row.ord.to_string(), Approval::from)
}

async fn artifacts(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
    page: Page,
) -> Result<Answer, Problem> {
    let list = format!("artifacts:{run_id}");
    let after = page.after_parsed(&list)?;
    let rows = of_run(&state, &tenant, run_id).await?.artifact_list(run_id, after, page.fetch()).await?;
    page.answer(&list, rows, |row| row.artifact_id.to_string(), Artifact::from)
}

async fn checkpoints(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(run_id): Id<RunId>,
    page: Page,
) -> Result<Answer, Problem> {
    let list = format!("checkpoints:{run_id}");
    // An heir has one of number 0: what it goes on from.
    let after = page.after_parsed(&list)?.unwrap_or(-1);
    let rows = of_run(&state, &tenant, run_id).await?.checkpoint_list(run_id, after, page.fetch()).await?;
    page.answer(&list, rows, |row| row.seq.to_string(), Checkpoint::from)
}
