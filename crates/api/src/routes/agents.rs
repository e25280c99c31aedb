//! Agents and their versions.

use answerable_core::id::AgentId;
use answerable_store::{AgentUpdated, Counted};
use axum::extract::State;

use crate::admit::room_for;
use crate::agents::read_spec;
use crate::auth::{AgentsWrite, ReadOrAgents, Tenant};
use crate::body::Body;
use crate::idempotency::{Once, Turn};
use crate::page::Page;
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, delete, get, post, put};
use crate::shapes::agents::{Agent, AgentBody};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/agents", create),
        get("/v1/agents", list),
        get("/v1/agents/{agent_id}", fetch),
        put("/v1/agents/{agent_id}", update),
        delete("/v1/agents/{agent_id}", archive),
        get("/v1/agents/{agent_id}/versions", versions),
    ]
}

async fn create(
    State(state): State<AppState>,
    tenant: Tenant<AgentsWrite>,
    once: Once<AgentBody>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let spec = read_spec(&state, &mut first.tx, once.body.0, "").await?;
    room_for(&mut first.tx, Counted::Agents).await?;
    let row = first.tx.agent_create(&spec).await?;
    let path = format!("/v1/agents/{}", AgentId(row.agent_id));
    first.answer(Answer::created(path, &Agent::from(row))?).await
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrAgents>,
    page: Page,
) -> Result<Answer, Problem> {
    let before = page.after_parsed("agents")?;
    let rows = state.store.tenant(tenant.id).await?.agent_list(before, page.fetch()).await?;
    page.answer("agents", rows, |row| row.ord.to_string(), Agent::from)
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrAgents>,
    Id(agent): Id<AgentId>,
    params: Params,
) -> Result<Answer, Problem> {
    let version = params.integer("version", 1, i32::MAX.into())?;
    let version = version.and_then(|version| i32::try_from(version).ok());
    let row = state.store.tenant(tenant.id).await?.agent_fetch(agent, version).await?;
    Answer::ok(&row.map(Agent::from).ok_or_else(Problem::not_found)?)
}

async fn update(
    State(state): State<AppState>,
    tenant: Tenant<AgentsWrite>,
    Id(agent): Id<AgentId>,
    Body(body): Body<AgentBody>,
) -> Result<Answer, Problem> {
    let mut tx = tenant.begin(&state).await?;
    // Whose agent it is goes before what is wrong with the new one.
    tx.agent_fetch(agent, None).await?.ok_or_else(Problem::not_found)?;
    let spec = read_spec(&state, &mut tx, body.0, "").await?;
    match tx.agent_update(agent, &spec).await? {
        AgentUpdated::Stored(row) => {
            tx.commit().await?;
            Answer::ok(&Agent::from(*row))
        }
        AgentUpdated::Full(versions) => Err(Problem::conflict(format!(
            "The agent has {versions} versions, and more there are not: make another agent."
        ))),
        AgentUpdated::Archived => Err(Problem::conflict("The agent is archived.")),
        AgentUpdated::Unknown => Err(Problem::not_found()),
    }
}

async fn archive(
    State(state): State<AppState>,
    tenant: Tenant<AgentsWrite>,
    Id(agent): Id<AgentId>,
) -> Result<Answer, Problem> {
    let mut tx = tenant.begin(&state).await?;
    if !tx.agent_archive(agent).await? {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    Ok(Answer::no_content())
}

async fn versions(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrAgents>,
    Id(agent): Id<AgentId>,
    page: Page,
) -> Result<Answer, Problem> {
    let list = format!("versions:{agent}");
    let after = page.after_parsed(&list)?.unwrap_or(0);
    let rows = state.store.tenant(tenant.id).await?.agent_versions(agent, after, page.fetch()).await?;
    let rows = rows.ok_or_else(Problem::not_found)?;
    page.answer(&list, rows, |row| row.version.to_string(), Agent::from)
}
