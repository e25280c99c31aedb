//! A tenant's model providers.

use answerable_core::agent::Prices;
use answerable_core::field_error;
use answerable_core::provider::check_options;
use answerable_store::Counted;
use axum::extract::State;
use serde_json::Value;

use crate::admit::room_for;
use crate::auth::{Admin, Tenant};
use crate::body::Body;
use crate::page::Page;
use crate::path::{Id, check_name};
use crate::problem::{Answer, Problem};
use crate::router::{Route, delete, get, put};
use crate::shapes::settings::{Provider, ProviderSpec};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/providers", list),
        get("/v1/providers/{name}", fetch),
        put("/v1/providers/{name}", store),
        delete("/v1/providers/{name}", remove),
    ]
}

async fn list(State(state): State<AppState>, tenant: Tenant<Admin>, page: Page) -> Result<Answer, Problem> {
    let after = page.after_named("providers")?;
    let rows = state.store.tenant(tenant.id).await?.provider_list(after, page.fetch()).await?;
    page.answer("providers", rows, |row| Page::named_place(row.created_at, &row.name), Provider::from)
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(name): Id<String>,
) -> Result<Answer, Problem> {
    let row = state.store.tenant(tenant.id).await?.provider_fetch(&name).await?;
    Answer::ok(&row.map(Provider::from).ok_or_else(Problem::not_found)?)
}

async fn store(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(name): Id<String>,
    Body(spec): Body<ProviderSpec>,
) -> Result<Answer, Problem> {
    check_name(&name)?;
    check_spec(&state, &spec)?;
    let mut tx = tenant.begin(&state).await?;
    if tx.provider_fetch(&name).await?.is_none() {
        room_for(&mut tx, Counted::Providers).await?;
    }
    let row = tx.provider_put(&name, &spec.into()).await?;
    tx.commit().await?;
    Answer::ok(&Provider::from(row))
}

/// What the document's schema doesn't say of a provider.
fn check_spec(state: &AppState, spec: &ProviderSpec) -> Result<(), Problem> {
    if spec.kind == "scripted" && !spec.base_url.is_empty() {
        return Err(Problem::invalid_at("/base_url", "a scripted provider has none"));
    }
    if spec.kind != "scripted" {
        state.check_address(&spec.base_url, "/base_url")?;
    }
    check_options(&spec.kind, &spec.options)
        .map_err(|fault| Problem::invalid(vec![fault.under("/options")]))?;
    // As they will be read when a call is priced.
    let prices = field_error::read::<Prices>(Value::Object(spec.prices.clone()));
    prices.map(drop).map_err(|fault| Problem::invalid(vec![fault.under("/prices")]))
}

async fn remove(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(name): Id<String>,
) -> Result<Answer, Problem> {
    let mut tx = tenant.begin(&state).await?;
    if !tx.provider_delete(&name).await? {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    Ok(Answer::no_content())
}
