//! The record of who did what, for those who answer for it.

use answerable_core::audit::Action;
use answerable_core::id::TenantId;
use answerable_core::text::chars;
use answerable_store::AuditFilter;
use axum::extract::State;

use crate::auth::{Admin, Operator, Tenant};
use crate::page::Page;
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, get};
use crate::shapes::audit::AuditEntry;
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/audit", list),
        get("/v1/tenants/audit", list_of_operator),
        get("/v1/tenants/{tenant_id}/audit", list_of_tenant),
    ]
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let asked = Asked::read(&params, &page, "audit")?;
    let entries = state.store.tenant(tenant.id).await?.audit_list(&asked.filter, page.fetch()).await?;
    page.answer(&asked.list, entries, |entry| entry.seq.to_string(), AuditEntry::from)
}

/// The operator's own record.
async fn list_of_operator(
    State(state): State<AppState>,
    _: Operator,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let asked = Asked::read(&params, &page, "tenants:audit")?;
    let entries = state.store.system().await?.operator_audit_list(&asked.filter, page.fetch()).await?;
    page.answer(&asked.list, entries, |entry| entry.seq.to_string(), AuditEntry::from)
}

async fn list_of_tenant(
    State(state): State<AppState>,
    _: Operator,
    Id(tenant): Id<TenantId>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let asked = Asked::read(&params, &page, &format!("audit:{tenant}"))?;
    let entries = state.store.system().await?.tenant_audit_list(tenant, &asked.filter, page.fetch()).await?;
    let entries = entries.ok_or_else(Problem::not_found)?;
    page.answer(&asked.list, entries, |entry| entry.seq.to_string(), AuditEntry::from)
}

/// What is asked of a record.
struct Asked {
    filter: AuditFilter,
    /// The name of the list; one that goes the other way is another.
    list: String,
}

impl Asked {
    fn read(params: &Params, page: &Page, name: &str) -> Result<Self, Problem> {
        let ascending = params.word("order", &["asc", "desc"])? == Some("asc");
        let list = format!("{name}:{}", if ascending { "asc" } else { "desc" });
        let filter = AuditFilter {
            action: action(params)?,
            actor: text(params, "actor", 160)?,
            target: text(params, "target", 256)?,
            from: params.time("from")?,
            to: params.time("to")?,
            after: params.integer("after", 0, i64::MAX)?,
            ascending,
            page_after: page.after_parsed(&list)?,
        };
        Ok(Self { filter, list })
    }
}

/// A text of so many characters at most.
fn text(params: &Params, name: &str, longest: usize) -> Result<Option<String>, Problem> {
    let Some(text) = params.get(name) else { return Ok(None) };
    if (1..=longest).contains(&chars(text)) {
        return Ok(Some(text.to_owned()));
    }
    Err(Problem::invalid_at(format!("/query/{name}"), format!("must have 1 to {longest} characters")))
}

/// An action, or all on one kind of thing.
fn action(params: &Params) -> Result<Option<String>, Problem> {
    let Some(wanted) = params.get("action") else { return Ok(None) };
    let matches = |action: &&Action| match wanted.strip_suffix('*') {
        Some(start) => start.ends_with('.') && action.as_str().starts_with(start),
        None => action.as_str() == wanted,
    };
    if Action::ALL.iter().any(|action| matches(&action)) {
        return Ok(Some(wanted.to_owned()));
    }
    Err(Problem::invalid_at("/query/action", "is no action, nor a kind of them such as approval.*"))
}
