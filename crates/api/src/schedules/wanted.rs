//! What a request for a schedule must be, beyond its shape, and what is made of it.

use answerable_core::field_error;
use answerable_core::schedule::Recurrence;
use answerable_store::{ScheduleRow, ScheduleSpec, TenantTx};
use serde_json::{Map, Value};

use crate::admit::{self, Asker};
use crate::problem::Problem;
use crate::shapes::runs::RunCreate;
use crate::shapes::schedules::{ScheduleCreate, ScheduleUpdate};
use crate::state::AppState;
use crate::trace_parent::TraceParent;

/// Bytes that the body of its runs may have.
const MAX_RUN: usize = 256 * 1024;
/// Keys that its metadata may have.
const MAX_METADATA: usize = 64;
/// Who count as having started its runs, at most.
const MAX_CREATORS: usize = 32;

/// Who makes or changes a schedule.
pub(crate) struct Maker {
    /// The user or the key, as decisions name them.
    pub(crate) by: String,
    /// By what they prove.
    pub(crate) asker: String,
    /// All who count as having made it.
    pub(crate) creators: Vec<String>,
    /// They may raise limits above the agent's.
    pub(crate) is_admin: bool,
}

impl Maker {
    fn asker(&self) -> Asker {
        Asker { who: self.asker.clone(), creators: self.creators.clone(), is_admin: self.is_admin }
    }
}

/// A new schedule.
pub(crate) async fn made(
    state: &AppState,
    tx: &mut TenantTx,
    maker: Maker,
    body: ScheduleCreate,
) -> Result<(ScheduleSpec, Recurrence), Problem> {
    let spec = ScheduleSpec {
        name: body.name,
        cron: body.cron,
        timezone: body.timezone.unwrap_or_else(|| "UTC".to_owned()),
        run: body.run,
        skip_if_running: body.skip_if_running.unwrap_or(true),
        metadata: Value::Object(body.metadata),
        paused: body.paused,
        by: maker.by.clone(),
        asker: maker.asker.clone(),
        creators: maker.creators.clone(),
        as_admin: maker.is_admin,
    };
    let due = Recurrence::read(&spec.cron, &spec.timezone).map_err(Problem::invalid)?;
    try_run(state, tx, &spec.run, maker.asker()).await?;
    Ok((spec, due))
}

/// A changed schedule.
///
/// Whoever says what runs do has started them. Whoever says when, or lets them begin again, has started them too, and answers
/// for them with no more than their own rights. A name, metadata or a pause is nobody's start, and needs no run that fits.
pub(crate) async fn changed(
    state: &AppState,
    tx: &mut TenantTx,
    maker: Maker,
    before: &ScheduleRow,
    change: ScheduleUpdate,
) -> Result<(ScheduleSpec, Recurrence), Problem> {
    let old = &before.spec;
    let mut spec = ScheduleSpec {
        name: change.name.unwrap_or_else(|| old.name.clone()),
        cron: change.cron.unwrap_or_else(|| old.cron.clone()),
        timezone: change.timezone.unwrap_or_else(|| old.timezone.clone()),
        run: change.run.unwrap_or_else(|| old.run.clone()),
        skip_if_running: change.skip_if_running.unwrap_or(old.skip_if_running),
        metadata: merged(&old.metadata, change.metadata)?,
        paused: change.paused.unwrap_or(old.paused),
        ..old.clone()
    };
    let due = Recurrence::read(&spec.cron, &spec.timezone).map_err(Problem::invalid)?;
    let does_another = spec.run != old.run;
    let at_others =
        (&spec.cron, &spec.timezone, spec.skip_if_running) != (&old.cron, &old.timezone, old.skip_if_running);
    let begins_again = old.paused && !spec.paused;
    if does_another || at_others || begins_again {
        try_run(state, tx, &spec.run, maker.asker()).await?;
        spec.creators = if does_another { maker.creators } else { joined(&old.creators, maker.creators) };
        if spec.creators.len() > MAX_CREATORS {
            return Err(Problem::conflict(
                "Too many have changed when this is run. Make another schedule of it.",
            ));
        }
        spec.asker = maker.asker;
        spec.as_admin = maker.is_admin;
    }
    if spec != *old {
        spec.by = maker.by;
    }
    Ok((spec, due))
}

/// Both, each once. Nobody is dropped, or who changes it often enough could decide on what they wrote.
pub(crate) fn joined(old: &[String], new: Vec<String>) -> Vec<String> {
    let more = new.into_iter().filter(|name| !old.contains(name));
    old.iter().cloned().chain(more).collect()
}

fn merged(old: &Value, change: Option<Map<String, Value>>) -> Result<Value, Problem> {
    let mut all = old.as_object().cloned().unwrap_or_default();
    for (key, value) in change.into_iter().flatten() {
        if value.is_null() {
            all.remove(&key);
        } else {
            all.insert(key, value);
        }
    }
    if all.len() > MAX_METADATA {
        return Err(Problem::invalid_at("/metadata", format!("has at most {MAX_METADATA} keys")));
    }
    Ok(Value::Object(all))
}

/// Whether such a run would be accepted now, as far as that is the run's own matter. Nothing of the try stays.
async fn try_run(state: &AppState, tx: &mut TenantTx, run: &Value, asker: Asker) -> Result<(), Problem> {
    if run.to_string().len() > MAX_RUN {
        return Err(Problem::invalid_at("/run", format!("has at most {MAX_RUN} bytes")));
    }
    let place = tx.savepoint().await?;
    let new = admit::admit(state, tx, run_of(run)?, asker, TraceParent::none()).await.map_err(in_run)?;
    let tried = tx.run_try(&new).await?;
    tx.go_back(place).await?;
    tried.map_err(|refused| in_run(admit::refused(refused)))
}

/// The request that each of its runs is.
pub(super) fn run_of(run: &Value) -> Result<RunCreate, Problem> {
    field_error::read(run.clone()).map_err(|fault| in_run(Problem::invalid(vec![fault])))
}

/// What is wrong with its run, told of it.
pub(super) fn in_run(problem: Problem) -> Problem {
    problem.under("/run")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nobody_who_started_it_is_forgotten() {
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let both = joined(&names(&["key_1", "user:a"]), names(&["key_2", "user:a"]));
        assert_eq!(both, names(&["key_1", "user:a", "key_2"]));
    }

    #[test]
    fn metadata_is_set_removed_or_left() {
        let object = |value: Value| value.as_object().cloned();
        let old = json!({"a": "1", "b": "2"});
        let change = object(json!({"a": null, "c": "3", "d": null}));
        assert_eq!(merged(&old, change).expect("few"), json!({"b": "2", "c": "3"}));
        assert_eq!(merged(&old, None).expect("few"), old);
        let many: Map<String, Value> = (0..MAX_METADATA).map(|n| (n.to_string(), "x".into())).collect();
        assert_eq!(merged(&old, Some(many)).expect_err("too many").status(), 422);
    }
}
