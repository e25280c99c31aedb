//! Approvals across runs: which of them, in which order, and how many.

use std::collections::HashMap;

use answerable_core::id::{AgentId, RunId, ThreadId};
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Postgres, QueryBuilder, Row as _};
use uuid::Uuid;

use crate::Result;
use crate::approvals::ApprovalRecord;
use crate::error::store_error;
use crate::tx::TenantTx;

/// Approvals that are counted at most.
const MAX_COUNTED: i64 = 100_000;
/// Groups that are told of at most.
const MAX_GROUPS: i64 = 200;

/// Which approvals; all that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct ApprovalFilter {
    /// With this status.
    pub status: Option<String>,
    /// Of this run.
    pub run_id: Option<RunId>,
    /// Of runs of this thread.
    pub thread_id: Option<ThreadId>,
    /// Of runs of this agent, in any version.
    pub agent_id: Option<AgentId>,
    /// Of this kind.
    pub kind: Option<String>,
    /// Of calls of this tool.
    pub tool_name: Option<String>,
    /// Of tools with this risk.
    pub risk: Option<String>,
    /// Whose time is over before this moment.
    pub expires_before: Option<DateTime<Utc>>,
    /// Asked before this moment.
    pub created_before: Option<DateTime<Utc>>,
    /// Asked at this moment or later.
    pub created_after: Option<DateTime<Utc>>,
    /// Decided by them.
    pub decided_by: Option<String>,
}

/// The order of a list, and the place after which a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalOrder {
    /// Newest first.
    Newest(Option<i64>),
    /// Those whose time is over first come first.
    Expiring(Option<(DateTime<Utc>, i64)>),
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApprovalPage {
    /// Its approvals, without those that were decided or deleted while it was made.
    pub approvals: Vec<ApprovalRecord>,
    /// The expiry and the number after which the next page begins, if there is one.
    pub next: Option<(DateTime<Utc>, i64)>,
}

/// The place of an approval in a list.
type Place = (Uuid, DateTime<Utc>, i64);

/// What approvals are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalGroup {
    /// Their status.
    Status,
    /// Their kind.
    Kind,
    /// The call's tool.
    ToolName,
    /// The tool's risk.
    Risk,
    /// The run's agent.
    Agent,
}

impl ApprovalGroup {
    fn column(self) -> &'static str {
        match self {
            Self::Status => "a.status",
            Self::Kind => "a.kind",
            Self::ToolName => "a.tool_name",
            Self::Risk => "a.risk",
            Self::Agent => "r.agent_id::text",
        }
    }
}

/// How many approvals there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalCounts {
    /// All of them, those of groups that aren't told of included.
    pub total: i64,
    /// There are more, which were not counted.
    pub more: bool,
    /// The value that a group shares (`None`: those that have none), and its number; most first.
    pub groups: Vec<(Option<String>, i64)>,
}

impl TenantTx {
    /// A page of at most `limit` approvals of all runs.
    ///
    /// # Errors
    /// The database is away.
    pub async fn approval_list(
        &mut self,
        filter: &ApprovalFilter,
        order: ApprovalOrder,
        limit: usize,
    ) -> Result<ApprovalPage> {
        let mut places = self.approval_places(filter, order, limit.saturating_add(1)).await?;
        let more = places.len() > limit;
        places.truncate(limit);
        let ids: Vec<Uuid> = places.iter().map(|(id, ..)| *id).collect();
        let mut found: HashMap<Uuid, ApprovalRecord> = HashMap::new();
        for approval in self.approval_fetch_all(&ids).await? {
            found.insert(approval.approval_id, approval);
        }
        // One may have been decided or deleted since its place was looked up: what is listed is what was asked for, and the
        // list goes on all the same.
        let is_asked_for =
            |found: &ApprovalRecord| filter.status.as_ref().is_none_or(|status| *status == found.status);
        let approvals = ids.iter().filter_map(|id| found.remove(id)).filter(is_asked_for).collect();
        let next = places.last().filter(|_| more).map(|(_, expires_at, ord)| (*expires_at, *ord));
        Ok(ApprovalPage { approvals, next })
    }

    async fn approval_places(
        &mut self,
        filter: &ApprovalFilter,
        order: ApprovalOrder,
        limit: usize,
    ) -> Result<Vec<Place>> {
        let mut query = filter.query(self.tenant(), "SELECT a.approval_id, a.expires_at, a.ord", None);
        order.end(&mut query, i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = query.build_query_as::<Place>().persistent(false).fetch_all(self.conn()).await;
        rows.map_err(store_error)
    }

    /// How many there are: all, and by group where one is given.
    ///
    /// # Errors
    /// The database is away.
    pub async fn approval_counts(
        &mut self,
        filter: &ApprovalFilter,
        group: Option<ApprovalGroup>,
    ) -> Result<ApprovalCounts> {
        let value = group.map_or("NULL::text", ApprovalGroup::column);
        let select = format!(
            "SELECT value, count(*) AS count, (sum(count(*)) OVER ())::bigint AS total FROM (SELECT {value} AS value"
        );
        let mut query = filter.query(self.tenant(), &select, group);
        query.push(" LIMIT ").push_bind(MAX_COUNTED + 1);
        query.push(") AS found GROUP BY value ORDER BY count DESC, value LIMIT ").push_bind(MAX_GROUPS);
        let rows = query.build().persistent(false).fetch_all(self.conn()).await.map_err(store_error)?;
        let Some(first) = rows.first() else { return Ok(ApprovalCounts::default()) };
        let counted: i64 = first.try_get("total").map_err(store_error)?;
        let group_of = |row: &PgRow| Ok((row.try_get("value")?, row.try_get("count")?));
        let groups = rows.iter().filter(|_| group.is_some()).map(group_of);
        let groups = groups.collect::<sqlx::Result<_>>().map_err(store_error)?;
        Ok(ApprovalCounts { total: counted.min(MAX_COUNTED), more: counted > MAX_COUNTED, groups })
    }
}

impl ApprovalFilter {
    /// What is selected of those that fit. The query holds only what is asked for, so that PostgreSQL sees which index is
    /// the one; all values are bound.
    fn query(&self, tenant: Uuid, select: &str, group: Option<ApprovalGroup>) -> QueryBuilder<Postgres> {
        let mut query = QueryBuilder::new(select);
        query.push(" FROM approvals a");
        if self.agent_id.is_some() || self.thread_id.is_some() || group == Some(ApprovalGroup::Agent) {
            query.push(" JOIN runs r ON r.tenant_id = a.tenant_id AND r.run_id = a.run_id");
        }
        query.push(" WHERE a.tenant_id = ").push_bind(tenant);
        match self.status.as_deref() {
            // As it stands in the partial index.
            Some("pending") => {
                query.push(" AND a.status = 'pending'");
            }
            status => is(&mut query, "a.status = ", status),
        }
        is(&mut query, "a.run_id = ", self.run_id.map(|id| id.0));
        is(&mut query, "r.thread_id = ", self.thread_id.map(|id| id.0));
        is(&mut query, "r.agent_id = ", self.agent_id.map(|id| id.0));
        is(&mut query, "a.kind = ", self.kind.as_deref());
        is(&mut query, "a.tool_name = ", self.tool_name.as_deref());
        is(&mut query, "a.risk = ", self.risk.as_deref());
        is(&mut query, "a.expires_at < ", self.expires_before);
        is(&mut query, "a.created_at < ", self.created_before);
        is(&mut query, "a.created_at >= ", self.created_after);
        is(&mut query, "a.decided_by = ", self.decided_by.as_deref());
        query
    }
}

/// A condition, where there is one.
fn is<'v, V>(query: &mut QueryBuilder<Postgres>, condition: &'static str, value: Option<V>)
where
    V: sqlx::Encode<'v, Postgres> + sqlx::Type<Postgres>,
{
    if let Some(value) = value {
        query.push(" AND ").push(condition).push_bind(value);
    }
}

impl ApprovalOrder {
    fn end(self, query: &mut QueryBuilder<Postgres>, limit: i64) {
        match self {
            Self::Newest(before) => {
                is(query, "a.ord < ", before);
                query.push(" ORDER BY a.ord DESC");
            }
            Self::Expiring(after) => {
                if let Some((at, ord)) = after {
                    query.push(" AND (a.expires_at, a.ord) > (").push_bind(at);
                    query.push(", ").push_bind(ord).push(")");
                }
                query.push(" ORDER BY a.expires_at, a.ord");
            }
        }
        query.push(" LIMIT ").push_bind(limit);
    }
}
