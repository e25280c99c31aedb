//! What a tenant's runs used, and how near it is to its limits: for itself, and for the operator.

use answerable_core::id::TenantId;
use answerable_store::{TenantTx, UsageBy};
use axum::extract::State;
use chrono::{DateTime, TimeDelta, Utc};

use crate::auth::{Admin, Operator, Tenant};
use crate::page::whole;
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, get};
use crate::shapes::usage::{QuotaUse, UsageRow};
use crate::state::AppState;

/// Most rows of one answer.
const MAX_ROWS: i64 = 1000;
/// What rows may stand for.
const GROUPS: [&str; 3] = ["day", "agent", "model"];

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/usage", own_usage),
        get("/v1/quotas", own_quotas),
        get("/v1/tenants/{tenant_id}/usage", usage_of),
        get("/v1/tenants/{tenant_id}/quotas", quotas_of),
    ]
}

async fn own_usage(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    params: Params,
) -> Result<Answer, Problem> {
    let wanted = Wanted::read(&params, state.store.clock().utc())?;
    usage(state.store.tenant(tenant.id).await?, wanted).await
}

async fn usage_of(
    State(state): State<AppState>,
    _: Operator,
    Id(tenant): Id<TenantId>,
    params: Params,
) -> Result<Answer, Problem> {
    let wanted = Wanted::read(&params, state.store.clock().utc())?;
    usage(of_tenant(&state, tenant).await?, wanted).await
}

async fn own_quotas(State(state): State<AppState>, tenant: Tenant<Admin>) -> Result<Answer, Problem> {
    quotas(state.store.tenant(tenant.id).await?).await
}

async fn quotas_of(
    State(state): State<AppState>,
    _: Operator,
    Id(tenant): Id<TenantId>,
) -> Result<Answer, Problem> {
    quotas(of_tenant(&state, tenant).await?).await
}

/// What is a tenant's, for the operator.
async fn of_tenant(state: &AppState, tenant: TenantId) -> Result<TenantTx, Problem> {
    let found = state.store.system().await?.tenant_fetch(tenant).await?;
    found.ok_or_else(Problem::not_found)?;
    Ok(state.store.tenant(tenant).await?)
}

/// What is asked for.
struct Wanted {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    by: UsageBy,
}

impl Wanted {
    fn read(params: &Params, now: DateTime<Utc>) -> Result<Self, Problem> {
        let from = params.time("from")?.unwrap_or(now - TimeDelta::days(30));
        let to = params.time("to")?.unwrap_or(now);
        Ok(Self { from, to, by: by(params.get("group_by").unwrap_or("day"))? })
    }
}

fn by(words: &str) -> Result<UsageBy, Problem> {
    let named: Vec<&str> = words.split(',').collect();
    let is_twice = |(i, word): (usize, &&str)| named[..i].contains(word);
    if named.iter().any(|word| !GROUPS.contains(word)) || named.iter().enumerate().any(is_twice) {
        let message = "names some of day, agent and model, each once, with commas between them";
        return Err(Problem::invalid_at("/query/group_by", message));
    }
    let has = |name| named.contains(&name);
    Ok(UsageBy { day: has("day"), agent: has("agent"), model: has("model") })
}

async fn usage(mut tx: TenantTx, Wanted { from, to, by }: Wanted) -> Result<Answer, Problem> {
    let rows = tx.usage_list(from, to, by, MAX_ROWS + 1).await?;
    let is_cut = rows.len() > usize::try_from(MAX_ROWS).unwrap_or(0);
    // Without days the first are those that used the most; with them the newest would be missing.
    if is_cut && by.day {
        let message = format!("would give more than {MAX_ROWS} rows: ask for fewer days");
        return Err(Problem::invalid_at("/query/from", message));
    }
    let most = usize::try_from(MAX_ROWS).unwrap_or(0);
    whole(rows.into_iter().take(most).map(|row| UsageRow::of(by, row)).collect())
}

async fn quotas(mut tx: TenantTx) -> Result<Answer, Problem> {
    whole(tx.quota_list().await?.into_iter().map(QuotaUse::from).collect())
}
