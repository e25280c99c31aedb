//! Webhooks and their deliveries.

use answerable_core::id::{DeliveryId, RunId, WebhookId};
use answerable_store::{DeliveryRow, NewWebhook, WebhookChange, WebhookRow};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Time;
use super::settings::present;
use crate::body::RequestBody;

/// What a delivery may be.
pub(crate) const STATUSES: [&str; 3] = ["pending", "delivered", "failed"];
/// Types of deliveries, and patterns of them. What webhooks may ask for stands in the document, which judges their bodies.
pub(crate) const TYPES: [&str; 15] = [
    "*",
    "run.*",
    "run.queued",
    "run.started",
    "run.waiting",
    "run.resumed",
    "run.finished",
    "run.failed",
    "run.cancelled",
    "approval.*",
    "approval.requested",
    "approval.reminder",
    "approval.expiring",
    "approval.decided",
    "webhook.test",
];

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
    #[serde(default)]
    disabled: Option<bool>,
}

impl RequestBody for WebhookUpdate {}

impl From<WebhookUpdate> for WebhookChange {
    fn from(body: WebhookUpdate) -> Self {
        Self {
            url: body.url,
            events: body.events,
            description: body.description,
            include_input: body.include_input,
            disabled: body.disabled,
        }
    }
}

/// A webhook as it is shown; its secret only in the answer that made the secret.
#[derive(Serialize)]
pub(crate) struct Webhook {
    id: WebhookId,
    url: String,
    events: Vec<String>,
    description: Option<String>,
    include_input: bool,
    created_at: Time,
    disabled_at: Option<Time>,
    disabled_reason: Option<String>,
    failing_since: Option<Time>,
    previous_secret_valid_until: Option<Time>,
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
            disabled_at: row.disabled_at.map(Time),
            disabled_reason: row.disabled_reason,
            failing_since: row.failing_since.map(Time),
            previous_secret_valid_until: row.before_until.map(Time),
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
    run_id: Option<RunId>,
    status: String,
    attempts: Vec<Value>,
    next_attempt_at: Option<Time>,
    created_at: Time,
}

impl From<DeliveryRow> for Delivery {
    fn from(row: DeliveryRow) -> Self {
        let attempts = row.attempts.as_array().map(Vec::as_slice).unwrap_or_default();
        // Older ones lack what was not kept then.
        let shown = |attempt: &Value| {
            json!({
                "at": attempt["at"], "status": attempt["status"], "error": attempt["error"],
                "duration_ms": attempt["duration_ms"], "response": attempt["response"],
            })
        };
        Self {
            id: DeliveryId(row.delivery_id),
            kind: row.kind,
            run_id: row.run_id.map(RunId),
            status: row.status,
            attempts: attempts.iter().map(shown).collect(),
            next_attempt_at: row.next_attempt_at.map(Time),
            created_at: Time(row.created_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TYPES;
    use crate::document;

    #[test]
    fn webhooks_may_ask_for_what_happens_to_runs_and_approvals() {
        let document: serde_json::Value = serde_yaml_ng::from_str(document::TEXT).expect("YAML");
        let names = |pointer: &str| -> Vec<String> {
            let list = document.pointer(pointer).and_then(|list| list.as_array());
            let list = list.unwrap_or_else(|| panic!("no list at {pointer}"));
            list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let mut known = names("/components/schemas/EventType/enum");
        known.retain(|name| name.starts_with("run.") || name.starts_with("approval."));
        let mut asked = names("/components/schemas/WebhookEvents/items/enum");
        assert_eq!([&asked[..], &["webhook.test".to_owned()]].concat(), TYPES);
        asked.retain(|name| !name.ends_with('*'));
        known.sort();
        asked.sort();
        assert_eq!(asked, known);
    }
}
