//! What is known of keys: looked up at every request, and where it is weighed what was said with them.

use std::collections::{BTreeMap, BTreeSet};

use answerable_core::Millis;
use answerable_core::id::{KeyId, TenantId};
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tenants::TenantFacts;
use crate::tx::{SystemTx, TenantTx};

/// What a request's key says of who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFacts {
    /// The tenant.
    pub tenant: TenantFacts,
    /// The key.
    pub key_id: KeyId,
    /// SHA-256 of its secret.
    pub secret_hash: Vec<u8>,
    /// The secret before, of a key that was rotated.
    pub previous: Option<PreviousSecret>,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// It is good until then.
    pub expires_at: Option<DateTime<Utc>>,
}

/// The secret that a key had before it was rotated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousSecret {
    /// SHA-256 of it.
    pub hash: Vec<u8>,
    /// It is good until then.
    pub valid_until: DateTime<Utc>,
}

impl SystemTx {
    /// What is known of a key that was not taken back.
    ///
    /// # Errors
    /// The database is away.
    pub async fn key_find(&mut self, key: KeyId) -> Result<Option<KeyFacts>> {
        let row = sqlx::query!(
            r#"SELECT k.tenant_id, k.key_id, k.secret_hash, k.previous_hash, k.previous_until, k.scopes, k.expires_at,
                   t.suspended_at IS NOT NULL AS "suspended!",
                   (t.quotas ->> 'max_requests_per_minute')::bigint AS max_requests
               FROM api_keys k JOIN tenants t USING (tenant_id)
               WHERE k.key_id = $1 AND k.revoked_at IS NULL"#,
            key.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(row.map(|row| KeyFacts {
            tenant: TenantFacts {
                tenant_id: TenantId(row.tenant_id),
                suspended: row.suspended,
                max_requests_per_minute: row.max_requests.and_then(|max| u64::try_from(max).ok()),
            },
            key_id: KeyId(row.key_id),
            secret_hash: row.secret_hash,
            previous: row
                .previous_hash
                .zip(row.previous_until)
                .map(|(hash, valid_until)| PreviousSecret { hash, valid_until }),
            scopes: row.scopes,
            expires_at: row.expires_at,
        }))
    }

    /// Notes that a key is in use, and with which of its secrets.
    ///
    /// # Errors
    /// The database is away.
    pub async fn key_touch(&mut self, key: KeyId, secret_hash: &[u8; 32]) -> Result<()> {
        sqlx::query!(
            "UPDATE api_keys SET last_used_at = now(),
                 previous_used_at = CASE WHEN previous_hash = $2 THEN now() ELSE previous_used_at END
             WHERE key_id = $1",
            key.0,
            &secret_hash[..],
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}

impl TenantTx {
    /// Those of the keys that are the tenant's own and good at this moment.
    pub(crate) async fn keys_valid(&mut self, keys: impl Iterator<Item = KeyId>) -> Result<BTreeSet<KeyId>> {
        Ok(self.keys_valid_until(keys).await?.into_keys().collect())
    }

    /// The same, and when they expire.
    pub(crate) async fn keys_valid_until(
        &mut self,
        keys: impl Iterator<Item = KeyId>,
    ) -> Result<BTreeMap<KeyId, Option<Millis>>> {
        let keys: Vec<Uuid> = keys.map(|key| key.0).collect();
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        let tenant = self.tenant();
        let valid = sqlx::query!(
            "SELECT key_id, expires_at FROM api_keys
             WHERE tenant_id = $1 AND key_id = ANY($2) AND revoked_at IS NULL
               AND (expires_at IS NULL OR expires_at > clock_timestamp())",
            tenant,
            &keys,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let until = |at: DateTime<Utc>| at.timestamp_millis();
        Ok(valid.into_iter().map(|row| (KeyId(row.key_id), row.expires_at.map(until))).collect())
    }
}
