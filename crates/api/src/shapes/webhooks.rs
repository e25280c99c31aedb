//! Webhooks and their deliveries.

use answerable_core::id::{DeliveryId, WebhookId};
use answerable_store::{DeliveryRow, NewWebhook, WebhookChange, WebhookRow};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Time;
use super::settings::present;
use crate::body::RequestBody;

/// A webhook to be made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookCreate {
    pub(crate) url: String,
    events: Vec<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    include_input: bool,
}

impl RequestBody for WebhookCreate {}

impl From<WebhookCreate> for NewWebhook {
    fn from(body: WebhookCreate) -> Self {
        Self {
            url: body.url,
            events: body.events,
            description: body.description,
            include_input: body.include_input,
        }
    }
}

/// A change of a webhook.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookUpdate {
    #[serde(default)]
    pub(crate) url: Option<String>,
    #[serde(default)]
    events: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    description: Option<Option<String>>,
    #[serde(default)]
    include_input: Option<bool>,
}

impl RequestBody for WebhookUpdate {}

impl From<WebhookUpdate> for WebhookChange {
    fn from(body: WebhookUpdate) -> Self {
        Self {
            url: body.url,
            events: body.events,
            description: body.description,
            include_input: body.include_input,
        }
    }
}

/// A webhook as it is shown; its secret in the answer that made it alone.
#[derive(Serialize)]
pub(crate) struct Webhook {
    id: WebhookId,
    url: String,
    events: Vec<String>,
    description: Option<String>,
    include_input: bool,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    signing_secret: Option<String>,
}

impl Webhook {
    /// With its secret.
    pub(crate) fn with_secret(row: WebhookRow, secret: &SecretString) -> Self {
        Self { signing_secret: Some(secret.expose_secret().to_owned()), ..Self::from(row) }
    }
}

impl From<WebhookRow> for Webhook {
    fn from(row: WebhookRow) -> Self {
        Self {
            id: WebhookId(row.webhook_id),
            url: row.url,
            events: row.events,
            description: row.description,
            include_input: row.include_input,
            created_at: Time(row.created_at),
            signing_secret: None,
        }
    }
}

/// A delivery as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Delivery {
    id: DeliveryId,
    #[serde(rename = "type")]
    kind: String,
    status: String,
    attempts: Value,
    next_attempt_at: Option<Time>,
    created_at: Time,
}

impl From<DeliveryRow> for Delivery {
    fn from(row: DeliveryRow) -> Self {
        Self {
            id: DeliveryId(row.delivery_id),
            kind: row.kind,
            status: row.status,
            attempts: row.attempts,
            next_attempt_at: row.next_attempt_at.map(Time),
            created_at: Time(row.created_at),
        }
    }
}
