//! What was remembered of approvals.

use answerable_core::id::GrantId;
use answerable_store::{GrantFilter, GrantRevoked, GrantScope};
use axum::extract::State;

use crate::auth::{Decide, ReadOrDecide, Tenant};
use crate::page::{self, Page};
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, delete, get};
use crate::shapes::grants::Grant;
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/grants", list),
        get("/v1/grants/{grant_id}", fetch),
        delete("/v1/grants/{grant_id}", revoke),
    ]
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrDecide>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let filter = filter(&params)?;
    let before = page.after_parsed("grants")?;
    let Some(filter) = filter else { return page::whole(Vec::<Grant>::new()) };
    let rows = state.store.tenant(tenant.id).await?.grant_list(&filter, before, page.fetch()).await?;
    page.answer("grants", rows, |row| row.ord.to_string(), Grant::from)
}

/// Which grants are asked for. `None`: what can't be an id matches nothing.
fn filter(params: &Params) -> Result<Option<GrantFilter>, Problem> {
    let include = params.word("include", &["revoked", "expired", "all"])?;
    let scope = params.word("scope", &["run", "thread", "agent", "tenant"])?;
    let scope = scope.map(|word| match word {
        "run" => GrantScope::Run,
        "thread" => GrantScope::Thread,
        "agent" => GrantScope::Agent,
        _ => GrantScope::Tenant,
    });
    let (Ok(run_id), Ok(thread_id), Ok(agent_id)) =
        (params.id("run_id"), params.id("thread_id"), params.id("agent_id"))
    else {
        return Ok(None);
    };
    Ok(Some(GrantFilter {
        scope,
        tool_name: params.get("tool_name").map(str::to_owned),
        run_id,
        thread_id,
        agent_id,
        created_by: params.get("created_by").map(str::to_owned),
        revoked: matches!(include, Some("revoked" | "all")),
        expired: matches!(include, Some("expired" | "all")),
    }))
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrDecide>,
    Id(grant_id): Id<GrantId>,
) -> Result<Answer, Problem> {
    let row = state.store.tenant(tenant.id).await?.grant_fetch(grant_id).await?;
    Answer::ok(&row.map(Grant::from).ok_or_else(Problem::not_found)?)
}

async fn revoke(
    State(state): State<AppState>,
    tenant: Tenant<Decide>,
    Id(grant_id): Id<GrantId>,
) -> Result<Answer, Problem> {
    let mut tx = tenant.begin(&state).await?;
    if tx.grant_revoke(grant_id, &tenant.who()).await? == GrantRevoked::Unknown {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    Ok(Answer::no_content())
}
