//! Keys of tenants: made, rotated and taken back by the operator, looked up at every request.

mod lookup;
mod rotate;

use answerable_core::audit::Action;
use answerable_core::id::{KeyId, TenantId};
use chrono::{DateTime, Utc};
use serde_json::json;
use uuid::Uuid;

use answerable_ports::Signal;

use crate::error::store_error;
use crate::tenants::tenant_hold;
use crate::tx::SystemTx;
use crate::{Result, StoreError};
pub use lookup::{KeyFacts, PreviousSecret};
pub use rotate::KeyRotated;

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
    /// When it was used last, to about a minute.
    pub last_used_at: Option<DateTime<Utc>>,
    /// When it was taken back.
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it got the secret that it has.
    pub rotated_at: Option<DateTime<Utc>>,
    /// Until when the secret before is good.
    pub previous_until: Option<DateTime<Utc>>,
    /// When that one was used last, to about a minute.
    pub previous_used_at: Option<DateTime<Utc>>,
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
             RETURNING key_id, name, scopes, expires_at, created_at, last_used_at, revoked_at, rotated_at, previous_until,
                 previous_used_at",
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

    /// A tenant's keys, newest first, of ids before `before`, without those that were taken back unless they are wanted;
    /// `None`: there is no such tenant.
    ///
    /// # Errors
    /// The database is away.
    pub async fn key_list(
        &mut self,
        tenant: TenantId,
        with_revoked: bool,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Option<Vec<KeyRow>>> {
        if !self.tenant_exists(tenant).await? {
            return Ok(None);
        }
        let rows = sqlx::query_as!(
            KeyRow,
            "SELECT key_id, name, scopes, expires_at, created_at, last_used_at, revoked_at, rotated_at, previous_until,
                 previous_used_at FROM api_keys
             WHERE tenant_id = $1 AND ($4 OR revoked_at IS NULL) AND ($2::uuid IS NULL OR key_id < $2)
             ORDER BY key_id DESC LIMIT $3",
            tenant.0,
            before,
            limit,
            with_revoked,
        )
        .fetch_all(self.conn())
        .await;
        rows.map(Some).map_err(store_error)
    }

    /// A key of the tenant's, also one that was taken back.
    ///
    /// # Errors
    /// The database is away.
    pub async fn key_fetch(&mut self, tenant: TenantId, key: KeyId) -> Result<Option<KeyRow>> {
        sqlx::query_as!(
            KeyRow,
            "SELECT key_id, name, scopes, expires_at, created_at, last_used_at, revoked_at, rotated_at, previous_until,
                 previous_used_at FROM api_keys
             WHERE tenant_id = $1 AND key_id = $2",
            tenant.0,
            key.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
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
        let Some(name) = revoked else { return Ok(self.key_fetch(tenant, key).await?.is_some()) };
        self.act_on(tenant, Action::KeyRevoke, key, json!({"name": name}));
        self.announce(Signal::Keys);
        Ok(true)
    }
}
