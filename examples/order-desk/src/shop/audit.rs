//! The books: everything that callers made the shop do.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::Shop;
use super::answer::Refusal;

/// The shop's books since it opened, without what stood in them before.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Books {
    /// Orders, oldest first.
    pub(crate) orders: Vec<OrderEntry>,
    /// Refunds, oldest first.
    pub(crate) refunds: Vec<RefundEntry>,
    /// Mails, oldest first.
    pub(crate) mails: Vec<MailEntry>,
}

/// An order in the books.
#[derive(Debug, Serialize, Deserialize, sqlx::FromRow)]
pub(crate) struct OrderEntry {
    pub(crate) order_id: i64,
    pub(crate) sku: String,
    pub(crate) quantity: i64,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) run_id: Option<String>,
    pub(crate) message_id: Option<String>,
}

/// A refund in the books.
#[derive(Debug, Serialize, Deserialize, sqlx::FromRow)]
pub(crate) struct RefundEntry {
    pub(crate) refund_id: i64,
    pub(crate) order_id: i64,
    pub(crate) amount_cents: i64,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) run_id: Option<String>,
    pub(crate) message_id: Option<String>,
}

/// A mail in the books.
#[derive(Debug, Serialize, Deserialize, sqlx::FromRow)]
pub(crate) struct MailEntry {
    pub(crate) mail_id: i64,
    pub(crate) recipient: String,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) message_id: Option<String>,
}

/// `GET /admin/audit`: the books.
pub(super) async fn audit(State(shop): State<Shop>) -> Result<Json<Books>, Refusal> {
    Ok(Json(Books {
        orders: sqlx::query_as(
            "SELECT order_id, sku, quantity, idempotency_key, run_id, message_id
             FROM orders WHERE order_id > 1100 ORDER BY order_id",
        )
        .fetch_all(&shop.pool)
        .await?,
        refunds: sqlx::query_as(
            "SELECT refund_id, order_id, amount_cents, idempotency_key, run_id, message_id
             FROM refunds ORDER BY refund_id",
        )
        .fetch_all(&shop.pool)
        .await?,
        mails: sqlx::query_as(
            "SELECT mail_id, recipient, idempotency_key, message_id FROM mails ORDER BY mail_id",
        )
        .fetch_all(&shop.pool)
        .await?,
    }))
}
