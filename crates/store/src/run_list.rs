//! Lists of runs.

use answerable_core::id::{AgentId, ScheduleId, ThreadId};
use serde_json::Value;

use crate::Result;
use crate::error::store_error;
use crate::run_view::RunRecord;
use crate::tx::TenantTx;

/// Which runs to list; all that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// With this status.
    pub status: Option<String>,
    /// Of this agent, in any version.
    pub agent_id: Option<AgentId>,
    /// In this thread.
    pub thread_id: Option<ThreadId>,
    /// Of this schedule.
    pub schedule_id: Option<ScheduleId>,
    /// With these values: an object of strings.
    pub metadata: Option<Value>,
}

/// A page of runs.
#[derive(Debug, Clone)]
pub struct RunPage {
    /// The runs, newest first.
    pub runs: Vec<RunRecord>,
    /// Where the next page begins; `None`: there is none.
    pub next: Option<i64>,
}

impl TenantTx {
    /// Runs, newest first, before place `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_list(&mut self, filter: &RunFilter, before: Option<i64>, limit: i64) -> Result<RunPage> {
        let tenant = self.tenant();
        let places = sqlx::query!(
            "SELECT run_id, ord FROM runs
             WHERE tenant_id = $1 AND ($2::text IS NULL OR status = $2) AND ($3::uuid IS NULL OR agent_id = $3)
                 AND ($4::uuid IS NULL OR thread_id = $4) AND ($5::jsonb IS NULL OR metadata @> $5)
                 AND ($6::bigint IS NULL OR ord < $6) AND ($8::uuid IS NULL OR schedule_id = $8)
             ORDER BY ord DESC LIMIT $7",
            tenant,
            filter.status,
            filter.agent_id.map(|id| id.0),
            filter.thread_id.map(|id| id.0),
            filter.metadata,
            before,
            limit + 1,
            filter.schedule_id.map(|id| id.0),
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = places.len() > wanted;
        let page: Vec<_> = places.iter().take(wanted).collect();
        let ids: Vec<_> = page.iter().map(|place| place.run_id).collect();
        let mut runs = self.run_fetch_all(&ids).await?;
        // A run may have gone on since its place was looked up; what is listed is what was asked for.
        runs.retain(|run| filter.status.as_ref().is_none_or(|status| *status == run.status));
        Ok(RunPage { runs, next: page.last().filter(|_| more).map(|place| place.ord) })
    }
}
