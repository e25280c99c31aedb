//! Keys of tenants, for the operator.

use answerable_core::id::{KeyId, TenantId};
use answerable_store::{Counted, KeyRotated, NewKey};
use axum::extract::State;
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::auth::Operator;
use crate::idempotency::{Once, Turn};
use crate::key_ring::make_key;
use crate::page::Page;
use crate::path::{Id, Ids};
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, delete, get, post};
use crate::shapes::keys::{Key, KeyCreate, KeyRotate};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/tenants/{tenant_id}/keys", create),
        get("/v1/tenants/{tenant_id}/keys", list),
        get("/v1/tenants/{tenant_id}/keys/{key_id}", fetch),
        post("/v1/tenants/{tenant_id}/keys/{key_id}/rotate", rotate),
        delete("/v1/tenants/{tenant_id}/keys/{key_id}", revoke),
    ]
}

async fn create(
    State(state): State<AppState>,
    _: Operator,
    Id(tenant): Id<TenantId>,
    once: Once<KeyCreate>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin_as_operator(&state).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let (wanted, key_id) = (once.body, KeyId(Uuid::now_v7()));
    let (secret, secret_hash) = make_key(key_id)?;
    let key = NewKey {
        key_id,
        name: wanted.name,
        secret_hash,
        scopes: wanted.scopes,
        expires_at: wanted.expires_at,
    };
    first.tx.room_for(tenant, Counted::Keys, 1).await?.map_err(Problem::full)?;
    let row = first.tx.key_create(tenant, &key).await?.ok_or_else(Problem::not_found)?;
    let shown = Key::with_secret(row, secret.expose_secret());
    let path = format!("/v1/tenants/{tenant}/keys/{key_id}");
    first.answer(Answer::created(path, &shown)?.with_secret()).await
}

async fn list(
    State(state): State<AppState>,
    _: Operator,
    Id(tenant): Id<TenantId>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let with_revoked = params.word("include", &["revoked"])?.is_some();
    let name = format!("keys:{tenant}");
    let before = page.after_parsed(&name)?;
    let rows = state.store.system().await?.key_list(tenant, with_revoked, before, page.fetch()).await?;
    let rows = rows.ok_or_else(Problem::not_found)?;
    page.answer(&name, rows, |row| row.key_id.to_string(), Key::from)
}

async fn fetch(
    State(state): State<AppState>,
    _: Operator,
    Ids(tenant, key): Ids<TenantId, KeyId>,
) -> Result<Answer, Problem> {
    let row = state.store.system().await?.key_fetch(tenant, key).await?;
    Answer::ok(&row.map(Key::from).ok_or_else(Problem::not_found)?)
}

async fn rotate(
    State(state): State<AppState>,
    _: Operator,
    Ids(tenant, key): Ids<TenantId, KeyId>,
    once: Once<KeyRotate>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin_as_operator(&state).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let (secret, secret_hash) = make_key(key)?;
    let row = match first.tx.key_rotate(tenant, key, &secret_hash, once.body.overlap_ms).await? {
        KeyRotated::Done(row) => row,
        KeyRotated::Unknown => return Err(Problem::not_found()),
        KeyRotated::Over => return Err(Problem::conflict("The key was revoked or has expired.")),
    };
    let shown = Key::with_secret(row, secret.expose_secret());
    first.answer(Answer::ok(&shown)?.with_secret()).await
}

async fn revoke(
    State(state): State<AppState>,
    operator: Operator,
    Ids(tenant, key): Ids<TenantId, KeyId>,
) -> Result<Answer, Problem> {
    let mut tx = operator.begin(&state).await?;
    if !tx.key_revoke(tenant, key).await? {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    Ok(Answer::no_content())
}
