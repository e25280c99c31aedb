//! Schedules: what is to be run again and again. When one is due is `due.rs`, what becomes of it `firings.rs`.

mod due;
mod firings;

use answerable_core::audit::Action;
use answerable_core::id::ScheduleId;
use answerable_core::json::input_hash;
use answerable_core::schedule::Recurrence;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::types::Json;
use uuid::Uuid;

use crate::Result;
use crate::error::{as_json, store_error};
use crate::tx::TenantTx;

pub use due::DueSchedule;
pub use firings::{Fired, FiringRow, TakenSchedule};

/// A schedule, as somebody wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleSpec {
    /// For people.
    pub name: String,
    /// When, as a cron expression.
    pub cron: String,
    /// On the clock of this zone.
    pub timezone: String,
    /// The body of the request that each run is.
    pub run: Value,
    /// No run is started while another one of it has not ended.
    pub skip_if_running: bool,
    /// The caller's own words: an object of strings.
    pub metadata: Value,
    /// Nothing of it is due.
    pub paused: bool,
    /// Who wants it so.
    pub by: String,
    /// In whose name its runs are started.
    pub asker: String,
    /// All who count as having started its runs.
    pub creators: Vec<String>,
    /// Its runs may have limits above the agent's.
    pub as_admin: bool,
}

/// A schedule as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleRow {
    /// Its id.
    pub schedule_id: Uuid,
    /// Its place in lists.
    pub ord: i64,
    /// What was wanted last.
    pub spec: ScheduleSpec,
    /// Who made it.
    pub created_by: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
    /// Since when it is paused.
    pub paused_at: Option<DateTime<Utc>>,
    /// When it is due; while it is paused, when it would have been.
    pub next_at: Option<DateTime<Utc>>,
    /// Nothing up to then is due any more.
    dealt_until: DateTime<Utc>,
    /// What became of it last.
    pub last: Option<FiringRow>,
}

impl ScheduleRow {
    /// Its id.
    pub fn id(&self) -> ScheduleId {
        ScheduleId(self.schedule_id)
    }
}

impl ScheduleSpec {
    /// What is written down of it.
    fn facts(&self) -> Value {
        json!({"name": self.name, "cron": self.cron, "timezone": self.timezone, "run_hash": input_hash(&self.run),
            "skip_if_running": self.skip_if_running, "paused": self.paused})
    }
}

struct Stored {
    schedule_id: Uuid,
    ord: i64,
    name: String,
    cron: String,
    timezone: String,
    run: Value,
    skip_if_running: bool,
    metadata: Value,
    created_by: String,
    updated_by: String,
    asker: String,
    creators: Vec<String>,
    as_admin: bool,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    paused_at: Option<DateTime<Utc>>,
    next_at: Option<DateTime<Utc>>,
    dealt_until: DateTime<Utc>,
    last: Option<Json<FiringRow>>,
}

impl From<Stored> for ScheduleRow {
    fn from(row: Stored) -> Self {
        let spec = ScheduleSpec {
            name: row.name,
            cron: row.cron,
            timezone: row.timezone,
            run: row.run,
            skip_if_running: row.skip_if_running,
            metadata: row.metadata,
            paused: row.paused_at.is_some(),
            by: row.updated_by,
            asker: row.asker,
            creators: row.creators,
            as_admin: row.as_admin,
        };
        Self {
            schedule_id: row.schedule_id,
            ord: row.ord,
            spec,
            created_by: row.created_by,
            created_at: row.created_at,
            updated_at: row.updated_at,
            paused_at: row.paused_at,
            next_at: row.next_at,
            dealt_until: row.dealt_until,
            last: row.last.map(|last| last.0),
        }
    }
}

impl TenantTx {
    /// Makes a schedule. Its first due time comes after now.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedule_create(&mut self, spec: &ScheduleSpec, due: &Recurrence) -> Result<ScheduleRow> {
        let (id, now) = (ScheduleId(Uuid::now_v7()), self.moment().await?);
        sqlx::query!(
            "INSERT INTO schedules (tenant_id, schedule_id, name, cron, timezone, run, skip_if_running, metadata, created_by,
                 updated_by, asker, creators, as_admin, created_at, updated_at, paused_at, next_at, dealt_until)
             VALUES ($1, $2, $3, $4, $5, $6::text::json, $7, $8, $9, $9, $10, $11, $12, $13, $13,
                 CASE WHEN $14 THEN $13::timestamptz END, $15, $13)",
            self.tenant(),
            id.0,
            spec.name,
            spec.cron,
            spec.timezone,
            as_json(&spec.run)?,
            spec.skip_if_running,
            spec.metadata,
            spec.by,
            spec.asker,
            &spec.creators,
            spec.as_admin,
            now,
            spec.paused,
            due.next_after(now),
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        self.act(Action::ScheduleCreate, id, spec.facts());
        self.schedule_kept(id).await
    }

    /// Schedules, newest first, of places before `before`; those that `created_by` (a key or `user:NAME`) has made, has changed,
    /// or counts as having started the runs of.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedule_list(
        &mut self,
        created_by: Option<&str>,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<ScheduleRow>> {
        self.schedules_select(None, created_by, before, limit).await
    }

    /// A schedule.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedule_fetch(&mut self, schedule: ScheduleId) -> Result<Option<ScheduleRow>> {
        Ok(self.schedules_select(Some(schedule), None, None, 1).await?.pop())
    }

    /// A schedule that is there.
    async fn schedule_kept(&mut self, schedule: ScheduleId) -> Result<ScheduleRow> {
        let gone = || crate::StoreError::Broken(format!("{schedule} is gone"));
        self.schedule_fetch(schedule).await?.ok_or_else(gone)
    }

    async fn schedules_select(
        &mut self,
        one: Option<ScheduleId>,
        created_by: Option<&str>,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<ScheduleRow>> {
        let rows = sqlx::query_as!(
            Stored,
            r#"SELECT schedule_id, ord, name, cron, timezone, run, skip_if_running, metadata, created_by, updated_by, asker,
                   creators, as_admin, created_at, updated_at, paused_at, next_at, dealt_until,
                   (SELECT row_to_json(f) FROM (
                        SELECT ord, due_at, fired_at, outcome, triggered_by, run_id, problem FROM schedule_firings
                        WHERE tenant_id = s.tenant_id AND schedule_id = s.schedule_id ORDER BY ord DESC LIMIT 1
                    ) f) AS "last: Json<FiringRow>"
               FROM schedules s
               WHERE tenant_id = $1 AND ($2::uuid IS NULL OR schedule_id = $2)
                   AND ($3::text IS NULL OR created_by = $3 OR updated_by = $3 OR $3 = ANY(creators))
                   AND ($4::bigint IS NULL OR ord < $4)
               ORDER BY ord DESC LIMIT $5"#,
            self.tenant(),
            one.map(|id| id.0),
            created_by,
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(ScheduleRow::from).collect())
    }

    /// A schedule that nobody else changes or fires before this transaction ends.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedule_lock(&mut self, schedule: ScheduleId) -> Result<Option<ScheduleRow>> {
        let found = sqlx::query!(
            "SELECT FROM schedules WHERE tenant_id = $1 AND schedule_id = $2 FOR NO KEY UPDATE",
            self.tenant(),
            schedule.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        if found.is_some() { self.schedule_fetch(schedule).await } else { Ok(None) }
    }

    /// Makes a schedule, which is locked, another one. Where it begins to count anew (at other times, or no longer paused),
    /// what is past is let pass.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedule_update(
        &mut self,
        before: &ScheduleRow,
        spec: &ScheduleSpec,
        due: &Recurrence,
    ) -> Result<ScheduleRow> {
        if before.spec == *spec {
            return Ok(before.clone());
        }
        let (id, now) = (before.id(), self.moment().await?);
        let is_moved = (&before.spec.cron, &before.spec.timezone) != (&spec.cron, &spec.timezone);
        let anew = is_moved || (before.spec.paused && !spec.paused);
        if anew {
            self.schedule_pass(before, now, due).await?;
        }
        sqlx::query!(
            "UPDATE schedules SET name = $3, cron = $4, timezone = $5, run = $6::text::json, skip_if_running = $7, metadata = $8,
                 updated_by = $9, asker = $10, creators = $11, as_admin = $12, updated_at = $13,
                 paused_at = CASE WHEN $14 THEN coalesce(paused_at, $13::timestamptz) END
             WHERE tenant_id = $1 AND schedule_id = $2",
            self.tenant(),
            id.0,
            spec.name,
            spec.cron,
            spec.timezone,
            as_json(&spec.run)?,
            spec.skip_if_running,
            spec.metadata,
            spec.by,
            spec.asker,
            &spec.creators,
            spec.as_admin,
            now,
            spec.paused,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        self.act(Action::ScheduleUpdate, id, spec.facts());
        self.schedule_kept(id).await
    }

    /// Deletes a schedule with what became of it; its runs stay. `false`: there is none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn schedule_delete(&mut self, schedule: ScheduleId) -> Result<bool> {
        let name = sqlx::query_scalar!(
            "DELETE FROM schedules WHERE tenant_id = $1 AND schedule_id = $2 RETURNING name",
            self.tenant(),
            schedule.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(name) = name else { return Ok(false) };
        self.act(Action::ScheduleDelete, schedule, json!({"name": name}));
        Ok(true)
    }

    /// The database's time, in whole milliseconds.
    ///
    /// # Errors
    /// The database is away.
    pub async fn moment(&mut self) -> Result<DateTime<Utc>> {
        sqlx::query_scalar!(r#"SELECT date_trunc('milliseconds', clock_timestamp()) AS "now!""#)
            .fetch_one(self.conn())
            .await
            .map_err(store_error)
    }
}
