//! All that a tenant has, to be taken away: by itself, and by the operator.

use answerable_core::id::TenantId;
use axum::extract::State;
use axum::response::Response;

use crate::auth::{Admin, Operator, Tenant};
use crate::path::Id;
use crate::problem::Problem;
use crate::router::{Route, get};
use crate::state::AppState;
use crate::tenant_export;

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/export", own), get("/v1/tenants/{tenant_id}/export", of_tenant)]
}

async fn own(State(state): State<AppState>, tenant: Tenant<Admin>) -> Result<Response, Problem> {
    let mut tx = tenant.begin(&state).await?;
    tx.export_begins();
    tx.commit().await?;
    tenant_export::stream(&state, tenant.id, Some(tenant.standing.watch(&state))).await
}

async fn of_tenant(
    State(state): State<AppState>,
    operator: Operator,
    Id(tenant): Id<TenantId>,
) -> Result<Response, Problem> {
    let mut tx = operator.begin(&state).await?;
    if !tx.export_begins(tenant).await? {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    tenant_export::stream(&state, tenant, None).await
}
