//! The server's own pages.

use answerable_store::StoreError;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use crate::auth::Anybody;
use crate::document;
use crate::problem::{Answer, Problem, page};
use crate::router::{Route, get};
use crate::state::AppState;

#[derive(Debug, Serialize)]
struct ServerStatus {
    status: &'static str,
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/healthz", health),
        get("/readyz", readiness),
        get("/metrics", metrics),
        get("/openapi.yaml", api_document),
    ]
}

async fn health(_: Anybody) -> Result<Answer, Problem> {
    Answer::ok(&ServerStatus { status: "ok" })
}

async fn readiness(_: Anybody, State(state): State<AppState>) -> Result<Answer, Problem> {
    state.takes_work()?;
    match state.readiness.get(&state.store).await {
        Ok(()) => Answer::ok(&ServerStatus { status: "ready" }),
        // Whoever asks is told, and asks again and again; the log has it from those who need the database.
        Err(StoreError::Away(_)) => Err(Problem::unavailable(2)),
        Err(broken) => Err(broken.into()),
    }
}

async fn metrics(_: Anybody, State(state): State<AppState>) -> Response {
    page("text/plain; version=0.0.4; charset=utf-8", state.config.metrics.text())
}

async fn api_document(_: Anybody) -> Response {
    page("application/yaml", document::TEXT)
}
