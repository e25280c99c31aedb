//! Schedules.

use answerable_core::agent::redacted;
use answerable_core::id::{RunId, ScheduleId};
use answerable_store::{FiringRow, ScheduleRow};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Time;
use crate::body::RequestBody;

/// A schedule that somebody wants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleCreate {
    pub(crate) name: String,
    pub(crate) cron: String,
    #[serde(default)]
    pub(crate) timezone: Option<String>,
    pub(crate) run: Value,
    #[serde(default)]
    pub(crate) skip_if_running: Option<bool>,
    #[serde(default)]
    pub(crate) paused: bool,
    #[serde(default)]
    pub(crate) metadata: Map<String, Value>,
}

impl RequestBody for ScheduleCreate {
    const CONTENT: &'static [&'static str] = &["/run/input"];
}

/// A change of a schedule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleUpdate {
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) cron: Option<String>,
    #[serde(default)]
    pub(crate) timezone: Option<String>,
    #[serde(default)]
    pub(crate) run: Option<Value>,
    #[serde(default)]
    pub(crate) skip_if_running: Option<bool>,
    #[serde(default)]
    pub(crate) paused: Option<bool>,
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
}

impl RequestBody for ScheduleUpdate {
    const CONTENT: &'static [&'static str] = &["/run/input"];
}

/// A schedule as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Schedule {
    id: ScheduleId,
    object: &'static str,
    name: String,
    cron: String,
    timezone: String,
    run: Value,
    skip_if_running: bool,
    paused_at: Option<Time>,
    next_at: Option<Time>,
    last: Option<Firing>,
    created_by: String,
    updated_by: String,
    created_at: Time,
    updated_at: Time,
    metadata: Value,
}

impl From<ScheduleRow> for Schedule {
    fn from(row: ScheduleRow) -> Self {
        Self {
            id: row.id(),
            object: "schedule",
            name: row.spec.name,
            cron: row.spec.cron,
            timezone: row.spec.timezone,
            run: shown(row.spec.run),
            skip_if_running: row.spec.skip_if_running,
            paused_at: row.paused_at.map(Time),
            next_at: row.next_at.filter(|_| row.paused_at.is_none()).map(Time),
            last: row.last.map(Firing::from),
            created_by: row.created_by,
            updated_by: row.spec.by,
            created_at: Time(row.created_at),
            updated_at: Time(row.updated_at),
            metadata: row.spec.metadata,
        }
    }
}

/// What is asked for each run, without the credentials that somebody may have written into an agent of its own.
fn shown(mut run: Value) -> Value {
    if let Some(agent) = run.get_mut("agent") {
        *agent = redacted(agent);
    }
    run
}

/// What became of a due time, as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Firing {
    due_at: Time,
    fired_at: Time,
    outcome: String,
    triggered_by: Option<String>,
    run_id: Option<RunId>,
    problem: Option<Value>,
}

impl From<FiringRow> for Firing {
    fn from(row: FiringRow) -> Self {
        Self {
            due_at: Time(row.due_at),
            fired_at: Time(row.fired_at),
            outcome: row.outcome,
            triggered_by: row.triggered_by,
            run_id: row.run_id.map(RunId),
            problem: row.problem,
        }
    }
}
