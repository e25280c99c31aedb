//! Artifacts and their bytes.

use answerable_core::id::ArtifactId;
use axum::extract::State;
use axum::response::Response;

use crate::auth::{RunsRead, Tenant};
use crate::path::Id;
use crate::problem::{Answer, Problem, attachment};
use crate::router::{Route, get};
use crate::shapes::evidence::Artifact;
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/artifacts/{artifact_id}", fetch), get("/v1/artifacts/{artifact_id}/content", content)]
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(artifact_id): Id<ArtifactId>,
) -> Result<Answer, Problem> {
    let row = state.store.tenant(tenant.id).await?.artifact_fetch(artifact_id).await?;
    Answer::ok(&row.map(Artifact::from).ok_or_else(Problem::not_found)?)
}

async fn content(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(artifact_id): Id<ArtifactId>,
) -> Result<Response, Problem> {
    let found = state.store.tenant(tenant.id).await?.artifact_content(artifact_id).await?;
    let (media_type, bytes) = found.ok_or_else(Problem::not_found)?;
    Ok(attachment(&media_type, bytes))
}
