//! Finding an order: by its number for a customer who asks, by key for a runtime that was cut off.

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::Refusal;
use super::{Shop, orders, refunds, tables};

#[derive(Deserialize)]
pub(super) struct OrderQuery {
    order_id: Option<i64>,
    key: Option<String>,
}

/// `GET /orders/find?order_id=` shows an order. `GET /orders/find?key=` answers whether an order
/// or a refund was made under this `Idempotency-Key`: `{"state": "applied", "result": {…}}` or
/// `{"state": "not_applied"}`. It waits for a request under that key that is still being worked on.
pub(super) async fn find_order(
    State(shop): State<Shop>,
    Query(query): Query<OrderQuery>,
) -> Result<Json<Value>, Refusal> {
    match (query.order_id, query.key) {
        (Some(order_id), None) => by_number(&shop, order_id).await,
        (None, Some(key)) => by_key(&shop, &key).await,
        _ => Err(Refusal::Invalid("ask by order_id or by key".into())),
    }
}

async fn by_number(shop: &Shop, order_id: i64) -> Result<Json<Value>, Refusal> {
    let order: Option<orders::Order> = sqlx::query_as(
        "SELECT order_id, customer_id, sku, quantity, total_cents, state FROM orders WHERE order_id = $1",
    )
    .bind(order_id)
    .fetch_optional(&shop.pool)
    .await?;
    order
        .map(|order| Json(json!(order)))
        .ok_or_else(|| Refusal::NotFound(format!("there is no order {order_id}")))
}

async fn by_key(shop: &Shop, key: &str) -> Result<Json<Value>, Refusal> {
    let mut transaction = shop.pool.begin().await?;
    tables::lock_key(&mut transaction, key).await?;
    let made = match orders::order_by_key(&mut transaction, key).await? {
        Some(order) => Some(json!(order)),
        None => refunds::refund_by_key(&mut transaction, key).await?.map(|refund| json!(refund)),
    };
    Ok(Json(match made {
        Some(result) => json!({ "state": "applied", "result": result }),
        None => json!({ "state": "not_applied" }),
    }))
}
