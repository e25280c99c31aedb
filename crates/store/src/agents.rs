//! Agents and their versions. What an agent is stands once for each content, whoever names it.

use answerable_core::agent::AgentSpec;
use answerable_core::audit::Action;
use answerable_core::id::AgentId;
use answerable_core::json;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::store_error;
use crate::tx::TenantTx;
use crate::{Result, StoreError};

/// An agent in one version.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRow {
    /// Its id.
    pub agent_id: Uuid,
    /// Its place in lists.
    pub ord: i64,
    /// The version.
    pub version: i32,
    /// Hash of what it is.
    pub spec_hash: String,
    /// What it is.
    pub spec: Value,
    /// When this version was stored.
    pub created_at: DateTime<Utc>,
    /// When the agent was archived.
    pub archived_at: Option<DateTime<Utc>>,
}

/// Versions of an agent.
const MAX_VERSIONS: i32 = 10_000;

/// What became of a new version.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentUpdated {
    /// It is stored.
    Stored(Box<AgentRow>),
    /// The agent is archived.
    Archived,
    /// It has as many versions as an agent may have.
    Full(i32),
    /// There is none.
    Unknown,
}

impl TenantTx {
    /// Stores what an agent is, unless it is stored already; gives its hash.
    ///
    /// # Errors
    /// The database is away.
    pub async fn agent_spec_put(&mut self, spec: &AgentSpec) -> Result<String> {
        let spec = serde_json::to_value(spec).map_err(|error| StoreError::Broken(error.to_string()))?;
        let hash = json::sha256_hex(json::canonical(&spec).as_bytes());
        sqlx::query!(
            "INSERT INTO agent_specs (tenant_id, spec_hash, spec) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            self.tenant(),
            hash,
            spec,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(hash)
    }

    /// Stores version 1 of an agent.
    ///
    /// # Errors
    /// The database is away.
    pub async fn agent_create(&mut self, spec: &AgentSpec) -> Result<AgentRow> {
        let (id, hash) = (Uuid::now_v7(), self.agent_spec_put(spec).await?);
        sqlx::query!(
            "INSERT INTO agents (tenant_id, agent_id, version) VALUES ($1, $2, 1)",
            self.tenant(),
            id
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        self.agent_version_insert(id, 1, &hash).await
    }

    /// Stores a new version of an agent.
    ///
    /// # Errors
    /// The database is away.
    pub async fn agent_update(&mut self, agent: AgentId, spec: &AgentSpec) -> Result<AgentUpdated> {
        let row = sqlx::query!(
            "SELECT version, archived_at FROM agents WHERE tenant_id = $1 AND agent_id = $2 FOR UPDATE",
            self.tenant(),
            agent.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let version = match row {
            None => return Ok(AgentUpdated::Unknown),
            Some(row) if row.archived_at.is_some() => return Ok(AgentUpdated::Archived),
            Some(row) if row.version >= MAX_VERSIONS => return Ok(AgentUpdated::Full(MAX_VERSIONS)),
            Some(row) => row.version + 1,
        };
        let hash = self.agent_spec_put(spec).await?;
        sqlx::query!(
            "UPDATE agents SET version = $3 WHERE tenant_id = $1 AND agent_id = $2",
            self.tenant(),
            agent.0,
            version,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(AgentUpdated::Stored(Box::new(self.agent_version_insert(agent.0, version, &hash).await?)))
    }

    async fn agent_version_insert(&mut self, agent: Uuid, version: i32, hash: &str) -> Result<AgentRow> {
        sqlx::query!(
            "INSERT INTO agent_versions (tenant_id, agent_id, version, spec_hash) VALUES ($1, $2, $3, $4)",
            self.tenant(),
            agent,
            version,
            hash,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        let row = self.agent_fetch(AgentId(agent), Some(version)).await?;
        let row =
            row.ok_or_else(|| StoreError::Broken("an agent is gone in the transaction that made it".into()))?;
        let action = if version == 1 { Action::AgentCreate } else { Action::AgentUpdate };
        let detail = json!({"name": row.spec.get("name"), "version": version, "spec_hash": hash});
        self.act(action, AgentId(agent), detail);
        Ok(row)
    }

    /// An agent in its newest version, or in the one asked for.
    ///
    /// # Errors
    /// The database is away.
    pub async fn agent_fetch(&mut self, agent: AgentId, version: Option<i32>) -> Result<Option<AgentRow>> {
        sqlx::query_as!(
            AgentRow,
            "SELECT a.agent_id, a.ord, v.version, v.spec_hash, s.spec, v.created_at, a.archived_at
             FROM agents a
             JOIN agent_versions v ON v.tenant_id = a.tenant_id AND v.agent_id = a.agent_id
                 AND v.version = coalesce($3, a.version)
             JOIN agent_specs s ON s.tenant_id = v.tenant_id AND s.spec_hash = v.spec_hash
             WHERE a.tenant_id = $1 AND a.agent_id = $2",
            self.tenant(),
            agent.0,
            version,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// The newest version of each agent that is not archived, newest agents first, of places before `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn agent_list(&mut self, before: Option<i64>, limit: i64) -> Result<Vec<AgentRow>> {
        sqlx::query_as!(
            AgentRow,
            "SELECT a.agent_id, a.ord, v.version, v.spec_hash, s.spec, v.created_at, a.archived_at
             FROM agents a
             JOIN agent_versions v ON v.tenant_id = a.tenant_id AND v.agent_id = a.agent_id AND v.version = a.version
             JOIN agent_specs s ON s.tenant_id = v.tenant_id AND s.spec_hash = v.spec_hash
             WHERE a.tenant_id = $1 AND a.archived_at IS NULL AND ($2::bigint IS NULL OR a.ord < $2)
             ORDER BY a.ord DESC LIMIT $3",
            self.tenant(),
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Versions of an agent, oldest first, over `after`; `None`: there is no such agent.
    ///
    /// # Errors
    /// The database is away.
    pub async fn agent_versions(
        &mut self,
        agent: AgentId,
        after: i32,
        limit: i64,
    ) -> Result<Option<Vec<AgentRow>>> {
        if self.agent_fetch(agent, None).await?.is_none() {
            return Ok(None);
        }
        let rows = sqlx::query_as!(
            AgentRow,
            "SELECT a.agent_id, a.ord, v.version, v.spec_hash, s.spec, v.created_at, a.archived_at
             FROM agents a
             JOIN agent_versions v ON v.tenant_id = a.tenant_id AND v.agent_id = a.agent_id
             JOIN agent_specs s ON s.tenant_id = v.tenant_id AND s.spec_hash = v.spec_hash
             WHERE a.tenant_id = $1 AND a.agent_id = $2 AND v.version > $3
             ORDER BY v.version LIMIT $4",
            self.tenant(),
            agent.0,
            after,
            limit,
        );
        rows.fetch_all(self.conn()).await.map(Some).map_err(store_error)
    }

    /// Archives an agent; `false`: there is none. Again is as once.
    ///
    /// # Errors
    /// The database is away.
    pub async fn agent_archive(&mut self, agent: AgentId) -> Result<bool> {
        let row = sqlx::query!(
            "SELECT version, archived_at FROM agents WHERE tenant_id = $1 AND agent_id = $2 FOR UPDATE",
            self.tenant(),
            agent.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(false) };
        if row.archived_at.is_some() {
            return Ok(true);
        }
        sqlx::query!(
            "UPDATE agents SET archived_at = now() WHERE tenant_id = $1 AND agent_id = $2",
            self.tenant(),
            agent.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        self.act(Action::AgentArchive, agent, json!({"version": row.version}));
        Ok(true)
    }
}
