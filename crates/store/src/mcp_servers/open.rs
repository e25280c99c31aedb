//! A server as it is called: its headers opened, with secrets filled in.

use std::collections::BTreeMap;

use answerable_core::id::TenantId;
use answerable_core::json::sha256_hex;
use answerable_core::template::{Filling, Template};
use answerable_ports::{McpPlace, McpServers, McpTarget};
use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use uuid::Uuid;

use crate::error::store_error;
use crate::seal::place;
use crate::tx::TenantTx;
use crate::{Result, Store, StoreError};

/// A server's row, with what is sealed.
struct SealedRow {
    url: Option<String>,
    stdio: Option<String>,
    sealed: Option<Vec<u8>>,
    timeout_ms: i64,
    version: Uuid,
}

impl TenantTx {
    /// A server, ready to be called.
    async fn mcp_server_open(&mut self, name: &str) -> Result<Option<McpTarget>> {
        let row = sqlx::query_as!(
            SealedRow,
            "SELECT url, stdio, sealed, timeout_ms, version FROM mcp_servers WHERE tenant_id = $1 AND name = $2",
            self.tenant(),
            name,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let (place, seen) = match (row.url, row.stdio) {
            (Some(url), _) => {
                let headers = self.headers_open(name, row.sealed.as_deref()).await?;
                let seen = headers_hash(&headers);
                (McpPlace::Url { url, headers }, seen)
            }
            (None, command) => (McpPlace::Stdio { command: command.unwrap_or_default() }, String::new()),
        };
        Ok(Some(McpTarget {
            tenant_id: self.tenant_id,
            name: name.to_owned(),
            place,
            timeout_ms: u64::try_from(row.timeout_ms).unwrap_or(0),
            // A secret that was changed makes other settings, too.
            version: format!("{}-{seen}", row.version),
        }))
    }

    pub(super) fn headers_seal(
        &self,
        name: &str,
        headers: &BTreeMap<String, SecretString>,
    ) -> Result<Option<Vec<u8>>> {
        if headers.is_empty() {
            return Ok(None);
        }
        let plain: BTreeMap<&str, &str> =
            headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
        let text = serde_json::to_string(&plain).map_err(|error| StoreError::Broken(error.to_string()))?;
        let place = place(self.tenant_id, "mcp_server", name, None);
        let sealed = self.sealer.seal(&place, &text.into());
        sealed.map(Some).map_err(|error| StoreError::Broken(error.to_string()))
    }

    /// The headers, with secrets filled in. One that names a secret which is gone is left out: the server will say that it
    /// is missing.
    async fn headers_open(
        &mut self,
        name: &str,
        sealed: Option<&[u8]>,
    ) -> Result<BTreeMap<String, SecretString>> {
        let Some(sealed) = sealed else { return Ok(BTreeMap::new()) };
        let place = place(self.tenant_id, "mcp_server", name, None);
        let text = self.sealer.open(&place, sealed).map_err(|error| StoreError::Broken(error.to_string()))?;
        let stored: BTreeMap<String, String> = serde_json::from_str(text.expose_secret())
            .map_err(|_| StoreError::Broken("an MCP server's sealed part can't be read".into()))?;
        let templates: Vec<(String, Template)> = stored
            .into_iter()
            .filter_map(|(name, text)| Some((name, Template::parse(&text).ok()?)))
            .collect();
        let named: Vec<String> =
            templates.iter().flat_map(|(_, template)| template.secrets().map(str::to_owned)).collect();
        let secrets = if named.is_empty() { BTreeMap::new() } else { self.secrets_open(&named).await? };
        Ok(filled(templates, &secrets))
    }
}

fn filled(
    templates: Vec<(String, Template)>,
    secrets: &BTreeMap<String, SecretString>,
) -> BTreeMap<String, SecretString> {
    let plain: BTreeMap<String, String> =
        secrets.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect();
    let nothing = Value::Null;
    let with = Filling { input: &nothing, context: &nothing, secrets: &plain, idempotency_key: "" };
    let value = |template: &Template| template.fill(&with, str::to_owned).ok().map(SecretString::from);
    templates.iter().filter_map(|(name, template)| Some((name.clone(), value(template)?))).collect()
}

/// Tells settings apart without telling them.
fn headers_hash(headers: &BTreeMap<String, SecretString>) -> String {
    let mut all = String::new();
    for (name, value) in headers {
        all.push_str(&format!(
            "{}:{name}{}:{}",
            name.len(),
            value.expose_secret().len(),
            value.expose_secret()
        ));
    }
    let hash = sha256_hex(all.as_bytes());
    hash.chars().rev().take(16).collect()
}

#[async_trait]
impl McpServers for Store {
    async fn mcp_target(&self, tenant_id: TenantId, name: &str) -> Result<Option<McpTarget>> {
        self.tenant(tenant_id).await?.mcp_server_open(name).await
    }
}
