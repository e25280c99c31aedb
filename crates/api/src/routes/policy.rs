//! The tenant's own policy, and what policies would say of a call.

use answerable_core::id::RunId;
use answerable_core::permission::Owner;
use axum::extract::State;

use crate::auth::{Admin, ReadOrAgents, RunsRead, Tenant};
use crate::body::Body;
use crate::idempotency::{Once, Turn};
use crate::page::Page;
use crate::policies;
use crate::policy_check::checked;
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, get, post, put};
use crate::shapes::policy_check::PolicyCheckRequest;
use crate::shapes::settings::{PolicyBody, PolicyVersion, policy};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/policy", fetch),
        put("/v1/policy", store),
        get("/v1/policy/versions", versions),
        post("/v1/policy/check", check),
    ]
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    params: Params,
) -> Result<Answer, Problem> {
    let version = params.integer("version", 1, i32::MAX.into())?;
    let mut tx = state.store.tenant(tenant.id).await?;
    let row = match version.and_then(|version| i32::try_from(version).ok()) {
        None => tx.policy_row().await?,
        Some(version) => Some(tx.policy_version(version).await?.ok_or_else(Problem::not_found)?),
    };
    Answer::ok(&policy(row))
}

async fn store(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Body(body): Body<PolicyBody>,
) -> Result<Answer, Problem> {
    // Schemas are compiled for as long as they take: not where others wait.
    let reading =
        tokio::task::spawn_blocking(move || policies::read(&body.0, Owner::Tenant, "").map(|_| body.0));
    let policy_said = reading.await.map_err(|error| Problem::internal(format!("a policy: {error}")))??;
    let mut tx = tenant.begin(&state).await?;
    let row = tx.policy_put(&policy_said, &tenant.who()).await?;
    tx.commit().await?;
    Answer::ok(&policy(Some(row)))
}

async fn versions(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    page: Page,
) -> Result<Answer, Problem> {
    let before = page.after_parsed("policies")?;
    let rows = state.store.tenant(tenant.id).await?.policy_versions(before, page.fetch()).await?;
    page.answer("policies", rows, |row| row.version.to_string(), PolicyVersion::from)
}

async fn check(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrAgents>,
    once: Once<PolicyCheckRequest>,
) -> Result<Answer, Problem> {
    // What doesn't fit a rule tells of the run's context; so does an answer that is kept.
    let names_run = once.body.run_id.is_some() || once.body.thread_id.is_some();
    if names_run && !tenant.may::<RunsRead>() {
        return Err(Problem::forbidden("With run_id or thread_id the key needs the scope runs:read."));
    }
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let run_id = once.body.run_id.as_deref().and_then(|run_id| run_id.parse::<RunId>().ok());
    let told = checked(&state, &mut first.tx, once.body, tenant.creators()).await?;
    let answer = Answer::ok(&told)?;
    match run_id {
        Some(run_id) => first.answer_with_run(answer, run_id.0).await,
        None => first.answer(answer).await,
    }
}
