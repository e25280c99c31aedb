//! The secrets that sign a tenant's tool calls: one, or for a day after a rotation two.

use answerable_core::audit::Action;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde_json::json;

use crate::error::store_error;
use crate::seal::place;
use crate::tx::TenantTx;
use crate::{Result, StoreError};

/// A signing secret, opened.
#[derive(Debug, Clone)]
pub struct SigningSecret {
    /// `whsec_…`.
    pub secret: SecretString,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Calls are signed with it until then; `None`: it is the newest.
    pub valid_until: Option<DateTime<Utc>>,
}

/// A new secret as Standard Webhooks writes it: `whsec_` and base64 of 32 random bytes.
pub(crate) fn new_signing_secret() -> Result<SecretString> {
    let mut random = [0_u8; 32];
    getrandom::fill(&mut random).map_err(|error| StoreError::Broken(error.to_string()))?;
    Ok(format!("whsec_{}", STANDARD.encode(random)).into())
}

impl TenantTx {
    /// The secrets that calls are signed with, the newest first; the first is made when it is first asked for, so
    /// commit.
    ///
    /// # Errors
    /// The database is away, or one can't be opened.
    pub async fn signing_secrets(&mut self) -> Result<Vec<SigningSecret>> {
        let found = self.signing_secrets_read().await?;
        if !found.is_empty() {
            return Ok(found);
        }
        self.signing_secret_insert(1).await?;
        self.signing_secrets_read().await
    }

    /// Their texts alone.
    ///
    /// # Errors
    /// The database is away, or one can't be opened.
    pub async fn signing_secrets_open(&mut self) -> Result<Vec<SecretString>> {
        Ok(self.signing_secrets().await?.into_iter().map(|secret| secret.secret).collect())
    }

    /// Makes a new secret; the one before stays valid for a day.
    ///
    /// # Errors
    /// The database is away.
    pub async fn signing_secret_rotate(&mut self) -> Result<Vec<SigningSecret>> {
        // Rotations of one tenant come one after another, also where there is no secret yet.
        sqlx::query!("SELECT FROM tenants WHERE tenant_id = $1 FOR NO KEY UPDATE", self.tenant())
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        self.signing_secrets().await?;
        let newest = sqlx::query_scalar!(
            r#"UPDATE signing_secrets SET valid_until = now() + interval '24 hours'
               WHERE tenant_id = $1 AND valid_until IS NULL RETURNING version"#,
            self.tenant(),
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        sqlx::query!(
            "DELETE FROM signing_secrets WHERE tenant_id = $1 AND version < $2",
            self.tenant(),
            newest
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        self.signing_secret_insert(newest + 1).await?;
        self.act(Action::SigningSecretRotate, "tools", json!({"version": newest + 1}));
        self.signing_secrets_read().await
    }

    async fn signing_secret_insert(&mut self, version: i32) -> Result<()> {
        let place = place(self.tenant_id, "signing", "tools", Some(version));
        let sealed = self.sealer.seal(&place, &new_signing_secret()?);
        // Of two that make the first at once, one wins, and both then read the winner's.
        sqlx::query!(
            "INSERT INTO signing_secrets (tenant_id, version, sealed) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            self.tenant(),
            version,
            sealed.map_err(|error| StoreError::Broken(error.to_string()))?,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    async fn signing_secrets_read(&mut self) -> Result<Vec<SigningSecret>> {
        let rows = sqlx::query!(
            "SELECT version, sealed, created_at, valid_until FROM signing_secrets
             WHERE tenant_id = $1 AND (valid_until IS NULL OR valid_until > now()) ORDER BY version DESC",
            self.tenant(),
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let mut secrets = Vec::with_capacity(rows.len());
        for row in rows {
            let place = place(self.tenant_id, "signing", "tools", Some(row.version));
            let secret = self
                .sealer
                .open(&place, &row.sealed)
                .map_err(|error| StoreError::Broken(error.to_string()))?;
            secrets.push(SigningSecret { secret, created_at: row.created_at, valid_until: row.valid_until });
        }
        Ok(secrets)
    }
}
