//! Deliveries as their tenant sees them; the sending is in `outgoing.rs`.

use answerable_core::id::{DeliveryId, WebhookId};
use answerable_ports::Signal;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryRow {
    /// Its id.
    pub delivery_id: Uuid,
    /// Its place in lists.
    pub ord: i64,
    /// The event's type.
    pub kind: String,
    /// `pending`, `delivered` or `failed`.
    pub status: String,
    /// What became of each try: `[{at, status, error}]`.
    pub attempts: Value,
    /// When it is tried next.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl TenantTx {
    /// A webhook's deliveries, newest first, of places before `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn delivery_list(
        &mut self,
        webhook: WebhookId,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<DeliveryRow>> {
        sqlx::query_as!(
            DeliveryRow,
            "SELECT delivery_id, ord, type AS kind, status, attempts, next_attempt_at, created_at FROM deliveries
             WHERE tenant_id = $1 AND webhook_id = $2 AND ($3::bigint IS NULL OR ord < $3)
             ORDER BY ord DESC LIMIT $4",
            self.tenant(),
            webhook.0,
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Queues a delivery that belongs to no run; `None`: there is no such webhook.
    ///
    /// # Errors
    /// The database is away.
    pub async fn delivery_create(
        &mut self,
        webhook: WebhookId,
        kind: &str,
        body: &str,
    ) -> Result<Option<DeliveryRow>> {
        self.announce(Signal::Deliveries);
        sqlx::query_as!(
            DeliveryRow,
            "INSERT INTO deliveries (tenant_id, delivery_id, webhook_id, type, body, next_attempt_at, created_at)
             SELECT tenant_id, $3, webhook_id, $4, $5, now(), now() FROM webhooks
             WHERE tenant_id = $1 AND webhook_id = $2
             RETURNING delivery_id, ord, type AS kind, status, attempts, next_attempt_at, created_at",
            self.tenant(),
            webhook.0,
            Uuid::now_v7(),
            kind,
            body,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Queues a delivery once more, as it was; `None`: the webhook has no such delivery.
    ///
    /// # Errors
    /// The database is away.
    pub async fn delivery_again(
        &mut self,
        webhook: WebhookId,
        delivery: DeliveryId,
    ) -> Result<Option<DeliveryRow>> {
        self.announce(Signal::Deliveries);
        sqlx::query_as!(
            DeliveryRow,
            "UPDATE deliveries SET status = 'pending', next_attempt_at = now()
             WHERE tenant_id = $1 AND webhook_id = $2 AND delivery_id = $3
             RETURNING delivery_id, ord, type AS kind, status, attempts, next_attempt_at, created_at",
            self.tenant(),
            webhook.0,
            delivery.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }
}
