//! Deliveries on their way: claimed for a while, tried, and settled. Across tenants, as whoever sends them.

use answerable_core::id::{DeliveryId, TenantId, WebhookId};
use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::store_error;
use crate::seal::place;
use crate::tx::SystemTx;
use crate::{Result, Store};

/// A delivery that is to be tried now.
#[derive(Debug)]
pub struct Outgoing {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its id: the same on every try.
    pub delivery_id: DeliveryId,
    /// The endpoint.
    pub webhook_id: WebhookId,
    /// Where it is.
    pub url: String,
    /// What signs it; `None`: the secret can't be opened with the configured key.
    pub secret: Option<SecretString>,
    /// The exact bytes.
    pub body: String,
    /// Tries so far.
    pub tries: usize,
}

/// What came of a try.
#[derive(Debug, Clone)]
pub struct Tried {
    /// HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// What went wrong, for the tenant.
    pub error: Option<String>,
    /// What follows.
    pub then: AfterTry,
}

/// What follows a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterTry {
    /// It arrived.
    Delivered,
    /// It is tried again then.
    Again(DateTime<Utc>),
    /// It is given up.
    Failed,
    /// The endpoint is gone for good: it is switched off.
    Gone,
}

impl Store {
    /// Takes up to `limit` deliveries that are due for a minute: at most `each` at once for one endpoint and `of_tenant` for
    /// one tenant, whoever has the fewest out first. One that was never tried goes before its run's later ones.
    ///
    /// # Errors
    /// The database is away.
    pub async fn deliveries_claim(&self, limit: i64, each: i64, of_tenant: i64) -> Result<Vec<Outgoing>> {
        let mut tx = self.system().await?;
        let rows = sqlx::query!(
            r#"WITH out AS MATERIALIZED (
                   SELECT tenant_id, webhook_id, count(*) AS tries FROM deliveries
                   WHERE status = 'pending' AND lease_until > now() GROUP BY tenant_id, webhook_id
               ), due AS MATERIALIZED (
                   SELECT w.tenant_id, d.delivery_id, d.next_attempt_at,
                       coalesce((SELECT sum(tries) FROM out WHERE out.tenant_id = w.tenant_id), 0)
                       + row_number() OVER (PARTITION BY w.tenant_id ORDER BY d.next_attempt_at, d.ord) AS place
                   FROM webhooks w
                   LEFT JOIN out ON out.tenant_id = w.tenant_id AND out.webhook_id = w.webhook_id
                   CROSS JOIN LATERAL (
                       SELECT d.delivery_id, d.next_attempt_at, d.ord FROM deliveries d
                       WHERE d.tenant_id = w.tenant_id AND d.webhook_id = w.webhook_id
                         AND d.status = 'pending' AND d.next_attempt_at <= now() AND (d.lease_until IS NULL OR d.lease_until < now())
                         AND NOT EXISTS (SELECT FROM deliveries e WHERE e.tenant_id = d.tenant_id AND e.webhook_id = d.webhook_id
                             AND e.run_id = d.run_id AND e.ord < d.ord AND e.status = 'pending' AND e.attempts = '[]')
                       ORDER BY d.next_attempt_at, d.ord LIMIT greatest($2 - coalesce(out.tries, 0), 0)) d
               ), free AS MATERIALIZED (
                   SELECT d.tenant_id, d.delivery_id FROM deliveries d
                   JOIN due ON due.tenant_id = d.tenant_id AND due.delivery_id = d.delivery_id AND due.place <= $3::bigint
                   WHERE d.status = 'pending' AND (d.lease_until IS NULL OR d.lease_until < now())
                   ORDER BY due.place, due.next_attempt_at LIMIT $1 FOR UPDATE OF d SKIP LOCKED
               ), taken AS (
                   UPDATE deliveries d SET lease_until = now() + interval '1 minute'
                   FROM free WHERE d.tenant_id = free.tenant_id AND d.delivery_id = free.delivery_id
                   RETURNING d.tenant_id, d.delivery_id, d.webhook_id, d.body, d.attempts, d.ord
               )
               SELECT t.tenant_id, t.delivery_id, t.webhook_id, t.body, jsonb_array_length(t.attempts) AS "tries!",
                   w.url, w.sealed
               FROM taken t JOIN webhooks w ON w.tenant_id = t.tenant_id AND w.webhook_id = t.webhook_id
               ORDER BY t.ord"#,
            limit,
            each,
            of_tenant,
        )
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        let sealer = tx.sealer.clone();
        tx.commit().await?;
        let outgoing = rows.into_iter().map(|row| {
            let (tenant_id, webhook_id) = (TenantId(row.tenant_id), WebhookId(row.webhook_id));
            let place = place(tenant_id, "webhook", &webhook_id.to_string(), None);
            Outgoing {
                tenant_id,
                webhook_id,
                delivery_id: DeliveryId(row.delivery_id),
                url: row.url,
                secret: sealer.open(&place, &row.sealed).ok(),
                body: row.body,
                tries: usize::try_from(row.tries).unwrap_or(0),
            }
        });
        Ok(outgoing.collect())
    }

    /// Writes down what came of a try.
    ///
    /// # Errors
    /// The database is away: the delivery is tried again when its minute is over.
    pub async fn delivery_tried(&self, outgoing: &Outgoing, tried: &Tried) -> Result<()> {
        let mut tx = self.system().await?;
        let at = self.clock().utc().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let attempt = json!([{"at": at, "status": tried.status, "error": tried.error}]);
        let (tenant, delivery) = (outgoing.tenant_id.0, outgoing.delivery_id.0);
        tx.delivery_settle(tenant, delivery, &attempt, tried.then).await?;
        if tried.then == AfterTry::Gone {
            tx.webhook_switch_off(tenant, outgoing.webhook_id.0).await?;
        }
        tx.commit().await
    }

    /// When the next delivery is due of those that nobody is trying, if any is.
    ///
    /// # Errors
    /// The database is away.
    pub async fn deliveries_next(&self) -> Result<Option<DateTime<Utc>>> {
        let mut tx = self.system().await?;
        sqlx::query_scalar!(
            "SELECT min(next_attempt_at) FROM deliveries
             WHERE status = 'pending' AND (lease_until IS NULL OR lease_until < now())"
        )
        .fetch_one(tx.conn())
        .await
        .map_err(store_error)
    }
}

impl SystemTx {
    async fn delivery_settle(
        &mut self,
        tenant: Uuid,
        delivery: Uuid,
        attempt: &Value,
        then: AfterTry,
    ) -> Result<()> {
        let (status, next) = match then {
            AfterTry::Delivered => ("delivered", None),
            AfterTry::Again(at) => ("pending", Some(at)),
            AfterTry::Failed | AfterTry::Gone => ("failed", None),
        };
        // A slow sender whose minute was over says nothing against what another one has settled, but an arrival is one.
        sqlx::query!(
            "UPDATE deliveries SET status = $3, next_attempt_at = $4, attempts = attempts || $5, lease_until = NULL
             WHERE tenant_id = $1 AND delivery_id = $2 AND (status = 'pending' OR $3 = 'delivered')",
            tenant,
            delivery,
            status,
            next,
            attempt,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    async fn webhook_switch_off(&mut self, tenant: Uuid, webhook: Uuid) -> Result<()> {
        sqlx::query!(
            "UPDATE webhooks SET disabled_at = now() WHERE tenant_id = $1 AND webhook_id = $2 AND disabled_at IS NULL",
            tenant,
            webhook,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        sqlx::query!(
            "UPDATE deliveries SET status = 'failed', next_attempt_at = NULL
             WHERE tenant_id = $1 AND webhook_id = $2 AND status = 'pending'",
            tenant,
            webhook,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}
