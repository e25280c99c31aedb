//! The tenant's own policy.

use answerable_core::field_error;
use answerable_core::permission::{CompiledPolicy, Owner, Policy};
use axum::extract::State;

use crate::auth::{Admin, Tenant};
use crate::body::Body;
use crate::problem::{Answer, Problem};
use crate::router::{Route, get, put};
use crate::shapes::settings::{PolicyBody, policy};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/policy", fetch), put("/v1/policy", store)]
}

async fn fetch(State(state): State<AppState>, tenant: Tenant<Admin>) -> Result<Answer, Problem> {
    let row = state.store.tenant(tenant.id).await?.policy_row().await?;
    Answer::ok(&policy(row))
}

async fn store(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Body(body): Body<PolicyBody>,
) -> Result<Answer, Problem> {
    let read: Policy = field_error::read(body.0.clone()).map_err(|fault| Problem::invalid(vec![fault]))?;
    CompiledPolicy::compile(&read, Owner::Tenant).map_err(Problem::invalid)?;
    let mut tx = state.store.tenant(tenant.id).await?;
    let row = tx.policy_put(&body.0).await?;
    tx.commit().await?;
    Answer::ok(&policy(Some(row)))
}
