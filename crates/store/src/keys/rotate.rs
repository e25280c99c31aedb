//! Another secret for a key that stays the same.

use answerable_core::audit::Action;
use answerable_core::id::{KeyId, TenantId};
use answerable_ports::Signal;
use serde_json::json;

use super::KeyRow;
use crate::Result;
use crate::error::store_error;
use crate::tenants::tenant_hold;
use crate::tx::SystemTx;

/// What came of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRotated {
    /// It has the new secret.
    Done(KeyRow),
    /// The tenant has no such key.
    Unknown,
    /// It was taken back or has expired: another secret would make nothing of it.
    Over,
}

impl SystemTx {
    /// Gives a key another secret. The one it has stays good for `overlap_ms`; the one before that is good no longer.
    ///
    /// # Errors
    /// The database is away.
    pub async fn key_rotate(
        &mut self,
        tenant: TenantId,
        key: KeyId,
        secret_hash: &[u8; 32],
        overlap_ms: u32,
    ) -> Result<KeyRotated> {
        if !tenant_hold(self.conn(), tenant.0).await? {
            return Ok(KeyRotated::Unknown);
        }
        let row = sqlx::query_as!(
            KeyRow,
            "UPDATE api_keys SET secret_hash = $3, rotated_at = clock_timestamp(),
                 previous_hash = CASE WHEN $4::bigint > 0 THEN secret_hash END,
                 previous_until = CASE WHEN $4::bigint > 0 THEN clock_timestamp() + $4::bigint * interval '1 millisecond' END,
                 previous_used_at = CASE WHEN $4::bigint > 0 THEN last_used_at END
             WHERE tenant_id = $1 AND key_id = $2 AND revoked_at IS NULL
                 AND (expires_at IS NULL OR expires_at > clock_timestamp())
             RETURNING key_id, name, scopes, expires_at, created_at, last_used_at, revoked_at, rotated_at, previous_until,
                 previous_used_at",
            tenant.0,
            key.0,
            &secret_hash[..],
            i64::from(overlap_ms),
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else {
            let is_there = self.key_fetch(tenant, key).await?.is_some();
            return Ok(if is_there { KeyRotated::Over } else { KeyRotated::Unknown });
        };
        let detail = json!({"name": row.name, "previous_valid_until": row.previous_until});
        self.act_on(tenant, Action::KeyRotate, key, detail);
        self.announce(Signal::Keys);
        Ok(KeyRotated::Done(row))
    }
}
