//! Deleting runs.

use answerable_core::id::RunId;
use answerable_store::RunDeleted;
use axum::extract::State;

use crate::auth::{Admin, Tenant};
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::router::{Route, delete};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![delete("/v1/runs/{run_id}", remove)]
}

async fn remove(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(run_id): Id<RunId>,
) -> Result<Answer, Problem> {
    let mut tx = tenant.begin(&state).await?;
    match tx.run_delete(run_id).await? {
        RunDeleted::Deleted => tx.commit().await?,
        RunDeleted::NotEnded => return Err(Problem::conflict("The run has not ended.")),
        RunDeleted::CallsOut => {
            let why = "Calls of this run are still out; what becomes of them is yet to be written down.";
            return Err(Problem::conflict(why).after(2));
        }
        RunDeleted::Awaited => {
            let why = "A run that this one called, or that called it, is not done with it yet.";
            return Err(Problem::conflict(why).after(2));
        }
        RunDeleted::StoodOn => {
            return Err(Problem::conflict("A run that continues or forks this one has not ended."));
        }
        RunDeleted::Unknown => return Err(Problem::not_found()),
    }
    Ok(Answer::no_content())
}
