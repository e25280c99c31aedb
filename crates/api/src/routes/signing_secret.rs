//! The secret that signs the tenant's tool calls.

use answerable_store::SigningSecret as StoredSigningSecret;
use axum::extract::State;

use crate::auth::{Admin, Tenant};
use crate::body::Nothing;
use crate::idempotency::{Once, Turn};
use crate::problem::{Answer, Problem};
use crate::router::{Route, get, post};
use crate::shapes::settings::SigningSecret;
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/signing_secret", fetch), post("/v1/signing_secret/rotate", rotate)]
}

async fn fetch(State(state): State<AppState>, tenant: Tenant<Admin>) -> Result<Answer, Problem> {
    let mut tx = state.store.tenant(tenant.id).await?;
    let secrets = tx.signing_secrets().await?;
    // It may have been made just now.
    tx.commit().await?;
    show(&secrets)
}

async fn rotate(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    once: Once<Nothing>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let secrets = first.tx.signing_secret_rotate().await?;
    first.answer(show(&secrets)?).await
}

fn show(secrets: &[StoredSigningSecret]) -> Result<Answer, Problem> {
    let shown =
        SigningSecret::of(secrets).ok_or_else(|| Problem::internal("a tenant has no signing secret"))?;
    Ok(Answer::ok(&shown)?.with_secret())
}
