//! A tenant's model providers. Keys and header values are stored sealed and opened only to ask the model.

use std::collections::BTreeMap;

use answerable_core::agent::Prices;
use answerable_core::audit::Action;
use answerable_core::json::input_hash;
use answerable_ports::ModelTarget;
use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::audit::Address;
use crate::error::store_error;
use crate::load::decode;
use crate::seal::place;
use crate::tx::TenantTx;
use crate::{Result, StoreError};

/// A provider without what is secret.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderRow {
    /// The tenant's name for it.
    pub name: String,
    /// `openai_chat` and the like.
    pub kind: String,
    /// Its address; empty for `scripted`.
    pub base_url: String,
    /// Whether a key is stored.
    pub has_api_key: bool,
    /// Names of its headers.
    pub header_names: Vec<String>,
    /// Prices by model.
    pub prices: Value,
    /// Switches of its wire.
    pub options: Value,
    /// Replies of kind `scripted`.
    pub script: Value,
    /// When it was first stored.
    pub created_at: DateTime<Utc>,
    /// When it was last stored.
    pub updated_at: DateTime<Utc>,
}

/// A provider to be stored.
#[derive(Debug, Clone)]
pub struct ProviderPut {
    /// `openai_chat` and the like.
    pub kind: String,
    /// Its address; empty for `scripted`.
    pub base_url: String,
    /// The key: `None` keeps the one that is stored, `Some(None)` removes it.
    pub api_key: Option<Option<SecretString>>,
    /// Headers, all of them.
    pub headers: BTreeMap<String, SecretString>,
    /// Prices by model.
    pub prices: Value,
    /// Switches of its wire.
    pub options: Value,
    /// Replies of kind `scripted`.
    pub script: Value,
}

/// What is sealed of a provider.
#[derive(Default, Serialize, Deserialize)]
struct Sealed {
    api_key: Option<String>,
    headers: BTreeMap<String, String>,
}

impl TenantTx {
    /// Providers, newest first, after the place of another; a place is the time that it was made, and its name.
    ///
    /// # Errors
    /// The database is away.
    pub async fn provider_list(
        &mut self,
        after: Option<(DateTime<Utc>, String)>,
        limit: i64,
    ) -> Result<Vec<ProviderRow>> {
        let (at, name) = after.unzip();
        sqlx::query_as!(
            ProviderRow,
            "SELECT name, kind, base_url, has_api_key, header_names, prices, options, script, created_at, updated_at
             FROM providers
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

    /// A provider.
    ///
    /// # Errors
    /// The database is away.
    pub async fn provider_fetch(&mut self, name: &str) -> Result<Option<ProviderRow>> {
        sqlx::query_as!(
            ProviderRow,
            "SELECT name, kind, base_url, has_api_key, header_names, prices, options, script, created_at, updated_at
             FROM providers WHERE tenant_id = $1 AND name = $2",
            self.tenant(),
            name,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Those of `names` that no provider has.
    ///
    /// # Errors
    /// The database is away.
    pub async fn providers_missing(&mut self, names: &[String]) -> Result<Vec<String>> {
        let rows = sqlx::query_scalar!(
            r#"SELECT wanted AS "wanted!" FROM unnest($2::text[]) AS wanted
               WHERE NOT EXISTS (SELECT FROM providers p WHERE p.tenant_id = $1 AND p.name = wanted)"#,
            self.tenant(),
            names,
        );
        rows.fetch_all(self.conn()).await.map_err(store_error)
    }

    /// Stores a provider as a whole.
    ///
    /// # Errors
    /// The database is away, or the key that is to be kept can't be opened.
    pub async fn provider_put(&mut self, name: &str, put: &ProviderPut) -> Result<ProviderRow> {
        let api_key = match &put.api_key {
            Some(key) => key.as_ref().map(|key| key.expose_secret().to_owned()),
            None => self.provider_sealed(name).await?.0.api_key,
        };
        let headers = put
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
            .collect();
        let sealed = self.provider_seal(name, &Sealed { api_key, headers })?;
        let names: Vec<String> = put.headers.keys().cloned().collect();
        let row = sqlx::query_as!(
            ProviderRow,
            "INSERT INTO providers (tenant_id, name, kind, base_url, sealed, has_api_key, header_names, prices, options, script)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (tenant_id, name) DO UPDATE SET kind = excluded.kind, base_url = excluded.base_url,
                 sealed = excluded.sealed, has_api_key = excluded.has_api_key, header_names = excluded.header_names,
                 prices = excluded.prices, options = excluded.options, script = excluded.script, updated_at = now()
             RETURNING name, kind, base_url, has_api_key, header_names, prices, options, script, created_at, updated_at",
            self.tenant(),
            name,
            put.kind,
            put.base_url,
            sealed.bytes,
            sealed.has_api_key,
            &names,
            put.prices,
            put.options,
            put.script,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let address = Address::of(&row.base_url);
        let settings = json!({"prices": row.prices, "options": row.options, "script": row.script});
        let detail = json!({"kind": row.kind, "base_url": address.url, "url_hash": address.hash,
            "headers_given": put.headers.len(), "has_api_key": row.has_api_key, "api_key_given": put.api_key.is_some(),
            "settings_hash": input_hash(&settings)});
        self.act(Action::ProviderPut, name, detail);
        Ok(row)
    }

    /// Deletes a provider; `false`: there is none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn provider_delete(&mut self, name: &str) -> Result<bool> {
        let done =
            sqlx::query!("DELETE FROM providers WHERE tenant_id = $1 AND name = $2", self.tenant(), name)
                .execute(self.conn())
                .await
                .map_err(store_error)?;
        if done.rows_affected() > 0 {
            self.act(Action::ProviderDelete, name, json!({}));
        }
        Ok(done.rows_affected() > 0)
    }

    /// A provider, ready to be asked.
    ///
    /// # Errors
    /// The database is away, or the provider can't be opened.
    pub async fn provider_open(&mut self, name: &str) -> Result<Option<ModelTarget>> {
        let Some(row) = self.provider_fetch(name).await? else { return Ok(None) };
        let (sealed, day_limited) = self.provider_sealed(name).await?;
        Ok(Some(ModelTarget {
            tenant_id: self.tenant(),
            name: row.name,
            kind: row.kind,
            base_url: row.base_url.trim_end_matches('/').to_owned(),
            api_key: sealed.api_key.map(SecretString::from),
            headers: sealed
                .headers
                .into_iter()
                .map(|(name, value)| (name, SecretString::from(value)))
                .collect(),
            prices: decode::<Prices>(row.prices, "price list")?,
            options: decode(row.options, "list of options")?,
            script: decode(row.script, "script")?,
            day_limited,
        }))
    }

    /// What is sealed of a provider, nothing where there is none; and whether its tenant has a quota of the day.
    async fn provider_sealed(&mut self, name: &str) -> Result<(Sealed, bool)> {
        let row = sqlx::query!(
            r#"SELECT sealed, (SELECT quotas ?| '{max_tokens_per_day,max_cost_microusd_per_day}' FROM tenants t
                   WHERE t.tenant_id = p.tenant_id) AS "day_limited!"
               FROM providers p WHERE tenant_id = $1 AND name = $2"#,
            self.tenant(),
            name,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok((Sealed::default(), false)) };
        let Some(bytes) = row.sealed else { return Ok((Sealed::default(), row.day_limited)) };
        let place = place(self.tenant_id, "provider", name, None);
        let text = self.sealer.open(&place, &bytes).map_err(|error| StoreError::Broken(error.to_string()))?;
        let sealed = serde_json::from_str(text.expose_secret())
            .map_err(|_| StoreError::Broken("a provider's sealed part can't be read".into()))?;
        Ok((sealed, row.day_limited))
    }

    fn provider_seal(&self, name: &str, sealed: &Sealed) -> Result<SealedBytes> {
        let has_api_key = sealed.api_key.is_some();
        if !has_api_key && sealed.headers.is_empty() {
            return Ok(SealedBytes { bytes: None, has_api_key });
        }
        let text = serde_json::to_string(sealed).map_err(|error| StoreError::Broken(error.to_string()))?;
        let place = place(self.tenant_id, "provider", name, None);
        let bytes =
            self.sealer.seal(&place, &text.into()).map_err(|error| StoreError::Broken(error.to_string()))?;
        Ok(SealedBytes { bytes: Some(bytes), has_api_key })
    }
}

struct SealedBytes {
    bytes: Option<Vec<u8>>,
    has_api_key: bool,
}
