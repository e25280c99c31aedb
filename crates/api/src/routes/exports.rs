//! All that a tenant has, to be taken away: by itself, and by the operator. Whoever only asks for the head takes nothing away,
//! so nothing is noted.

use answerable_core::id::TenantId;
use axum::extract::State;
use axum::response::Response;
use http::Method;

use crate::auth::{Admin, Operator, Tenant};
use crate::path::Id;
use crate::problem::Problem;
use crate::router::{Route, get};
use crate::state::AppState;
use crate::tenant_export;

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/export", own), get("/v1/tenants/{tenant_id}/export", of_tenant)]
}

async fn own(State(state): State<AppState>, tenant: Tenant<Admin>, ask: Method) -> Result<Response, Problem> {
    if ask == Method::HEAD {
        return tenant_export::head_alone(tenant.id);
    }
    let place = state.take_export(tenant.id).await?;
    let mut tx = tenant.begin(&state).await?;
    tx.export_begins();
    tx.commit().await?;
    tenant_export::stream(&state, tenant.id, place, Some(tenant.standing.watch(&state)))
}

async fn of_tenant(
    State(state): State<AppState>,
    operator: Operator,
    Id(tenant): Id<TenantId>,
    ask: Method,
) -> Result<Response, Problem> {
    let place = if ask == Method::HEAD { None } else { Some(state.take_export(tenant).await?) };
    let mut tx = operator.begin(&state).await?;
    if !tx.export_begins(tenant).await? {
        return Err(Problem::not_found());
    }
    let Some(place) = place else { return tenant_export::head_alone(tenant) };
    tx.commit().await?;
    tenant_export::stream(&state, tenant, place, None)
}
