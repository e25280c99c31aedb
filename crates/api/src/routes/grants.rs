//! What was remembered of approvals.

use answerable_core::id::GrantId;
use axum::extract::State;

use crate::auth::{Decide, ReadOrDecide, Tenant};
use crate::page::Page;
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, delete, get};
use crate::shapes::grants::Grant;
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/grants", list), delete("/v1/grants/{grant_id}", revoke)]
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrDecide>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let revoked = params.word("include", &["revoked"])?.is_some();
    let before = page.after_parsed("grants")?;
    let rows = state.store.tenant(tenant.id).await?.grant_list(revoked, before, page.fetch()).await?;
    page.answer("grants", rows, |row| row.ord.to_string(), Grant::from)
}

async fn revoke(
    State(state): State<AppState>,
    tenant: Tenant<Decide>,
    Id(grant_id): Id<GrantId>,
) -> Result<Answer, Problem> {
    let mut tx = state.store.tenant(tenant.id).await?;
    if !tx.grant_revoke(grant_id).await? {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    Ok(Answer::no_content())
}
