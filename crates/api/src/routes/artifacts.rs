//! Artifacts and their bytes.

use answerable_core::id::ArtifactId;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, header};

use crate::auth::{RunsRead, Tenant};
use crate::path::Id;
use crate::problem::{Answer, Problem};
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
    let plain = HeaderValue::from_static("application/octet-stream");
    let media_type = HeaderValue::from_str(&media_type).unwrap_or(plain);
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, media_type);
    // A tool wrote it: no browser may take it for a page of this server.
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
