//! Tenants, for the operator.

use answerable_core::id::TenantId;
use axum::extract::State;
use serde_json::{Map, Value};

use crate::auth::Operator;
use crate::body::Body;
use crate::idempotency::{Once, Turn};
use crate::page::Page;
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::router::{Route, delete, get, patch, post};
use crate::shapes::tenants::{Tenant, TenantCreate, TenantUpdate, odd_quotas};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/tenants", create),
        get("/v1/tenants", list),
        get("/v1/tenants/{tenant_id}", fetch),
        patch("/v1/tenants/{tenant_id}", update),
        delete("/v1/tenants/{tenant_id}", remove),
    ]
}

async fn create(
    State(state): State<AppState>,
    _: Operator,
    once: Once<TenantCreate>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin_as_operator(&state).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    check_quotas(&once.body.quotas)?;
    let row = first.tx.tenant_create(&once.body.name, &once.body.quotas, once.body.trust_traceparent).await?;
    let path = format!("/v1/tenants/{}", TenantId(row.tenant_id));
    first.answer(Answer::created(path, &Tenant::from(row))?).await
}

async fn list(State(state): State<AppState>, _: Operator, page: Page) -> Result<Answer, Problem> {
    let before = page.after_parsed("tenants")?;
    let rows = state.store.system().await?.tenant_list(before, page.fetch()).await?;
    page.answer("tenants", rows, |row| row.tenant_id.to_string(), Tenant::from)
}

async fn fetch(
    State(state): State<AppState>,
    _: Operator,
    Id(tenant): Id<TenantId>,
) -> Result<Answer, Problem> {
    let row = state.store.system().await?.tenant_fetch(tenant).await?;
    Answer::ok(&row.map(Tenant::from).ok_or_else(Problem::not_found)?)
}

async fn update(
    State(state): State<AppState>,
    operator: Operator,
    Id(tenant): Id<TenantId>,
    Body(change): Body<TenantUpdate>,
) -> Result<Answer, Problem> {
    check_quotas(&change.quotas)?;
    let mut tx = operator.begin(&state).await?;
    if let Some(suspended) = change.suspended {
        tx.tenant_suspend(tenant, suspended).await?;
    }
    let row =
        tx.tenant_update(tenant, change.name.as_deref(), &change.quotas, change.trust_traceparent).await?;
    let row = row.ok_or_else(Problem::not_found)?;
    tx.commit().await?;
    Answer::ok(&Tenant::from(row))
}

async fn remove(
    State(state): State<AppState>,
    operator: Operator,
    Id(tenant): Id<TenantId>,
) -> Result<Answer, Problem> {
    let mut tx = operator.begin_within(&state, tenant).await?;
    if !tx.tenant_delete().await? {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    Ok(Answer::no_content())
}

fn check_quotas(quotas: &Map<String, Value>) -> Result<(), Problem> {
    let odd = odd_quotas(quotas);
    if odd.is_empty() { Ok(()) } else { Err(Problem::invalid(odd)) }
}
