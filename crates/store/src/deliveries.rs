//! Deliveries as their tenant sees them; the sending is in `outgoing.rs`.

use answerable_core::audit::Action;
use answerable_core::id::{DeliveryId, WebhookId};
use answerable_ports::Signal;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
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
    /// The run that it tells of.
    pub run_id: Option<Uuid>,
    /// The event's type.
    pub kind: String,
    /// `pending`, `delivered` or `failed`.
    pub status: String,
    /// What became of each try, at most a hundred: `[{at, status, error, duration_ms, response}]`.
    pub attempts: Value,
    /// When it is tried next.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// Which deliveries to list.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// With this status.
    pub status: Option<String>,
    /// Of this type, or of those that a pattern covers.
    pub kind: Option<String>,
}

impl DeliveryFilter {
    /// The one type, or how those begin that a pattern covers; neither: all.
    fn kinds(&self) -> (Option<&str>, Option<&str>) {
        match self.kind.as_deref() {
            None | Some("*") => (None, None),
            Some(kind) => match kind.strip_suffix('*') {
                Some(beginning) if beginning.ends_with('.') => (None, Some(beginning)),
                _ => (Some(kind), None),
            },
        }
    }
}

/// Why a delivery isn't queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotQueued {
    /// There is no such webhook, or the webhook has no such delivery.
    NotFound,
    /// The webhook is switched off.
    SwitchedOff,
}

impl TenantTx {
    /// A webhook's deliveries, newest first, of places before `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn delivery_list(
        &mut self,
        webhook: WebhookId,
        filter: &DeliveryFilter,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<DeliveryRow>> {
        // A plan for any values would read all that arrived to find the few that failed.
        sqlx::query!("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)")
            .fetch_one(self.conn())
            .await
            .map_err(store_error)?;
        let (kind, beginning) = filter.kinds();
        sqlx::query_as!(
            DeliveryRow,
            "SELECT delivery_id, ord, run_id, type AS kind, status, attempts, next_attempt_at, created_at FROM deliveries
             WHERE tenant_id = $1 AND webhook_id = $2 AND ord < $3 AND ($4::text IS NULL OR status = $4)
               AND ($5::text IS NULL OR type = $5) AND ($6::text IS NULL OR starts_with(type, $6))
             ORDER BY ord DESC LIMIT $7",
            self.tenant(),
            webhook.0,
            before.unwrap_or(i64::MAX),
            filter.status,
            kind,
            beginning,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Queues a delivery that belongs to no run.
    ///
    /// # Errors
    /// The database is away.
    pub async fn delivery_create(
        &mut self,
        webhook: WebhookId,
        kind: &str,
        body: &str,
    ) -> Result<std::result::Result<DeliveryRow, NotQueued>> {
        if let Err(refused) = self.webhook_wake(webhook).await? {
            return Ok(Err(refused));
        }
        let id = DeliveryId(Uuid::now_v7());
        self.act(Action::WebhookTest, webhook, json!({"delivery_id": id}));
        sqlx::query_as!(
            DeliveryRow,
            "INSERT INTO deliveries (tenant_id, delivery_id, webhook_id, type, body, next_attempt_at, created_at)
             VALUES ($1, $3, $2, $4, $5, now(), now())
             RETURNING delivery_id, ord, run_id, type AS kind, status, attempts, next_attempt_at, created_at",
            self.tenant(),
            webhook.0,
            id.0,
            kind,
            body,
        )
        .fetch_one(self.conn())
        .await
        .map(Ok)
        .map_err(store_error)
    }

    /// Queues a delivery once more, as it was, to be tried for as long as a new one. A try that is out is no longer one of
    /// its own: it may arrive, but its failure ends nothing.
    ///
    /// # Errors
    /// The database is away.
    pub async fn delivery_again(
        &mut self,
        webhook: WebhookId,
        delivery: DeliveryId,
    ) -> Result<std::result::Result<DeliveryRow, NotQueued>> {
        if let Err(refused) = self.webhook_wake(webhook).await? {
            return Ok(Err(refused));
        }
        let row = sqlx::query_as!(
            DeliveryRow,
            "UPDATE deliveries SET status = 'pending', next_attempt_at = now(), queued_at = now(), tries = 0, lease_until = NULL
             WHERE tenant_id = $1 AND webhook_id = $2 AND delivery_id = $3
             RETURNING delivery_id, ord, run_id, type AS kind, status, attempts, next_attempt_at, created_at",
            self.tenant(),
            webhook.0,
            delivery.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        if row.is_some() {
            self.act(Action::WebhookRedeliver, webhook, json!({"delivery_id": delivery}));
        }
        Ok(row.ok_or(NotQueued::NotFound))
    }

    /// Who asks for a delivery wants it now, even if the endpoint asked to be left alone.
    async fn webhook_wake(&mut self, webhook: WebhookId) -> Result<std::result::Result<(), NotQueued>> {
        self.announce(Signal::Deliveries);
        let off = sqlx::query_scalar!(
            r#"UPDATE webhooks SET resting_until = NULL WHERE tenant_id = $1 AND webhook_id = $2
               RETURNING disabled_at IS NOT NULL AS "off!""#,
            self.tenant(),
            webhook.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(match off {
            None => Err(NotQueued::NotFound),
            Some(true) => Err(NotQueued::SwitchedOff),
            Some(false) => Ok(()),
        })
    }

    /// Nothing more is sent of what waits for a webhook, which is locked. What is on its way may still arrive; what it fails
    /// with is nobody's business any more.
    pub(crate) async fn deliveries_end(&mut self, webhook: WebhookId) -> Result<()> {
        sqlx::query!(
            "UPDATE deliveries SET status = 'failed', next_attempt_at = NULL, lease_until = NULL
             WHERE tenant_id = $1 AND webhook_id = $2 AND status = 'pending'",
            self.tenant(),
            webhook.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}
