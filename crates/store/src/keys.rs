//! Keys of tenants: made and taken back by the operator, looked up at every request.

use std::collections::{BTreeMap, BTreeSet};

use answerable_core::Millis;
use answerable_core::audit::Action;
use answerable_core::id::{KeyId, TenantId};
use chrono::{DateTime, Utc};
use serde_json::json;
use uuid::Uuid;

use answerable_ports::Signal;

use crate::error::store_error;
use crate::tenants::tenant_hold;
use crate::tx::{SystemTx, TenantTx};
use crate::{Result, StoreError};

/// What a request's key says of who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFacts {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The key.
    pub key_id: KeyId,
    /// SHA-256 of its secret.
    pub secret_hash: Vec<u8>,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// It is good until then.
    pub expires_at: Option<DateTime<Utc>>,
    /// The tenant's quota of requests.
    pub max_requests_per_minute: Option<u64>,
}

/// A key without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Its id.
    pub key_id: Uuid,
    /// For people.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// It is good until then.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// A key to be stored.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Its id.
    pub key_id: KeyId,
    /// For people.
    pub name: String,
    /// SHA-256 of its secret.
    pub secret_hash: [u8; 32],
    /// Its scopes.
    pub scopes: Vec<String>,
    /// It is good until then.
    pub expires_at: Option<DateTime<Utc>>,
}

impl SystemTx {
    /// What is known of a key that was not taken back.
    ///
    /// # Errors
    /// The database is away.
    pub async fn key_find(&mut self, key: KeyId) -> Result<Option<KeyFacts>> {
        let row = sqlx::query!(
            r#"SELECT k.tenant_id, k.key_id, k.secret_hash, k.scopes, k.expires_at,
                   (t.quotas ->> 'max_requests_per_minute')::bigint AS max_requests
               FROM api_keys k JOIN tenants t USING (tenant_id)
               WHERE k.key_id = $1 AND k.revoked_at IS NULL"#,
            key.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(row.map(|row| KeyFacts {
            tenant_id: TenantId(row.tenant_id),
            key_id: KeyId(row.key_id),
            secret_hash: row.secret_hash,
            scopes: row.scopes,
            expires_at: row.expires_at,
            max_requests_per_minute: row.max_requests.and_then(|max| u64::try_from(max).ok()),
        }))
    }

    /// Notes that a key is in use.
    ///
    /// # Errors
    /// The database is away.
    pub async fn key_touch(&mut self, key: KeyId) -> Result<()> {
        sqlx::query!("UPDATE api_keys SET last_used_at = now() WHERE key_id = $1", key.0)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        Ok(())
    }

    /// Stores a tenant's key; `None`: there is no such tenant.
    ///
    /// # Errors
    /// The database is away.
    pub async fn key_create(&mut self, tenant: TenantId, key: &NewKey) -> Result<Option<KeyRow>> {
        if !tenant_hold(self.conn(), tenant.0).await? {
            return Ok(None);
        }
        let row = sqlx::query_as!(
            KeyRow,
            "INSERT INTO api_keys (tenant_id, key_id, name, secret_hash, scopes, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6)
             RETURNING key_id, name, scopes, expires_at, created_at",
            tenant.0,
            key.key_id.0,
            key.name,
            &key.secret_hash[..],
            &key.scopes,
            key.expires_at,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let detail = json!({"name": row.name, "scopes": row.scopes, "expires_at": row.expires_at});
        self.act_on(tenant, Action::KeyCreate, key.key_id, detail);
        Ok(Some(row))
    }

    /// A tenant's keys that were not taken back, newest first, of ids before `before`; `None`: there is no such tenant.
    ///
    /// # Errors
    /// The database is away.
    pub async fn key_list(
        &mut self,
        tenant: TenantId,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Option<Vec<KeyRow>>> {
        if !self.tenant_exists(tenant).await? {
            return Ok(None);
        }
        let rows = sqlx::query_as!(
            KeyRow,
            "SELECT key_id, name, scopes, expires_at, created_at FROM api_keys
             WHERE tenant_id = $1 AND revoked_at IS NULL AND ($2::uuid IS NULL OR key_id < $2)
             ORDER BY key_id DESC LIMIT $3",
            tenant.0,
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await;
        rows.map(Some).map_err(store_error)
    }

    /// Takes a key back; `false`: the tenant has no such key. Again is as once.
    ///
    /// # Errors
    /// The database is away.
    pub async fn key_revoke(
        &mut self,
        tenant: TenantId,
        key: KeyId,
    ) -> std::result::Result<bool, StoreError> {
        // The tenant's rules change with it (what was approved with the key doesn't count any more), and whoever deletes the
        // tenant locks that first.
        if !tenant_hold(self.conn(), tenant.0).await? {
            return Ok(false);
        }
        let revoked = sqlx::query_scalar!(
            "UPDATE api_keys SET revoked_at = now() WHERE tenant_id = $1 AND key_id = $2 AND revoked_at IS NULL RETURNING name",
            tenant.0,
            key.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(name) = revoked else { return self.key_exists(tenant, key).await };
        self.act_on(tenant, Action::KeyRevoke, key, json!({"name": name}));
        self.announce(Signal::Keys);
        Ok(true)
    }

    async fn key_exists(&mut self, tenant: TenantId, key: KeyId) -> Result<bool> {
        sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM api_keys WHERE tenant_id = $1 AND key_id = $2) AS "exists!""#,
            tenant.0,
            key.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
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
