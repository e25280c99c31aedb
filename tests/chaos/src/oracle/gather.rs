//! Asking the API about every accepted run.

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::Value;
use tokio::time::sleep;

use super::facts::{Facts, RunFacts};
use crate::clients::lines::{Told, end_of};
use crate::clients::{Answer, Ask, Caller};

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long a call may still be out after its run's end: the time-out of the slowest tool, a lease, and some.
const LATE: Duration = Duration::from_secs(20);
/// Requests at once.
const AT_ONCE: usize = 12;

/// Fills in what the API says.
pub(super) async fn gather(facts: &mut Facts, caller: &Caller) {
    let until = Instant::now() + PATIENCE;
    let ids: Vec<String> = facts.accepted.iter().map(|run| run.run_id.clone()).collect();
    let asked = ids.iter().map(|id| {
        let told: Vec<&Told> = facts.told.iter().filter(|told| &told.run_id == id).collect();
        async move { (id.clone(), run(caller, id, &told, until).await) }
    });
    let runs = futures::stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
    facts.runs = runs;
}

async fn run(caller: &Caller, id: &str, told: &[&Told], until: Instant) -> RunFacts {
    let shown = shown(caller, id, until).await;
    if shown.is_null() {
        return RunFacts::default();
    }
    let is_told = |what: &str| told.iter().any(|told| told.what == what);
    let list = |what: &str| {
        let path = format!("/v1/runs/{id}/{what}");
        async move { caller.list(&path, until).await.unwrap_or_default() }
    };
    let steps = if is_told("tool_result") { list("steps").await } else { Vec::new() };
    let calls = steps.iter().filter_map(|step| step["tool_calls"].as_array()).flatten().cloned().collect();
    let ledger = ledger(caller, id, end_of(&shown).is_some(), until).await;
    RunFacts {
        events: list("events").await,
        ledger,
        approvals: if is_told("decision") || shown["status"] == "waiting_approval" {
            list("approvals").await
        } else {
            Vec::new()
        },
        messages: if is_told("steer") { list("messages").await } else { Vec::new() },
        calls,
        run: shown,
    }
}

/// The run; null: there is none.
async fn shown(caller: &Caller, id: &str, until: Instant) -> Value {
    let ask = Ask::get(format!("/v1/runs/{id}")).until(until);
    caller.ask(&ask).await.filter(Answer::is_ok).map(|answer| answer.body).unwrap_or_default()
}

/// The ledger; of a run that has ended, when nothing of it is out any more.
async fn ledger(caller: &Caller, id: &str, has_ended: bool, until: Instant) -> Vec<Value> {
    let late = Instant::now() + LATE;
    loop {
        let entries = caller.list(&format!("/v1/runs/{id}/ledger"), until).await.unwrap_or_default();
        let is_out = has_ended && entries.iter().any(|entry| entry["status"] == "started");
        if !is_out || Instant::now() >= late.min(until) {
            return entries;
        }
        sleep(Duration::from_millis(300)).await;
    }
}
