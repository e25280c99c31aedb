//! Orders: the effect that must happen exactly once.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sqlx::{Postgres, Transaction};

use super::answer::Refusal;
use super::request::CallMarks;
use super::{Idempotency, Shop, tables};

/// What a caller orders.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewOrder {
    customer_id: i64,
    sku: String,
    quantity: i64,
}

/// An order as callers see it.
#[derive(Serialize, sqlx::FromRow)]
pub(super) struct Order {
    order_id: i64,
    customer_id: i64,
    sku: String,
    quantity: i64,
    total_cents: i64,
    state: String,
}

/// `POST /orders`: takes the goods off the shelf and makes the order, in one transaction.
pub(super) async fn create_order(
    State(shop): State<Shop>,
    marks: CallMarks,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Refusal> {
    if !(1..=1000).contains(&new.quantity) {
        return Err(Refusal::Invalid("quantity must be 1 to 1000".into()));
    }
    let mut transaction = shop.pool.begin().await?;
    if let Some(key) = &marks.idempotency_key {
        tables::lock_key(&mut transaction, key).await?;
        if shop.idempotency == Idempotency::Honour
            && let Some(first) = order_by_key(&mut transaction, key).await?
        {
            return same_order(first, &new);
        }
    }
    let total_cents = take_from_shelf(&mut transaction, &new).await?;
    let order = insert_order(&mut transaction, &new, total_cents, &marks).await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(order)))
}

fn same_order(first: Order, new: &NewOrder) -> Result<(StatusCode, Json<Order>), Refusal> {
    let same = first.customer_id == new.customer_id && first.sku == new.sku && first.quantity == new.quantity;
    if same {
        Ok((StatusCode::OK, Json(first)))
    } else {
        Err(Refusal::Invalid("this Idempotency-Key was used for another order".into()))
    }
}

async fn take_from_shelf(
    transaction: &mut Transaction<'_, Postgres>,
    new: &NewOrder,
) -> Result<i64, Refusal> {
    let price: Option<i64> = sqlx::query_scalar(
        "UPDATE stock SET available = available - $2 WHERE sku = $1 AND available >= $2 RETURNING price_cents",
    )
    .bind(&new.sku)
    .bind(new.quantity)
    .fetch_optional(&mut **transaction)
    .await?;
    price.map(|cents| cents * new.quantity).ok_or_else(|| {
        Refusal::Conflict(format!("there are not {} of {} on the shelf", new.quantity, new.sku))
    })
}

async fn insert_order(
    transaction: &mut Transaction<'_, Postgres>,
    new: &NewOrder,
    total_cents: i64,
    marks: &CallMarks,
) -> Result<Order, Refusal> {
    let inserted = sqlx::query_as(
        "INSERT INTO orders (customer_id, sku, quantity, total_cents, idempotency_key, run_id, message_id)
         SELECT customer_id, $2, $3, $4, $5, $6, $7 FROM customers WHERE customer_id = $1
         RETURNING order_id, customer_id, sku, quantity, total_cents, state",
    )
    .bind(new.customer_id)
    .bind(&new.sku)
    .bind(new.quantity)
    .bind(total_cents)
    .bind(&marks.idempotency_key)
    .bind(&marks.run_id)
    .bind(&marks.message_id)
    .fetch_optional(&mut **transaction)
    .await?;
    inserted.ok_or_else(|| Refusal::NotFound(format!("there is no customer {}", new.customer_id)))
}

/// The first order that was made under a key.
pub(super) async fn order_by_key(
    transaction: &mut Transaction<'_, Postgres>,
    key: &str,
) -> sqlx::Result<Option<Order>> {
    sqlx::query_as(
        "SELECT order_id, customer_id, sku, quantity, total_cents, state
         FROM orders WHERE idempotency_key = $1 ORDER BY order_id LIMIT 1",
    )
    .bind(key)
    .fetch_optional(&mut **transaction)
    .await
}
