//! The tenant's own policy, judged beside each agent's.

use answerable_core::permission::Policy;
use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::Result;
use crate::error::store_error;
use crate::load::decode;
use crate::tx::TenantTx;

/// A stored policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyRow {
    /// Rises with each change.
    pub version: i32,
    /// The policy as it was written.
    pub policy: Value,
    /// When it was last stored.
    pub updated_at: DateTime<Utc>,
}

impl TenantTx {
    /// The policy as it was written, if there is one.
    ///
    /// # Errors
    /// The database is away.
    pub async fn policy_row(&mut self) -> Result<Option<PolicyRow>> {
        sqlx::query_as!(
            PolicyRow,
            "SELECT version, policy, updated_at FROM tenant_policies WHERE tenant_id = $1",
            self.tenant(),
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// The policy with its version, for judging calls.
    ///
    /// # Errors
    /// The database is away, or the policy makes no sense.
    pub async fn policy_fetch(&mut self) -> Result<Option<(i32, Policy)>> {
        let row = self.policy_row().await?;
        row.map(|row| Ok((row.version, decode::<Policy>(row.policy, "policy")?))).transpose()
    }

    /// Replaces the policy.
    ///
    /// # Errors
    /// The database is away.
    pub async fn policy_put(&mut self, policy: &Value) -> Result<PolicyRow> {
        sqlx::query_as!(
            PolicyRow,
            "INSERT INTO tenant_policies (tenant_id, version, policy) VALUES ($1, 1, $2)
             ON CONFLICT (tenant_id) DO UPDATE SET version = tenant_policies.version + 1, policy = excluded.policy,
                 updated_at = now()
             RETURNING version, policy, updated_at",
            self.tenant(),
            policy,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }
}
