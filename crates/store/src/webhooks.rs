//! Webhooks: where a tenant hears of its runs.

use answerable_core::audit::Action;
use answerable_core::id::WebhookId;
use answerable_core::json::input_hash;
use answerable_ports::Signal;
use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::audit::Address;
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
    /// Since when it is switched off.
    pub disabled_at: Option<DateTime<Utc>>,
    /// Why it is: `gone`, the endpoint answered 410; or `requested`.
    pub disabled_reason: Option<String>,
    /// Since when its endpoint takes nothing.
    pub failing_since: Option<DateTime<Utc>>,
    /// The secret before the newest signs beside it until then.
    pub before_until: Option<DateTime<Utc>>,
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
    /// Switches it off, and ends what waits for it; or on again.
    pub disabled: Option<bool>,
}

impl WebhookRow {
    /// What is written down of it.
    fn facts(&self) -> Value {
        let address = Address::of(&self.url);
        let settings = json!({"events": self.events, "description": self.description, "include_input": self.include_input});
        json!({"url": address.url, "url_hash": address.hash, "events": self.events, "include_input": self.include_input,
            "disabled": self.disabled_at.is_some(), "settings_hash": input_hash(&settings)})
    }
}

impl TenantTx {
    /// Makes a webhook; gives its signing secret, which is not shown again.
    ///
    /// # Errors
    /// The database is away.
    pub async fn webhook_create(&mut self, new: &NewWebhook) -> Result<(WebhookRow, SecretString)> {
        let id = WebhookId(Uuid::now_v7());
        let (secret, sealed) = self.webhook_secret(id)?;
        let row = sqlx::query_as!(
            WebhookRow,
            "INSERT INTO webhooks (tenant_id, webhook_id, url, events, description, include_input, sealed)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             RETURNING webhook_id, ord, url, events, description, include_input, created_at, disabled_at,
                 CASE WHEN disabled_at IS NOT NULL THEN coalesce(disabled_reason, 'gone') END AS disabled_reason, failing_since,
                 CASE WHEN before_until > now() THEN before_until END AS before_until",
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
        self.act(Action::WebhookCreate, id, row.facts());
        Ok((row, secret))
    }

    /// Webhooks, newest first, of places before `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn webhook_list(&mut self, before: Option<i64>, limit: i64) -> Result<Vec<WebhookRow>> {
        sqlx::query_as!(
            WebhookRow,
            "SELECT webhook_id, ord, url, events, description, include_input, created_at, disabled_at,
                 CASE WHEN disabled_at IS NOT NULL THEN coalesce(disabled_reason, 'gone') END AS disabled_reason, failing_since,
                 CASE WHEN before_until > now() THEN before_until END AS before_until FROM webhooks
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
            "SELECT webhook_id, ord, url, events, description, include_input, created_at, disabled_at,
                 CASE WHEN disabled_at IS NOT NULL THEN coalesce(disabled_reason, 'gone') END AS disabled_reason, failing_since,
                 CASE WHEN before_until > now() THEN before_until END AS before_until FROM webhooks
             WHERE tenant_id = $1 AND webhook_id = $2",
            self.tenant(),
            webhook.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Changes a webhook. At a new address, or switched on again, it begins anew: how the endpoint was counts no more.
    ///
    /// # Errors
    /// The database is away.
    pub async fn webhook_update(
        &mut self,
        webhook: WebhookId,
        change: &WebhookChange,
    ) -> Result<Option<WebhookRow>> {
        let anew = change.url.is_some() || change.disabled == Some(false);
        // What a commit queued beside the switching off is none that the endpoint waits for when it is on again.
        let ends = match change.disabled {
            None => false,
            Some(off) => self.webhook_is_off(webhook).await? || off,
        };
        self.webhook_lock(webhook).await?;
        let before = self.webhook_fetch(webhook).await?;
        let row = sqlx::query_as!(
            WebhookRow,
            "UPDATE webhooks SET url = coalesce($3, url), events = coalesce($4, events),
                 description = CASE WHEN $5 THEN $6 ELSE description END,
                 include_input = coalesce($7, include_input),
                 disabled_at = CASE WHEN $8 THEN coalesce(disabled_at, now()) WHEN NOT $8 THEN NULL ELSE disabled_at END,
                 disabled_reason = CASE WHEN $8 AND disabled_at IS NULL THEN 'requested' WHEN NOT $8 THEN NULL
                     ELSE disabled_reason END,
                 answers_since = CASE WHEN NOT $9 THEN answers_since END,
                 failing_since = CASE WHEN NOT $9 THEN failing_since END,
                 failed_at = CASE WHEN NOT $9 THEN failed_at END,
                 resting_until = CASE WHEN NOT $9 THEN resting_until END
             WHERE tenant_id = $1 AND webhook_id = $2
             RETURNING webhook_id, ord, url, events, description, include_input, created_at, disabled_at,
                 CASE WHEN disabled_at IS NOT NULL THEN coalesce(disabled_reason, 'gone') END AS disabled_reason, failing_since,
                 CASE WHEN before_until > now() THEN before_until END AS before_until",
            self.tenant(),
            webhook.0,
            change.url,
            change.events.as_deref(),
            change.description.is_some(),
            change.description.clone().flatten(),
            change.include_input,
            change.disabled,
            anew,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        if let Some(row) = row.as_ref().filter(|row| Some(*row) != before.as_ref()) {
            self.act(Action::WebhookUpdate, webhook, row.facts());
        }
        if ends && row.is_some() {
            self.deliveries_end(webhook).await?;
        }
        if anew {
            self.announce(Signal::Deliveries);
        }
        Ok(row)
    }

    /// Nobody else changes a webhook before this transaction ends.
    async fn webhook_lock(&mut self, webhook: WebhookId) -> Result<()> {
        sqlx::query!(
            "SELECT FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2 FOR NO KEY UPDATE",
            self.tenant(),
            webhook.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Whether a webhook is switched off; locks it.
    async fn webhook_is_off(&mut self, webhook: WebhookId) -> Result<bool> {
        let off = sqlx::query_scalar!(
            r#"SELECT disabled_at IS NOT NULL AS "off!" FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2
               FOR NO KEY UPDATE"#,
            self.tenant(),
            webhook.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(off.unwrap_or(false))
    }

    /// Makes a new signing secret, which is not shown again; the one before signs beside it for a day, an older one no more.
    /// `None`: there is no such webhook.
    ///
    /// # Errors
    /// The database is away.
    pub async fn webhook_rotate(&mut self, webhook: WebhookId) -> Result<Option<(WebhookRow, SecretString)>> {
        let (secret, sealed) = self.webhook_secret(webhook)?;
        let row = sqlx::query_as!(
            WebhookRow,
            "UPDATE webhooks SET sealed_before = sealed, before_until = now() + interval '24 hours', sealed = $3
             WHERE tenant_id = $1 AND webhook_id = $2
             RETURNING webhook_id, ord, url, events, description, include_input, created_at, disabled_at,
                 CASE WHEN disabled_at IS NOT NULL THEN coalesce(disabled_reason, 'gone') END AS disabled_reason, failing_since,
                 CASE WHEN before_until > now() THEN before_until END AS before_until",
            self.tenant(),
            webhook.0,
            sealed,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        if row.is_some() {
            self.act(Action::WebhookRotateSecret, webhook, json!({}));
        }
        Ok(row.map(|row| (row, secret)))
    }

    /// A new secret, and as it is stored.
    fn webhook_secret(&self, webhook: WebhookId) -> Result<(SecretString, Vec<u8>)> {
        let secret = new_signing_secret()?;
        let place = place(self.tenant_id, "webhook", &webhook.to_string(), None);
        let sealed =
            self.sealer.seal(&place, &secret).map_err(|error| StoreError::Broken(error.to_string()))?;
        Ok((secret, sealed))
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
        if done.rows_affected() > 0 {
            self.act(Action::WebhookDelete, webhook, json!({}));
        }
        Ok(done.rows_affected() > 0)
    }
}
