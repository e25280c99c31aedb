//! What came of a try, and what that says of its endpoint.

use chrono::{DateTime, Utc};
use serde_json::json;

use super::Outgoing;
use crate::error::store_error;
use crate::tx::SystemTx;
use crate::{Result, Store};

/// What came of a try.
#[derive(Debug, Clone)]
pub struct Tried {
    /// When it began.
    pub at: DateTime<Utc>,
    /// HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// What went wrong, for the tenant.
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// How the answer's body begins.
    pub response: Option<String>,
    /// What follows.
    pub then: AfterTry,
    /// The endpoint asked to be left alone until then.
    pub rest_until: Option<DateTime<Utc>>,
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
    /// Writes down what came of a try.
    ///
    /// # Errors
    /// The database is away: the delivery is tried again when its time is over.
    pub async fn delivery_tried(&self, outgoing: &Outgoing, tried: &Tried) -> Result<()> {
        let mut tx = self.system().await?;
        // Webhooks before their deliveries: a change of a webhook locks them in this order, too. Who was not this sender's any
        // more says nothing of the endpoint being gone: it may have been switched on again since.
        let then = match tried.then {
            AfterTry::Delivered => {
                tx.endpoint_answers(outgoing).await?;
                AfterTry::Delivered
            }
            AfterTry::Gone if !tx.webhook_gone(outgoing).await? => AfterTry::Again(self.clock().utc()),
            AfterTry::Gone => AfterTry::Gone,
            other => {
                tx.endpoint_fails(outgoing, tried.rest_until).await?;
                other
            }
        };
        tx.delivery_settle(outgoing, tried, then).await?;
        if let AfterTry::Again(_) = then {
            tx.later_ones_wait(outgoing).await?;
        }
        tx.commit().await
    }
}

impl SystemTx {
    async fn delivery_settle(&mut self, outgoing: &Outgoing, tried: &Tried, then: AfterTry) -> Result<()> {
        let (status, next) = match then {
            AfterTry::Delivered => ("delivered", None),
            AfterTry::Again(at) => ("pending", Some(at)),
            AfterTry::Failed | AfterTry::Gone => ("failed", None),
        };
        let at = tried.at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let attempt = json!([{
            "at": at, "status": tried.status, "error": tried.error, "duration_ms": tried.duration_ms, "response": tried.response,
        }]);
        // A slow sender whose time was over says nothing against what another one does or has settled, but an arrival is one.
        sqlx::query!(
            "UPDATE deliveries SET
                 status = CASE WHEN own THEN $3 ELSE status END,
                 next_attempt_at = CASE WHEN own THEN $4 ELSE next_attempt_at END,
                 attempts = CASE WHEN jsonb_array_length(attempts) < 100 THEN attempts ELSE attempts - 0 END || $5,
                 tries = CASE WHEN own THEN tries + 1 ELSE tries END,
                 lease_until = CASE WHEN lease_until = $6 THEN NULL ELSE lease_until END
             FROM (SELECT $3 = 'delivered' OR (status = 'pending' AND lease_until = $6) AS own FROM deliveries
                 WHERE tenant_id = $1 AND delivery_id = $2 FOR UPDATE) o
             WHERE tenant_id = $1 AND delivery_id = $2",
            outgoing.tenant_id.0,
            outgoing.delivery_id.0,
            status,
            next,
            attempt,
            outgoing.lease_until,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// What waits for this delivery (see `deliveries_claim`) is due with it. Were it due before, every claim would look at all
    /// that waits at an endpoint that fails.
    async fn later_ones_wait(&mut self, outgoing: &Outgoing) -> Result<()> {
        sqlx::query!(
            "WITH later AS MATERIALIZED (
                 SELECT d.delivery_id, f.next_attempt_at FROM deliveries f
                 JOIN deliveries d ON d.tenant_id = f.tenant_id AND d.webhook_id = f.webhook_id AND d.run_id = f.run_id AND d.ord > f.ord
                 WHERE f.tenant_id = $1 AND f.delivery_id = $2 AND f.status = 'pending' AND f.tries < 3
                   AND f.next_attempt_at > now() AND f.next_attempt_at < now() + interval '1 minute'
                   AND d.status = 'pending' AND d.tries < 3 AND d.next_attempt_at < f.next_attempt_at
                   AND (d.lease_until IS NULL OR d.lease_until < now())
                 FOR NO KEY UPDATE OF d SKIP LOCKED
             )
             UPDATE deliveries d SET next_attempt_at = later.next_attempt_at
             FROM later WHERE d.tenant_id = $1 AND d.delivery_id = later.delivery_id",
            outgoing.tenant_id.0,
            outgoing.delivery_id.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    async fn endpoint_answers(&mut self, outgoing: &Outgoing) -> Result<()> {
        sqlx::query!(
            "UPDATE webhooks SET answers_since = now(), failing_since = NULL, failed_at = NULL, resting_until = NULL
             WHERE tenant_id = $1 AND webhook_id = $2 AND url = $3 AND answers_since IS NULL",
            outgoing.tenant_id.0,
            outgoing.webhook_id.0,
            outgoing.url,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    async fn endpoint_fails(&mut self, outgoing: &Outgoing, rest_until: Option<DateTime<Utc>>) -> Result<()> {
        sqlx::query!(
            "UPDATE webhooks SET failing_since = coalesce(failing_since, now()), failed_at = now(), answers_since = NULL,
                 resting_until = coalesce($4, resting_until)
             WHERE tenant_id = $1 AND webhook_id = $2 AND url = $3",
            outgoing.tenant_id.0,
            outgoing.webhook_id.0,
            outgoing.url,
            rest_until,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Switches a webhook off, and ends what waits for it; `false`: it is somewhere else by now, and only the old place is
    /// gone, or the try is no longer this sender's.
    async fn webhook_gone(&mut self, outgoing: &Outgoing) -> Result<bool> {
        let (tenant, webhook) = (outgoing.tenant_id.0, outgoing.webhook_id.0);
        let here = sqlx::query_scalar!(
            r#"SELECT url = $3 AS "here!" FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2 FOR NO KEY UPDATE"#,
            tenant,
            webhook,
            outgoing.url,
        );
        let here = here.fetch_optional(self.conn()).await.map_err(store_error)?;
        // Only now, for what ends deliveries holds the webhook.
        if here != Some(true) || !self.delivery_is_own(outgoing).await? {
            return Ok(false);
        }
        sqlx::query!(
            "UPDATE webhooks SET disabled_reason = CASE WHEN disabled_at IS NULL THEN 'gone' ELSE disabled_reason END,
                 disabled_at = coalesce(disabled_at, now())
             WHERE tenant_id = $1 AND webhook_id = $2",
            tenant,
            webhook,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        sqlx::query!(
            "UPDATE deliveries SET status = 'failed', next_attempt_at = NULL, lease_until = NULL
             WHERE tenant_id = $1 AND webhook_id = $2 AND status = 'pending'",
            tenant,
            webhook,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(true)
    }

    /// Whether a try is still this sender's: nobody took it over, asked for it anew or ended it.
    async fn delivery_is_own(&mut self, outgoing: &Outgoing) -> Result<bool> {
        let own = sqlx::query_scalar!(
            r#"SELECT (status = 'pending' AND lease_until = $3) IS TRUE AS "own!" FROM deliveries
               WHERE tenant_id = $1 AND delivery_id = $2"#,
            outgoing.tenant_id.0,
            outgoing.delivery_id.0,
            outgoing.lease_until,
        );
        Ok(own.fetch_optional(self.conn()).await.map_err(store_error)? == Some(true))
    }
}
