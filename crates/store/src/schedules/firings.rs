//! What became of each time that a schedule was due. Who fires one has it locked: the run, what is written of it, and the
//! next due time are one transaction's, so that each due time is dealt with once, by whichever server.

use answerable_core::audit::Action;
use answerable_core::id::{RunId, ScheduleId};
use answerable_core::schedule::Recurrence;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::ScheduleRow;
use crate::Result;
use crate::error::{as_json, store_error};
use crate::tx::TenantTx;

/// Of each schedule so many are kept, the newest.
const KEPT: i64 = 100;

/// What became of a time at which a schedule was due, or was fired.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FiringRow {
    /// Its place in lists.
    pub ord: i64,
    /// When it was due.
    pub due_at: DateTime<Utc>,
    /// When it was dealt with.
    pub fired_at: DateTime<Utc>,
    /// `started`, `skipped`, `missed` or `refused`.
    pub outcome: String,
    /// Who fired it out of its time.
    pub triggered_by: Option<String>,
    /// The run, unless it was deleted since.
    pub run_id: Option<Uuid>,
    /// Why there is none: `{code, message}`.
    pub problem: Option<Value>,
}

/// A schedule that is due and that nobody else has.
#[derive(Debug, Clone, PartialEq)]
pub struct TakenSchedule {
    /// The schedule.
    pub schedule: ScheduleRow,
    /// When it was due.
    pub due_at: DateTime<Utc>,
    /// Since when that is known.
    pub seen_at: DateTime<Utc>,
    /// The database's time.
    pub now: DateTime<Utc>,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Fired {
    /// This run was started.
    Started(RunId),
    /// A run of it has not ended.
    Skipped,
    /// It is too long past, and with it all up to now.
    Missed,
    /// The run was not accepted: `{code, message}`.
    Refused(Value),
}

impl Fired {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
            Self::Refused(_) => "refused",
        }
    }
}

impl TenantTx {
    /// Takes a schedule that is due: nobody else changes or fires it before this transaction ends. `None`: it isn't due any
    /// more, or somebody else has it.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedule_take(&mut self, schedule: ScheduleId) -> Result<Option<TakenSchedule>> {
        // The tenant before what is its own, as whoever deletes the tenant locks them.
        if !self.tenant_hold().await? {
            return Ok(None);
        }
        let taken = sqlx::query!(
            r#"SELECT s.next_at AS "due_at!", coalesce(s.seen_at, clock_timestamp()) AS "seen_at!",
                   date_trunc('milliseconds', clock_timestamp()) AS "now!"
               FROM schedules s
               WHERE s.tenant_id = $1 AND s.schedule_id = $2 AND s.paused_at IS NULL AND s.next_at <= clock_timestamp()
                   AND (SELECT suspended_at FROM tenants t WHERE t.tenant_id = $1) IS NULL
               FOR NO KEY UPDATE OF s SKIP LOCKED"#,
            self.tenant(),
            schedule.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(taken) = taken else { return Ok(None) };
        let row = self.schedule_fetch(schedule).await?;
        let (due_at, seen_at, now) = (taken.due_at, taken.seen_at, taken.now);
        Ok(row.map(|schedule| TakenSchedule { schedule, due_at, seen_at, now }))
    }

    /// Whether a run of a schedule has not ended.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedule_is_running(&mut self, schedule: ScheduleId) -> Result<bool> {
        sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM runs WHERE tenant_id = $1 AND schedule_id = $2 AND finished_at IS NULL) AS "is!""#,
            self.tenant(),
            schedule.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// Writes down what became of a due time of a schedule that was taken. It is due next at `next`; nothing up to
    /// `dealt_until` is due any more.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedule_fired(
        &mut self,
        schedule: ScheduleId,
        due_at: DateTime<Utc>,
        fired: &Fired,
        next: Option<DateTime<Utc>>,
        dealt_until: DateTime<Utc>,
    ) -> Result<()> {
        self.firing_write(schedule, due_at, fired, None).await?;
        sqlx::query!(
            "UPDATE schedules SET next_at = $3, seen_at = NULL, dealt_until = greatest(dealt_until, $4)
             WHERE tenant_id = $1 AND schedule_id = $2",
            self.tenant(),
            schedule.0,
            next,
            dealt_until,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Writes down that somebody fired a schedule, which is locked, out of its time.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedule_triggered(
        &mut self,
        schedule: ScheduleId,
        at: DateTime<Utc>,
        run: RunId,
        by: &str,
    ) -> Result<()> {
        self.firing_write(schedule, at, &Fired::Started(run), Some(by)).await?;
        self.act(Action::ScheduleTrigger, schedule, json!({"run_id": run}));
        Ok(())
    }

    /// From now on a schedule, which is locked, counts anew. What it was due before was missed, as one.
    pub(super) async fn schedule_pass(
        &mut self,
        schedule: &ScheduleRow,
        now: DateTime<Utc>,
        due: &Recurrence,
    ) -> Result<()> {
        let (id, from) = (schedule.id(), schedule.dealt_until.max(now));
        if let Some(past) = schedule.next_at.filter(|at| *at <= now) {
            self.firing_write(id, past, &Fired::Missed, None).await?;
        }
        sqlx::query!(
            "UPDATE schedules SET next_at = $3, seen_at = NULL, dealt_until = $4 WHERE tenant_id = $1 AND schedule_id = $2",
            self.tenant(),
            id.0,
            due.next_after(from),
            from,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    async fn firing_write(
        &mut self,
        schedule: ScheduleId,
        due_at: DateTime<Utc>,
        fired: &Fired,
        triggered_by: Option<&str>,
    ) -> Result<()> {
        let (run, problem) = match fired {
            Fired::Started(run) => (Some(run.0), None),
            Fired::Refused(problem) => (None, Some(as_json(problem)?)),
            Fired::Skipped | Fired::Missed => (None, None),
        };
        sqlx::query!(
            "INSERT INTO schedule_firings (tenant_id, schedule_id, due_at, fired_at, outcome, triggered_by, run_id, problem)
             VALUES ($1, $2, $3, date_trunc('milliseconds', clock_timestamp()), $4, $5, $6, $7::text::json)",
            self.tenant(),
            schedule.0,
            due_at,
            fired.as_str(),
            triggered_by,
            run,
            problem,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        sqlx::query!(
            "DELETE FROM schedule_firings WHERE tenant_id = $1 AND schedule_id = $2 AND ord <= (
                 SELECT ord FROM schedule_firings WHERE tenant_id = $1 AND schedule_id = $2 ORDER BY ord DESC OFFSET $3 LIMIT 1)",
            self.tenant(),
            schedule.0,
            KEPT,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// What became of a schedule, newest first, of places before `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn firing_list(
        &mut self,
        schedule: ScheduleId,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<FiringRow>> {
        sqlx::query_as!(
            FiringRow,
            "SELECT ord, due_at, fired_at, outcome, triggered_by, run_id, problem FROM schedule_firings
             WHERE tenant_id = $1 AND schedule_id = $2 AND ($3::bigint IS NULL OR ord < $3) ORDER BY ord DESC LIMIT $4",
            self.tenant(),
            schedule.0,
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}
