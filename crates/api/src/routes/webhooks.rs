//! Where a tenant hears of its runs.

use answerable_core::id::WebhookId;
use answerable_store::Counted;
use axum::extract::State;

use crate::admit::room_for;
use crate::auth::{Admin, Tenant};
use crate::body::{Body, Nothing};
use crate::idempotency::{Once, Turn};
use crate::page::Page;
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::router::{Route, delete, get, patch, post};
use crate::shapes::webhooks::{Webhook, WebhookCreate, WebhookUpdate};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/webhooks", create),
        get("/v1/webhooks", list),
        get("/v1/webhooks/{webhook_id}", fetch),
        patch("/v1/webhooks/{webhook_id}", update),
        delete("/v1/webhooks/{webhook_id}", remove),
        post("/v1/webhooks/{webhook_id}/rotate_secret", rotate),
    ]
}

async fn create(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    once: Once<WebhookCreate>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    state.check_address(&once.body.url, "/url")?;
    room_for(&mut first.tx, Counted::Webhooks).await?;
    let (row, secret) = first.tx.webhook_create(&once.body.into()).await?;
    let path = format!("/v1/webhooks/{}", WebhookId(row.webhook_id));
    first.answer(Answer::created(path, &Webhook::with_secret(row, &secret))?.with_secret()).await
}

async fn list(State(state): State<AppState>, tenant: Tenant<Admin>, page: Page) -> Result<Answer, Problem> {
    let before = page.after_parsed("webhooks")?;
    let rows = state.store.tenant(tenant.id).await?.webhook_list(before, page.fetch()).await?;
    page.answer("webhooks", rows, |row| row.ord.to_string(), Webhook::from)
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(webhook): Id<WebhookId>,
) -> Result<Answer, Problem> {
    let row = state.store.tenant(tenant.id).await?.webhook_fetch(webhook).await?;
    Answer::ok(&row.map(Webhook::from).ok_or_else(Problem::not_found)?)
}

async fn update(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(webhook): Id<WebhookId>,
    Body(change): Body<WebhookUpdate>,
) -> Result<Answer, Problem> {
    if let Some(url) = &change.url {
        state.check_address(url, "/url")?;
    }
    let mut tx = tenant.begin(&state).await?;
    let row = tx.webhook_update(webhook, &change.into()).await?.ok_or_else(Problem::not_found)?;
    tx.commit().await?;
    Answer::ok(&Webhook::from(row))
}

async fn remove(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(webhook): Id<WebhookId>,
) -> Result<Answer, Problem> {
    let mut tx = tenant.begin(&state).await?;
    if !tx.webhook_delete(webhook).await? {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    Ok(Answer::no_content())
}

async fn rotate(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(webhook): Id<WebhookId>,
    once: Once<Nothing>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let (row, secret) = first.tx.webhook_rotate(webhook).await?.ok_or_else(Problem::not_found)?;
    first.answer(Answer::ok(&Webhook::with_secret(row, &secret))?.with_secret()).await
}
