//! A tenant's MCP servers. Header values are stored sealed and opened only to call the server.

mod open;

use std::collections::BTreeMap;

use answerable_core::audit::Action;
use answerable_core::json::input_hash;
use answerable_ports::McpPlace;
use chrono::{DateTime, Utc};
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::audit::Address;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A server without what is secret.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServerRow {
    /// The tenant's name for it.
    pub name: String,
    /// Its address; `None`: it is a command.
    pub url: Option<String>,
    /// The operator's name for a command.
    pub stdio: Option<String>,
    /// Names of its headers.
    pub header_names: Vec<String>,
    /// Time that a request may take which isn't a call.
    pub timeout_ms: i64,
    /// When it was first stored.
    pub created_at: DateTime<Utc>,
    /// When it was last stored.
    pub updated_at: DateTime<Utc>,
}

/// A server to be stored.
#[derive(Debug, Clone)]
pub struct McpServerPut {
    /// Its address, or the operator's name for a command.
    pub place: McpPlace,
    /// As in the row.
    pub timeout_ms: i64,
}

impl TenantTx {
    /// Servers, newest first, after the place of another; a place is the time that it was made, and its name.
    ///
    /// # Errors
    /// The database is away.
    pub async fn mcp_server_list(
        &mut self,
        after: Option<(DateTime<Utc>, String)>,
        limit: i64,
    ) -> Result<Vec<McpServerRow>> {
        let (at, name) = after.unzip();
        sqlx::query_as!(
            McpServerRow,
            "SELECT name, url, stdio, header_names, timeout_ms, created_at, updated_at FROM mcp_servers
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

    /// A server.
    ///
    /// # Errors
    /// The database is away.
    pub async fn mcp_server_fetch(&mut self, name: &str) -> Result<Option<McpServerRow>> {
        sqlx::query_as!(
            McpServerRow,
            "SELECT name, url, stdio, header_names, timeout_ms, created_at, updated_at FROM mcp_servers
             WHERE tenant_id = $1 AND name = $2",
            self.tenant(),
            name,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Those of `names` that no server has.
    ///
    /// # Errors
    /// The database is away.
    pub async fn mcp_servers_missing(&mut self, names: &[String]) -> Result<Vec<String>> {
        let rows = sqlx::query_scalar!(
            r#"SELECT wanted AS "wanted!" FROM unnest($2::text[]) AS wanted
               WHERE NOT EXISTS (SELECT FROM mcp_servers s WHERE s.tenant_id = $1 AND s.name = wanted)"#,
            self.tenant(),
            names,
        );
        rows.fetch_all(self.conn()).await.map_err(store_error)
    }

    /// Stores a server as a whole.
    ///
    /// # Errors
    /// The database is away.
    pub async fn mcp_server_put(&mut self, name: &str, put: &McpServerPut) -> Result<McpServerRow> {
        let none = BTreeMap::new();
        let (url, stdio, headers) = match &put.place {
            McpPlace::Url { url, headers } => (Some(url.as_str()), None, headers),
            McpPlace::Stdio { command } => (None, Some(command.as_str()), &none),
        };
        let names: Vec<String> = headers.keys().cloned().collect();
        let address = url.map(Address::of);
        let settings = json!({"timeout_ms": put.timeout_ms});
        let detail = json!({"url": address.as_ref().map(|address| &address.url),
            "url_hash": address.as_ref().map(|address| &address.hash), "stdio": stdio, "headers_given": headers.len(),
            "settings_hash": input_hash(&settings)});
        self.act(Action::McpServerPut, name, detail);
        sqlx::query_as!(
            McpServerRow,
            "INSERT INTO mcp_servers (tenant_id, name, url, stdio, sealed, header_names, timeout_ms, version)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (tenant_id, name) DO UPDATE SET url = excluded.url, stdio = excluded.stdio, sealed = excluded.sealed,
                 header_names = excluded.header_names, timeout_ms = excluded.timeout_ms, version = excluded.version,
                 updated_at = now()
             RETURNING name, url, stdio, header_names, timeout_ms, created_at, updated_at",
            self.tenant(),
            name,
            url,
            stdio,
            self.headers_seal(name, headers)?,
            &names,
            put.timeout_ms,
            Uuid::now_v7(),
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// Deletes a server; `false`: there is none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn mcp_server_delete(&mut self, name: &str) -> Result<bool> {
        let done =
            sqlx::query!("DELETE FROM mcp_servers WHERE tenant_id = $1 AND name = $2", self.tenant(), name)
                .execute(self.conn())
                .await
                .map_err(store_error)?;
        if done.rows_affected() > 0 {
            self.act(Action::McpServerDelete, name, json!({}));
        }
        Ok(done.rows_affected() > 0)
    }
}
