//! Webhooks: where a tenant hears of its runs.

use answerable_core::id::WebhookId;
use chrono::{DateTime, Utc};
use secrecy::SecretString;
use uuid::Uuid;

use crate::error::store_error;
use crate::seal::place;
use crate::signing_secrets::new_signing_secret;
use crate::tx::TenantTx;
use crate::{Result, StoreError};

/// A webhook without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRow {
    /// Its id.
    pub webhook_id: Uuid,
    /// Its place in lists.
    pub ord: i64,
    /// Where it hears.
    pub url: String,
    /// Types of events, or patterns of them.
    pub events: Vec<String>,
    /// For people.
    pub description: Option<String>,
    /// Approvals are sent with the call's input.
    pub include_input: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// A webhook to be made.
#[derive(Debug, Clone)]
pub struct NewWebhook {
    /// Where it hears.
    pub url: String,
    /// Types of events, or patterns of them.
    pub events: Vec<String>,
    /// For people.
    pub description: Option<String>,
    /// Approvals are sent with the call's input.
    pub include_input: bool,
}

/// A change of a webhook; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct WebhookChange {
    /// Where it hears.
    pub url: Option<String>,
    /// Types of events, or patterns of them.
    pub events: Option<Vec<String>>,
    /// For people; `Some(None)` removes it.
    pub description: Option<Option<String>>,
    /// Approvals are sent with the call's input.
    pub include_input: Option<bool>,
}

impl TenantTx {
    /// Makes a webhook; gives its signing secret, which is not shown again.
    ///
    /// # Errors
    /// The database is away.
    pub async fn webhook_create(&mut self, new: &NewWebhook) -> Result<(WebhookRow, SecretString)> {
        let (id, secret) = (WebhookId(Uuid::now_v7()), new_signing_secret()?);
        let place = place(self.tenant_id, "webhook", &id.to_string(), None);
        let sealed =
            self.sealer.seal(&place, &secret).map_err(|error| StoreError::Broken(error.to_string()))?;
        let row = sqlx::query_as!(
            WebhookRow,
            "INSERT INTO webhooks (tenant_id, webhook_id, url, events, description, include_input, sealed)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             RETURNING webhook_id, ord, url, events, description, include_input, created_at",
            self.tenant(),
            id.0,
            new.url,
            &new.events,
            new.description,
            new.include_input,
            sealed,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok((row, secret))
    }

    /// Webhooks, newest first, of places before `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn webhook_list(&mut self, before: Option<i64>, limit: i64) -> Result<Vec<WebhookRow>> {
        sqlx::query_as!(
            WebhookRow,
            "SELECT webhook_id, ord, url, events, description, include_input, created_at FROM webhooks
             WHERE tenant_id = $1 AND ($2::bigint IS NULL OR ord < $2) ORDER BY ord DESC LIMIT $3",
            self.tenant(),
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// A webhook.
    ///
    /// # Errors
    /// The database is away.
    pub async fn webhook_fetch(&mut self, webhook: WebhookId) -> Result<Option<WebhookRow>> {
        sqlx::query_as!(
            WebhookRow,
            "SELECT webhook_id, ord, url, events, description, include_input, created_at FROM webhooks
             WHERE tenant_id = $1 AND webhook_id = $2",
            self.tenant(),
            webhook.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Changes a webhook. One that was switched off because its endpoint was gone hears again.
    ///
    /// # Errors
    /// The database is away.
    pub async fn webhook_update(
        &mut self,
        webhook: WebhookId,
        change: &WebhookChange,
    ) -> Result<Option<WebhookRow>> {
        sqlx::query_as!(
            WebhookRow,
            "UPDATE webhooks SET url = coalesce($3, url), events = coalesce($4, events),
                 description = CASE WHEN $5 THEN $6 ELSE description END,
                 include_input = coalesce($7, include_input), disabled_at = NULL
             WHERE tenant_id = $1 AND webhook_id = $2
             RETURNING webhook_id, ord, url, events, description, include_input, created_at",
            self.tenant(),
            webhook.0,
            change.url,
            change.events.as_deref(),
            change.description.is_some(),
            change.description.clone().flatten(),
            change.include_input,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Deletes a webhook with its deliveries; `false`: there is none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn webhook_delete(&mut self, webhook: WebhookId) -> Result<bool> {
        let done = sqlx::query!(
            "DELETE FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2",
            self.tenant(),
            webhook.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(done.rows_affected() > 0)
    }
}
