//! Refunds: money that goes back.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sqlx::{Postgres, Transaction};

use super::answer::Refusal;
use super::request::CallMarks;
use super::{Idempotency, Shop, tables};

/// What a caller wants paid back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRefund {
    order_id: i64,
    amount_cents: i64,
    reason: String,
}

/// A refund as callers see it.
#[derive(Serialize, sqlx::FromRow)]
pub(super) struct Refund {
    refund_id: i64,
    order_id: i64,
    amount_cents: i64,
}

/// `POST /refunds`: pays back at most what the order cost, all its refunds together.
pub(super) async fn refund(
    State(shop): State<Shop>,
    marks: CallMarks,
    Json(new): Json<NewRefund>,
) -> Result<(StatusCode, Json<Refund>), Refusal> {
    if new.amount_cents < 1 {
        return Err(Refusal::Invalid("amount_cents must be above 0".into()));
    }
    let mut transaction = shop.pool.begin().await?;
    if let Some(key) = &marks.idempotency_key {
        tables::lock_key(&mut transaction, key).await?;
        if shop.idempotency == Idempotency::Honour
            && let Some(first) = refund_by_key(&mut transaction, key).await?
        {
            return same_refund(first, &new);
        }
    }
    within_the_price(&mut transaction, &new).await?;
    let refund = insert_refund(&mut transaction, &new, &marks).await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(refund)))
}

fn same_refund(first: Refund, new: &NewRefund) -> Result<(StatusCode, Json<Refund>), Refusal> {
    if first.order_id == new.order_id && first.amount_cents == new.amount_cents {
        Ok((StatusCode::OK, Json(first)))
    } else {
        Err(Refusal::Invalid("this Idempotency-Key was used for another refund".into()))
    }
}

async fn within_the_price(
    transaction: &mut Transaction<'_, Postgres>,
    new: &NewRefund,
) -> Result<(), Refusal> {
    let price: Option<i64> =
        sqlx::query_scalar("SELECT total_cents FROM orders WHERE order_id = $1 FOR UPDATE")
            .bind(new.order_id)
            .fetch_optional(&mut **transaction)
            .await?;
    let price = price.ok_or_else(|| Refusal::NotFound(format!("there is no order {}", new.order_id)))?;
    let paid_back: i64 =
        sqlx::query_scalar("SELECT coalesce(sum(amount_cents), 0)::bigint FROM refunds WHERE order_id = $1")
            .bind(new.order_id)
            .fetch_one(&mut **transaction)
            .await?;
    if new.amount_cents > price - paid_back {
        return Err(Refusal::Conflict(format!(
            "of order {} only {} cents are left",
            new.order_id,
            price - paid_back
        )));
    }
    Ok(())
}

async fn insert_refund(
    transaction: &mut Transaction<'_, Postgres>,
    new: &NewRefund,
    marks: &CallMarks,
) -> sqlx::Result<Refund> {
    sqlx::query_as(
        "INSERT INTO refunds (order_id, amount_cents, reason, idempotency_key, run_id, message_id)
         VALUES ($1, $2, $3, $4, $5, $6) RETURNING refund_id, order_id, amount_cents",
    )
    .bind(new.order_id)
    .bind(new.amount_cents)
    .bind(&new.reason)
    .bind(&marks.idempotency_key)
    .bind(&marks.run_id)
    .bind(&marks.message_id)
    .fetch_one(&mut **transaction)
    .await
}

/// The first refund that was made under a key.
pub(super) async fn refund_by_key(
    transaction: &mut Transaction<'_, Postgres>,
    key: &str,
) -> sqlx::Result<Option<Refund>> {
    sqlx::query_as(
        "SELECT refund_id, order_id, amount_cents FROM refunds
         WHERE idempotency_key = $1 ORDER BY refund_id LIMIT 1",
    )
    .bind(key)
    .fetch_optional(&mut **transaction)
    .await
}
