//! What was sent to a webhook, or will be.

use answerable_core::id::{DeliveryId, WebhookId};
use answerable_store::{DeliveryFilter, NotQueued};
use axum::extract::State;
use serde_json::json;

use crate::auth::{Admin, Tenant};
use crate::body::Nothing;
use crate::idempotency::{Once, Turn};
use crate::page::Page;
use crate::path::{Id, Ids};
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, get, post};
use crate::shapes::Time;
use crate::shapes::webhooks::{Delivery, STATUSES, TYPES};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/webhooks/{webhook_id}/deliveries", list),
        post("/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", redeliver),
        post("/v1/webhooks/{webhook_id}/test", test),
    ]
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(webhook): Id<WebhookId>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let status = params.word("status", &STATUSES)?;
    let kind = params.word("type", &TYPES)?;
    let name = format!("deliveries:{webhook}:{}:{}", status.unwrap_or_default(), kind.unwrap_or_default());
    let filter = DeliveryFilter { status: status.map(str::to_owned), kind: kind.map(str::to_owned) };
    let before = page.after_parsed(&name)?;
    let mut tx = state.store.tenant(tenant.id).await?;
    tx.webhook_fetch(webhook).await?.ok_or_else(Problem::not_found)?;
    let rows = tx.delivery_list(webhook, &filter, before, page.fetch()).await?;
    page.answer(&name, rows, |row| row.ord.to_string(), Delivery::from)
}

async fn redeliver(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Ids(webhook, delivery): Ids<WebhookId, DeliveryId>,
    once: Once<Nothing>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let row = first.tx.delivery_again(webhook, delivery).await?.map_err(refused)?;
    first.answer(Answer::accepted(&Delivery::from(row))?).await
}

async fn test(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(webhook): Id<WebhookId>,
    once: Once<Nothing>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let body = json!({"type": "webhook.test", "timestamp": Time(chrono::Utc::now()), "data": {}}).to_string();
    let row = first.tx.delivery_create(webhook, "webhook.test", &body).await?.map_err(refused)?;
    first.answer(Answer::accepted(&Delivery::from(row))?).await
}

fn refused(why: NotQueued) -> Problem {
    match why {
        NotQueued::NotFound => Problem::not_found(),
        NotQueued::SwitchedOff => {
            Problem::conflict("The webhook is switched off. Switch it on first: PATCH {\"disabled\": false}.")
        }
    }
}
