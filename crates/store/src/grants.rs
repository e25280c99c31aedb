//! Grants: approvals that were remembered for later calls.

mod behind;

use answerable_core::audit::Action;
use answerable_core::id::{AgentId, ApprovalId, GrantId, RunId, ThreadId};
use chrono::{DateTime, Utc};
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;
pub(crate) use behind::StoredGrant;

/// What a grant covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantScope {
    /// The run.
    Run,
    /// Runs of its thread.
    Thread,
    /// Runs of its agent.
    Agent,
    /// All of the tenant's runs.
    Tenant,
}

impl GrantScope {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Thread => "thread",
            Self::Agent => "agent",
            Self::Tenant => "tenant",
        }
    }
}

/// A grant (contract, "Shapes").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRecord {
    /// Its id.
    pub grant_id: Uuid,
    /// Order of making.
    pub ord: i64,
    /// Tool.
    pub tool_name: String,
    /// `run`, `thread`, `agent` or `tenant`.
    pub scope: String,
    /// The run, thread or agent; none for the tenant.
    pub scope_id: Option<Uuid>,
    /// `tool` or `exact_input`.
    pub matches: String,
    /// The one input that it covers.
    pub input_hash: Option<String>,
    /// Who.
    pub created_by: String,
    /// All who stand behind it: those who approved what it was made of, and asked that it be remembered.
    pub deciders: Vec<String>,
    /// It covers calls of no higher risk.
    pub max_risk: String,
    /// The approval that it was made of; none of grants from before that was kept.
    pub approval_id: Option<Uuid>,
    /// When.
    pub created_at: DateTime<Utc>,
    /// It holds until then.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was taken back.
    pub revoked_at: Option<DateTime<Utc>>,
    /// By whom.
    pub revoked_by: Option<String>,
}

impl GrantRecord {
    /// The id of the run, thread or agent that it covers, as it is shown; none for the tenant.
    pub fn covered(&self) -> Option<String> {
        covered(&self.scope, self.scope_id)
    }
}

fn covered(scope: &str, id: Option<Uuid>) -> Option<String> {
    id.map(|id| match scope {
        "run" => RunId(id).to_string(),
        "thread" => ThreadId(id).to_string(),
        _ => AgentId(id).to_string(),
    })
}

/// Which grants to list; all that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct GrantFilter {
    /// With this scope.
    pub scope: Option<GrantScope>,
    /// For this tool.
    pub tool_name: Option<String>,
    /// For this run alone.
    pub run_id: Option<RunId>,
    /// For this thread.
    pub thread_id: Option<ThreadId>,
    /// For this agent.
    pub agent_id: Option<AgentId>,
    /// Made by them.
    pub created_by: Option<String>,
    /// Those that were taken back, too.
    pub revoked: bool,
    /// Those whose time is over, too.
    pub expired: bool,
}

/// What became of taking a grant back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantRevoked {
    /// It was taken back.
    Now,
    /// It had been before.
    Before,
    /// There is no such grant.
    Unknown,
}

/// A grant that is to be made.
#[derive(Debug, Clone)]
pub(crate) struct NewGrant<'a> {
    pub(crate) tool_name: &'a str,
    pub(crate) scope: GrantScope,
    pub(crate) scope_id: Option<Uuid>,
    /// The one input that it covers; `None`: any.
    pub(crate) input_hash: Option<&'a str>,
    pub(crate) created_by: &'a str,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    /// All who approved what it is made of.
    pub(crate) deciders: Vec<String>,
    /// The key of each.
    pub(crate) decider_keys: Vec<Option<Uuid>>,
    /// The tool's risk then; it covers none that is higher.
    pub(crate) max_risk: &'a str,
    /// The approval that it was made of.
    pub(crate) approval_id: Uuid,
}

/// A tenant has no more of them in force: a run is judged by all that cover it. Those who make some at the same moment may
/// exceed it by a few.
pub(crate) const MOST_IN_FORCE: i64 = 10_000;

impl TenantTx {
    /// Whether the tenant has as many grants in force as it may.
    pub(crate) async fn grants_are_full(&mut self) -> Result<bool> {
        let tenant = self.tenant();
        let in_force = sqlx::query_scalar!(
            r#"SELECT count(*) AS "in_force!" FROM (
                 SELECT FROM grants
                 WHERE tenant_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
                 LIMIT $2) AS few"#,
            tenant,
            MOST_IN_FORCE,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(in_force >= MOST_IN_FORCE)
    }

    pub(crate) async fn grant_create(&mut self, grant: &NewGrant<'_>) -> Result<()> {
        let (tenant, id) = (self.tenant(), GrantId(Uuid::now_v7()));
        sqlx::query!(
            "INSERT INTO grants (tenant_id, grant_id, tool_name, scope, scope_id, match, input_hash, created_by, expires_at,
                 deciders, decider_keys, max_risk, approval_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            tenant,
            id.0,
            grant.tool_name,
            grant.scope.as_str(),
            grant.scope_id,
            if grant.input_hash.is_some() { "exact_input" } else { "tool" },
            grant.input_hash,
            grant.created_by,
            grant.expires_at,
            &grant.deciders,
            &grant.decider_keys as _,
            grant.max_risk,
            grant.approval_id,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        let detail = json!({"tool_name": grant.tool_name, "scope": grant.scope.as_str(),
            "scope_id": covered(grant.scope.as_str(), grant.scope_id), "input_hash": grant.input_hash, "expires_at": grant.expires_at, "deciders": grant.deciders,
            "max_risk": grant.max_risk, "approval_id": ApprovalId(grant.approval_id)});
        self.act(Action::GrantCreate, id, detail);
        Ok(())
    }

    /// Grants, newest first, before place `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn grant_list(
        &mut self,
        filter: &GrantFilter,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<GrantRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            GrantRecord,
            r#"SELECT grant_id, ord, tool_name, scope, scope_id, match AS matches, input_hash, created_by,
                 CASE WHEN deciders = '{}' THEN ARRAY[created_by] ELSE deciders END AS "deciders!", max_risk, approval_id,
                 created_at, expires_at, revoked_at, revoked_by
             FROM grants
             WHERE tenant_id = $1 AND ($2 OR revoked_at IS NULL) AND ($3 OR expires_at IS NULL OR expires_at > clock_timestamp())
                 AND ($4::text IS NULL OR scope = $4) AND ($5::text IS NULL OR tool_name = $5)
                 AND ($6::uuid IS NULL OR (scope = 'run' AND scope_id = $6))
                 AND ($7::uuid IS NULL OR (scope = 'thread' AND scope_id = $7))
                 AND ($8::uuid IS NULL OR (scope = 'agent' AND scope_id = $8))
                 AND ($9::text IS NULL OR created_by = $9) AND ($10::bigint IS NULL OR ord < $10)
             ORDER BY ord DESC LIMIT $11"#,
            tenant,
            filter.revoked,
            filter.expired,
            filter.scope.map(GrantScope::as_str),
            filter.tool_name,
            filter.run_id.map(|id| id.0),
            filter.thread_id.map(|id| id.0),
            filter.agent_id.map(|id| id.0),
            filter.created_by,
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// One grant.
    ///
    /// # Errors
    /// The database is away.
    pub async fn grant_fetch(&mut self, grant_id: GrantId) -> Result<Option<GrantRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            GrantRecord,
            r#"SELECT grant_id, ord, tool_name, scope, scope_id, match AS matches, input_hash, created_by,
                 CASE WHEN deciders = '{}' THEN ARRAY[created_by] ELSE deciders END AS "deciders!", max_risk, approval_id,
                 created_at, expires_at, revoked_at, revoked_by
             FROM grants WHERE tenant_id = $1 AND grant_id = $2"#,
            tenant,
            grant_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Takes a grant back. Once this is answered for, nothing begins any more that only the grant allowed.
    ///
    /// # Errors
    /// The database is away.
    pub async fn grant_revoke(&mut self, grant_id: GrantId, by: &str) -> Result<GrantRevoked> {
        // The tenant's rules change with it, and whoever deletes the tenant locks that first.
        self.tenant_hold().await?;
        let tenant = self.tenant();
        let done = sqlx::query!(
            "UPDATE grants SET revoked_at = clock_timestamp(), revoked_by = $3
             WHERE tenant_id = $1 AND grant_id = $2 AND revoked_at IS NULL",
            tenant,
            grant_id.0,
            by,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        if done.rows_affected() == 0 {
            let known = self.grant_fetch(grant_id).await?;
            return Ok(if known.is_some() { GrantRevoked::Before } else { GrantRevoked::Unknown });
        }
        self.act(Action::GrantRevoke, grant_id, json!({}));
        Ok(GrantRevoked::Now)
    }
}
