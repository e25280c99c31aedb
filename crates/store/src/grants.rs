//! Grants: approvals that were remembered for later calls.

use answerable_core::id::GrantId;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

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
    /// `tool` or `exact_input`.
    pub matches: String,
    /// The one input that it covers.
    pub input_hash: Option<String>,
    /// Who.
    pub created_by: String,
    /// When.
    pub created_at: DateTime<Utc>,
    /// It holds until then.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was taken back.
    pub revoked_at: Option<DateTime<Utc>>,
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
}

impl TenantTx {
    pub(crate) async fn grant_create(&mut self, grant: &NewGrant<'_>) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "INSERT INTO grants (tenant_id, grant_id, tool_name, scope, scope_id, match, input_hash, created_by, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            tenant,
            Uuid::now_v7(),
            grant.tool_name,
            grant.scope.as_str(),
            grant.scope_id,
            if grant.input_hash.is_some() { "exact_input" } else { "tool" },
            grant.input_hash,
            grant.created_by,
            grant.expires_at,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Grants, newest first, before place `before`; those that were taken back only if asked for.
    ///
    /// # Errors
    /// The database is away.
    pub async fn grant_list(
        &mut self,
        revoked: bool,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<GrantRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            GrantRecord,
            "SELECT grant_id, ord, tool_name, scope, match AS matches, input_hash, created_by, created_at, expires_at, revoked_at
             FROM grants
             WHERE tenant_id = $1 AND ($2 OR revoked_at IS NULL) AND ($3::bigint IS NULL OR ord < $3)
             ORDER BY ord DESC LIMIT $4",
            tenant,
            revoked,
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Takes a grant back; again is the same. `false`: no such grant.
    ///
    /// # Errors
    /// The database is away.
    pub async fn grant_revoke(&mut self, grant_id: GrantId) -> Result<bool> {
        let tenant = self.tenant();
        let done = sqlx::query!(
            "UPDATE grants SET revoked_at = coalesce(revoked_at, now()) WHERE tenant_id = $1 AND grant_id = $2",
            tenant,
            grant_id.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(done.rows_affected() > 0)
    }
}
