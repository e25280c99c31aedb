//! Keys of tenants.

use answerable_core::id::KeyId;
use answerable_store::KeyRow;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Time;
use crate::body::RequestBody;
use crate::key_ring::prefix;

/// How long a secret that is replaced stays good, if nobody says otherwise.
const OVERLAP_MS: u32 = 24 * 60 * 60 * 1000;

/// A key to be made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyCreate {
    pub(crate) name: String,
    pub(crate) scopes: Vec<String>,
    #[serde(default)]
    pub(crate) expires_at: Option<DateTime<Utc>>,
}

impl RequestBody for KeyCreate {}

/// A key that gets another secret.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyRotate {
    #[serde(default = "overlap_ms")]
    pub(crate) overlap_ms: u32,
}

impl RequestBody for KeyRotate {}

fn overlap_ms() -> u32 {
    OVERLAP_MS
}

/// A key as it is shown; `secret` in the answer that made it alone.
#[derive(Debug, Serialize)]
pub(crate) struct Key {
    id: KeyId,
    object: &'static str,
    name: String,
    prefix: String,
    scopes: Vec<String>,
    expires_at: Option<Time>,
    created_at: Time,
    last_used_at: Option<Time>,
    rotated_at: Option<Time>,
    previous: Option<Previous>,
    revoked_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

/// The secret before.
#[derive(Debug, Serialize)]
struct Previous {
    valid_until: Time,
    last_used_at: Option<Time>,
}

impl Key {
    /// With its secret.
    pub(crate) fn with_secret(row: KeyRow, secret: &str) -> Self {
        Self { secret: Some(secret.to_owned()), ..Self::from(row) }
    }
}

impl From<KeyRow> for Key {
    fn from(row: KeyRow) -> Self {
        let used_at = row.previous_used_at.map(Time);
        let previous = |until| Previous { valid_until: Time(until), last_used_at: used_at };
        Self {
            id: KeyId(row.key_id),
            object: "key",
            name: row.name,
            prefix: prefix(KeyId(row.key_id)),
            scopes: row.scopes,
            expires_at: row.expires_at.map(Time),
            created_at: Time(row.created_at),
            last_used_at: row.last_used_at.map(Time),
            rotated_at: row.rotated_at.map(Time),
            previous: row.previous_until.map(previous),
            revoked_at: row.revoked_at.map(Time),
            secret: None,
        }
    }
}
