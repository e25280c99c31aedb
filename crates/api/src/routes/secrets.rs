//! A tenant's secrets: written, never read.

use answerable_store::Counted;
use axum::extract::State;

use crate::admit::room_for;
use crate::auth::{Admin, Tenant};
use crate::body::Body;
use crate::page::Page;
use crate::path::{Id, check_name};
use crate::problem::{Answer, Problem};
use crate::router::{Route, delete, get, put};
use crate::shapes::settings::{Secret, SecretSpec};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/secrets", list),
        get("/v1/secrets/{name}", fetch),
        put("/v1/secrets/{name}", store),
        delete("/v1/secrets/{name}", remove),
    ]
}

async fn list(State(state): State<AppState>, tenant: Tenant<Admin>, page: Page) -> Result<Answer, Problem> {
    let after = page.after_named("secrets")?;
    let rows = state.store.tenant(tenant.id).await?.secret_list(after, page.fetch()).await?;
    page.answer("secrets", rows, |row| Page::named_place(row.created_at, &row.name), Secret::from)
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(name): Id<String>,
) -> Result<Answer, Problem> {
    let row = state.store.tenant(tenant.id).await?.secret_fetch(&name).await?;
    Answer::ok(&row.map(Secret::from).ok_or_else(Problem::not_found)?)
}

async fn store(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(name): Id<String>,
    Body(spec): Body<SecretSpec>,
) -> Result<Answer, Problem> {
    check_name(&name)?;
    let mut tx = tenant.begin(&state).await?;
    if tx.secret_fetch(&name).await?.is_none() {
        room_for(&mut tx, Counted::Secrets).await?;
    }
    let row = tx.secret_put(&name, &spec.into()).await?;
    tx.commit().await?;
    Answer::ok(&Secret::from(row))
}

async fn remove(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(name): Id<String>,
) -> Result<Answer, Problem> {
    let mut tx = tenant.begin(&state).await?;
    if !tx.secret_delete(&name).await? {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    Ok(Answer::no_content())
}
