//! What a tenant's runs used.

use axum::extract::State;
use chrono::TimeDelta;

use crate::auth::{Admin, Tenant};
use crate::page::whole;
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, get};
use crate::shapes::usage::UsageRow;
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/usage", fetch)]
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    params: Params,
) -> Result<Answer, Problem> {
    let now = state.store.clock().utc();
    let from = params.time("from")?.unwrap_or(now - TimeDelta::days(30));
    let to = params.time("to")?.unwrap_or(now);
    let by = params.word("group_by", &["day", "agent", "model"])?;
    let mut tx = state.store.tenant(tenant.id).await?;
    let rows = match by {
        Some("agent") => tx.usage_by_agent(from, to).await?,
        Some("model") => tx.usage_by_model(from, to).await?,
        _ => tx.usage_by_day(from, to).await?,
    };
    whole(rows.into_iter().map(UsageRow::from).collect())
}
