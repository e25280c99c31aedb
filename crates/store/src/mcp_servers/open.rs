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
        let opened = self.headers_open(name, row.sealed.as_deref()).await?;
        let seen = headers_hash(&opened.headers);
        let place = match (row.url, row.stdio) {
            (Some(url), _) => McpPlace::Url { url, headers: opened.headers },
            (None, command) => McpPlace::Stdio { command: command.unwrap_or_default() },
        };
        Ok(Some(McpTarget {
            tenant_id: self.tenant_id,
            name: name.to_owned(),
            place,
            secrets: opened.secrets,
            missing: opened.missing,
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

    /// The headers, with secrets filled in.
    async fn headers_open(&mut self, name: &str, sealed: Option<&[u8]>) -> Result<Opened> {
        let Some(sealed) = sealed else { return Ok(Opened::default()) };
        let broken = || StoreError::Broken("an MCP server's sealed part can't be read".into());
        let place = place(self.tenant_id, "mcp_server", name, None);
        let text = self.sealer.open(&place, sealed).map_err(|error| StoreError::Broken(error.to_string()))?;
        let stored: BTreeMap<String, String> =
            serde_json::from_str(text.expose_secret()).map_err(|_| broken())?;
        let mut templates = BTreeMap::new();
        for (name, text) in stored {
            templates.insert(name, Template::parse(&text).map_err(|_| broken())?);
        }
        let named: Vec<String> =
            templates.values().flat_map(|template| template.secrets().map(str::to_owned)).collect();
        let secrets = if named.is_empty() { BTreeMap::new() } else { self.secrets_open(&named).await? };
        if let Some(missing) = named.into_iter().find(|name| !secrets.contains_key(name)) {
            return Ok(Opened { missing: Some(missing), ..Opened::default() });
        }
        let headers = filled(&templates, &secrets).ok_or_else(broken)?;
        Ok(Opened { headers, secrets: secrets.into_values().collect(), missing: None })
    }
}

/// Headers as they are sent, the secrets in them, and one that they name and that is gone: then there are none.
#[derive(Default)]
struct Opened {
    headers: BTreeMap<String, SecretString>,
    secrets: Vec<SecretString>,
    missing: Option<String>,
}

fn filled(
    templates: &BTreeMap<String, Template>,
    secrets: &BTreeMap<String, SecretString>,
) -> Option<BTreeMap<String, SecretString>> {
    let plain: BTreeMap<String, String> =
        secrets.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect();
    let nothing = Value::Null;
    let with = Filling { input: &nothing, context: &nothing, secrets: &plain, idempotency_key: "" };
    let value = |template: &Template| template.fill(&with, str::to_owned).ok().map(SecretString::from);
    templates.iter().map(|(name, template)| Some((name.clone(), value(template)?))).collect()
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
        self.working(tenant_id).await?.mcp_server_open(name).await
    }
}
