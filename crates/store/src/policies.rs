//! The tenant's own policy, judged beside each agent's, and all that it has had.

use answerable_core::audit::Action;
use answerable_core::field_error;
use answerable_core::json::input_hash;
use answerable_core::permission::Policy;
use answerable_ports::StoreError;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::Result;
use crate::error::{as_json, store_error};
use crate::tx::TenantTx;

/// A stored policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyRow {
    /// Rises with each change.
    pub version: i32,
    /// The policy as it was written.
    pub policy: Value,
    /// When it was stored.
    pub updated_at: DateTime<Utc>,
    /// Who stored it; none of policies from before that was kept.
    pub updated_by: Option<String>,
}

/// One of the policies that a tenant has had, without what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyVersionRow {
    /// Its number.
    pub version: i32,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// Who stored it; none of policies from before that was kept.
    pub created_by: Option<String>,
}

impl TenantTx {
    /// The policy as it was written, if there is one.
    ///
    /// # Errors
    /// The database is away.
    pub async fn policy_row(&mut self) -> Result<Option<PolicyRow>> {
        sqlx::query_as!(
            PolicyRow,
            "SELECT p.version, p.policy, p.updated_at, v.created_by AS updated_by FROM tenant_policies p
             LEFT JOIN tenant_policy_versions v ON v.tenant_id = p.tenant_id AND v.version = p.version
             WHERE p.tenant_id = $1",
            self.tenant(),
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// The policy as it was in a version, if there was that one.
    ///
    /// # Errors
    /// The database is away.
    pub async fn policy_version(&mut self, version: i32) -> Result<Option<PolicyRow>> {
        sqlx::query_as!(
            PolicyRow,
            "SELECT version, policy, created_at AS updated_at, created_by AS updated_by FROM tenant_policy_versions
             WHERE tenant_id = $1 AND version = $2",
            self.tenant(),
            version,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Versions, newest first, below `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn policy_versions(
        &mut self,
        before: Option<i32>,
        limit: i64,
    ) -> Result<Vec<PolicyVersionRow>> {
        sqlx::query_as!(
            PolicyVersionRow,
            "SELECT version, created_at, created_by FROM tenant_policy_versions
             WHERE tenant_id = $1 AND ($2::integer IS NULL OR version < $2) ORDER BY version DESC LIMIT $3",
            self.tenant(),
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// The policy with its version, for judging calls.
    ///
    /// # Errors
    /// The database is away, or the policy makes no sense.
    pub async fn policy_fetch(&mut self) -> Result<Option<(i32, Policy)>> {
        let row = self.policy_row().await?;
        row.map(|row| Ok((row.version, read_policy(row.policy)?))).transpose()
    }

    /// Replaces the policy, in the name of `by`; the old one stays among the versions.
    ///
    /// # Errors
    /// The database is away.
    pub async fn policy_put(&mut self, policy: &Value, by: &str) -> Result<PolicyRow> {
        // The tenant's rules change with it, and whoever deletes the tenant locks that first.
        self.tenant_hold().await?;
        let row = sqlx::query_as!(
            PolicyRow,
            "WITH put AS (
                 INSERT INTO tenant_policies (tenant_id, version, policy) VALUES ($1, 1, $2::text::json)
                 ON CONFLICT (tenant_id) DO UPDATE SET version = tenant_policies.version + 1, policy = excluded.policy,
                     updated_at = now()
                 RETURNING tenant_id, version, policy, updated_at
             ), kept AS (
                 INSERT INTO tenant_policy_versions (tenant_id, version, policy, created_at, created_by)
                 SELECT tenant_id, version, policy, updated_at, $3 FROM put
                 RETURNING created_by
             )
             SELECT version, policy, updated_at, created_by AS updated_by FROM put, kept",
            self.tenant(),
            as_json(policy)?,
            by,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let detail = json!({"version": row.version, "version_before": (row.version > 1).then(|| row.version - 1),
            "policy_hash": input_hash(policy)});
        self.act(Action::PolicyPut, self.tenant_id(), detail);
        Ok(row)
    }
}

/// Reads a stored policy as strictly as a new one: what isn't understood in every part judges nothing.
pub(crate) fn read_policy(policy: Value) -> Result<Policy> {
    field_error::read(policy).map_err(|fault| {
        StoreError::Broken(format!("a stored policy can't be read: {} at {}", fault.message, fault.pointer))
    })
}
