//! How much a tenant may have: as much as its quota says, and never more than the service bears. The database counts by itself
//! (`0031_counts.sql`); here it is asked whether there is room.

use std::collections::BTreeMap;

use answerable_core::id::TenantId;
use serde_json::Value;

use crate::Result;
use crate::conn::Conn;
use crate::error::store_error;
use crate::tx::{SystemTx, TenantTx};

/// Transactions of one tenant that can be under way at once: all connections that it may have on some twenty servers.
const UNDER_WAY: i64 = 500;
/// Bytes of the largest body. What brings more is rare, and alone at its end.
const MOST_BYTES: i64 = 20 << 20;
const TIB: i64 = 1 << 40;

/// What a tenant has a limited number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Agents that are not archived.
    Agents,
    /// Threads that are not deleted.
    Threads,
    /// Webhooks.
    Webhooks,
    /// Secrets.
    Secrets,
    /// Schedules.
    Schedules,
    /// Model providers.
    Providers,
    /// MCP servers.
    McpServers,
    /// API keys that are not taken back.
    Keys,
    /// Bytes of artifacts.
    ArtifactBytes,
    /// Bytes of files in workspaces.
    WorkspaceBytes,
}

impl Counted {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Agents,
        Self::Threads,
        Self::Webhooks,
        Self::Secrets,
        Self::Schedules,
        Self::Providers,
        Self::McpServers,
        Self::Keys,
        Self::ArtifactBytes,
        Self::WorkspaceBytes,
    ];

    /// As the database counts it.
    fn kind(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Threads => "threads",
            Self::Webhooks => "webhooks",
            Self::Secrets => "secrets",
            Self::Schedules => "schedules",
            Self::Providers => "providers",
            Self::McpServers => "mcp_servers",
            Self::Keys => "keys",
            Self::ArtifactBytes => "artifact_bytes",
            Self::WorkspaceBytes => "workspace_bytes",
        }
    }

    /// The quota that limits it; `None`: only the service does.
    pub fn quota(self) -> Option<&'static str> {
        match self {
            Self::Agents => Some("max_agents"),
            Self::Threads => Some("max_threads"),
            Self::Webhooks => Some("max_webhooks"),
            Self::Secrets => Some("max_secrets"),
            Self::Schedules => Some("max_schedules"),
            Self::ArtifactBytes => Some("max_artifact_bytes"),
            Self::WorkspaceBytes => Some("max_workspace_bytes"),
            Self::Providers | Self::McpServers | Self::Keys => None,
        }
    }

    /// What the service bears of one tenant.
    pub fn ceiling(self) -> i64 {
        match self {
            Self::Agents => 100_000,
            Self::Threads => 100_000_000,
            // Each event of each run is looked at for each of them.
            Self::Webhooks => 500,
            Self::Secrets | Self::Schedules | Self::Keys => 10_000,
            Self::Providers | Self::McpServers => 1_000,
            Self::ArtifactBytes | Self::WorkspaceBytes => 10 * TIB,
        }
    }

    /// For people.
    fn words(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Threads => "threads",
            Self::Webhooks => "webhooks",
            Self::Secrets => "secrets",
            Self::Schedules => "schedules",
            Self::Providers => "providers",
            Self::McpServers => "MCP servers",
            Self::Keys => "keys",
            Self::ArtifactBytes => "bytes of artifacts",
            Self::WorkspaceBytes => "bytes of files in workspaces",
        }
    }

    /// What all may add that are under way beside one that brings so much: at most a quarter of a limit of bytes, so that who has
    /// used less than three quarters waits for nobody. Who brings too much for that is alone, however far the limit is.
    fn under_way(self, brings: i64, limit: i64) -> i64 {
        let most = match self {
            Self::ArtifactBytes | Self::WorkspaceBytes => (limit / 4 / UNDER_WAY).min(MOST_BYTES),
            _ => 1,
        };
        if brings > most { limit.saturating_add(1) } else { UNDER_WAY * most }
    }

    /// The limit under these quotas.
    pub(crate) fn limit(self, quotas: &Value) -> i64 {
        let quota = self.quota().and_then(|name| quotas.get(name)).and_then(Value::as_i64);
        quota.map_or(self.ceiling(), |quota| quota.min(self.ceiling()))
    }
}

/// A tenant has as much as it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// Of what.
    pub of: Counted,
    /// How much that is.
    pub limit: i64,
}

impl std::fmt::Display for Full {
    /// A sentence, with the quota's name.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (limit, words) = (self.limit, self.of.words());
        match self.of.quota().filter(|_| limit < self.of.ceiling()) {
            Some(quota) => write!(f, "This tenant may have {limit} {words} ({quota})."),
            None => write!(f, "A tenant may have {limit} {words}."),
        }
    }
}

impl TenantTx {
    /// Whether there is room for more; asked before the rows are written, and in their transaction. Of those who ask at once for
    /// the last place one gets it: the others wait for its transaction.
    ///
    /// # Errors
    /// The database is away.
    pub async fn room_for(&mut self, of: Counted, more: i64) -> Result<std::result::Result<(), Full>> {
        let tenant = self.tenant_id;
        room_for(self.conn(), tenant, of, more, more).await
    }

    /// The same after the rows are written, which brought so much.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn room_after(
        &mut self,
        of: Counted,
        brought: i64,
    ) -> Result<std::result::Result<(), Full>> {
        let tenant = self.tenant_id;
        room_for(self.conn(), tenant, of, 0, brought).await
    }

    /// Whether there is room for something at all, without waiting for anybody: several at once may hear the same.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn is_full(&mut self, of: Counted, quotas: &Value) -> Result<Option<Full>> {
        let limit = of.limit(quotas);
        let used = sqlx::query_scalar!(
            r#"SELECT coalesce(sum(used), 0)::bigint AS "used!" FROM tenant_counts WHERE tenant_id = $1 AND kind = $2"#,
            self.tenant(),
            of.kind(),
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok((used >= limit).then_some(Full { of, limit }))
    }

    /// How much there is of each kind.
    pub(crate) async fn counted(&mut self) -> Result<BTreeMap<&'static str, i64>> {
        let rows = sqlx::query!(
            r#"SELECT kind, sum(used)::bigint AS "used!" FROM tenant_counts WHERE tenant_id = $1 GROUP BY kind"#,
            self.tenant(),
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let of = |kind: &str| Counted::ALL.into_iter().map(Counted::kind).find(|known| *known == kind);
        Ok(rows.into_iter().filter_map(|row| Some((of(&row.kind)?, row.used))).collect())
    }

    /// How much of something there is, as [`counted`](Self::counted) says.
    pub(crate) fn used_of(counted: &BTreeMap<&'static str, i64>, of: Counted) -> i64 {
        counted.get(of.kind()).copied().unwrap_or_default()
    }
}

impl SystemTx {
    /// As [`TenantTx::room_for`], of what the operator makes.
    ///
    /// # Errors
    /// The database is away.
    pub async fn room_for(
        &mut self,
        tenant: TenantId,
        of: Counted,
        more: i64,
    ) -> Result<std::result::Result<(), Full>> {
        room_for(self.conn(), tenant, of, more, more).await
    }
}

async fn room_for(
    mut conn: Conn<'_>,
    tenant: TenantId,
    of: Counted,
    more: i64,
    brings: i64,
) -> Result<std::result::Result<(), Full>> {
    let quotas = sqlx::query_scalar!("SELECT quotas FROM tenants WHERE tenant_id = $1", tenant.0)
        .fetch_optional(conn.again())
        .await
        .map_err(store_error)?;
    let limit = of.limit(&quotas.unwrap_or_default());
    let has_room = sqlx::query_scalar!(
        r#"SELECT count_room($1, $2, $3, $4, $5) AS "has_room!""#,
        tenant.0,
        of.kind(),
        more,
        limit,
        of.under_way(brings, limit),
    )
    .fetch_one(conn)
    .await
    .map_err(store_error)?;
    Ok(if has_room { Ok(()) } else { Err(Full { of, limit }) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_quota_counts_up_to_the_ceiling() {
        for of in Counted::ALL {
            assert_eq!(of.limit(&json!({})), of.ceiling());
            let Some(name) = of.quota() else { continue };
            assert_eq!(of.limit(&json!({name: 3})), 3);
            assert_eq!(of.limit(&json!({name: 0})), 0);
            assert_eq!(of.limit(&json!({name: i64::MAX})), of.ceiling());
            assert_eq!(of.limit(&json!({name: null})), of.ceiling());
        }
    }

    #[test]
    fn whoever_is_far_from_a_limit_of_bytes_is_not_alone() {
        for of in [Counted::ArtifactBytes, Counted::WorkspaceBytes] {
            for limit in [1 << 20, 1 << 30, 10 << 30, of.ceiling()] {
                let all = of.under_way(0, limit);
                assert!(all <= limit / 4, "{limit}");
                // None of those who aren't alone brings more than its part of that.
                let most = all / UNDER_WAY;
                assert_eq!(of.under_way(most, limit), all);
                assert!(of.under_way(most + 1, limit) > limit);
            }
            assert_eq!(
                of.under_way(MOST_BYTES, 100 << 30),
                UNDER_WAY * MOST_BYTES,
                "any body, if there is much"
            );
            assert!(of.under_way(200 << 10, 1 << 30) < 1 << 30, "a small file under a small quota");
            assert_eq!(of.under_way(0, 0), 0);
        }
        assert_eq!(Counted::Threads.under_way(1, 3), UNDER_WAY);
    }

    #[test]
    fn a_full_tenant_is_told_which_limit_it_is() {
        let of = Counted::Agents;
        assert_eq!(Full { of, limit: 3 }.to_string(), "This tenant may have 3 agents (max_agents).");
        assert_eq!(Full { of, limit: of.ceiling() }.to_string(), "A tenant may have 100000 agents.");
    }
}
