//! A tenant's secrets, for the headers of its tools. Values go in and are never shown again.

use std::collections::BTreeMap;

use answerable_core::audit::Action;
use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde_json::json;

use crate::error::store_error;
use crate::seal::place;
use crate::tx::TenantTx;
use crate::{Result, StoreError};

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRow {
    /// Its name.
    pub name: String,
    /// When it was first stored.
    pub created_at: DateTime<Utc>,
    /// When it was last stored.
    pub updated_at: DateTime<Utc>,
}

impl TenantTx {
    /// Secrets, newest first, after the place of another; a place is the time that it was made, and its name.
    ///
    /// # Errors
    /// The database is away.
    pub async fn secret_list(
        &mut self,
        after: Option<(DateTime<Utc>, String)>,
        limit: i64,
    ) -> Result<Vec<SecretRow>> {
        let (at, name) = after.unzip();
        sqlx::query_as!(
            SecretRow,
            "SELECT name, created_at, updated_at FROM secrets
             WHERE tenant_id = $1 AND ($2::timestamptz IS NULL OR (created_at, name) < ($2, $3))
             ORDER BY created_at DESC, name DESC LIMIT $4",
            self.tenant(),
            at,
            name,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Whether a secret is there.
    ///
    /// # Errors
    /// The database is away.
    pub async fn secret_fetch(&mut self, name: &str) -> Result<Option<SecretRow>> {
        sqlx::query_as!(
            SecretRow,
            "SELECT name, created_at, updated_at FROM secrets WHERE tenant_id = $1 AND name = $2",
            self.tenant(),
            name,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Stores a secret's value.
    ///
    /// # Errors
    /// The database is away.
    pub async fn secret_put(&mut self, name: &str, value: &SecretString) -> Result<SecretRow> {
        // The version is part of what the value is sealed for, so it is taken first, and with it the row.
        let version = sqlx::query_scalar!(
            "INSERT INTO secrets (tenant_id, name, version, sealed) VALUES ($1, $2, 1, ''::bytea)
             ON CONFLICT (tenant_id, name) DO UPDATE SET version = secrets.version + 1, updated_at = now()
             RETURNING version",
            self.tenant(),
            name,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        self.act(Action::SecretPut, name, json!({"version": version}));
        let place = place(self.tenant_id, "secret", name, Some(version));
        let sealed =
            self.sealer.seal(&place, value).map_err(|error| StoreError::Broken(error.to_string()))?;
        sqlx::query_as!(
            SecretRow,
            "UPDATE secrets SET sealed = $3 WHERE tenant_id = $1 AND name = $2 RETURNING name, created_at, updated_at",
            self.tenant(),
            name,
            sealed,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// Deletes a secret; `false`: there is none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn secret_delete(&mut self, name: &str) -> Result<bool> {
        let done =
            sqlx::query!("DELETE FROM secrets WHERE tenant_id = $1 AND name = $2", self.tenant(), name)
                .execute(self.conn())
                .await
                .map_err(store_error)?;
        if done.rows_affected() > 0 {
            self.act(Action::SecretDelete, name, json!({}));
        }
        Ok(done.rows_affected() > 0)
    }

    /// Values of those of the named secrets that exist.
    ///
    /// # Errors
    /// The database is away, or one can't be opened.
    pub async fn secrets_open(&mut self, names: &[String]) -> Result<BTreeMap<String, SecretString>> {
        let rows = sqlx::query!(
            "SELECT name, version, sealed FROM secrets WHERE tenant_id = $1 AND name = ANY($2)",
            self.tenant(),
            names,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let mut values = BTreeMap::new();
        for row in rows {
            let place = place(self.tenant_id, "secret", &row.name, Some(row.version));
            let value = self
                .sealer
                .open(&place, &row.sealed)
                .map_err(|error| StoreError::Broken(error.to_string()))?;
            values.insert(row.name, value);
        }
        Ok(values)
    }
}
