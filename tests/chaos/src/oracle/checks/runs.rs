//! Every accepted run ends or waits for a person; its end never changes; one request gives one run.

use std::collections::HashMap;

use serde_json::Value;

use super::text;
use crate::clients::lines::{Accepted, end_of};
use crate::oracle::{Facts, stage_log};
use crate::report::{Charge, Report};

/// Deaths of one step after which a run is given up.
const DELIVERIES: usize = 6;

pub(crate) fn weigh(facts: &Facts, report: &mut Report) {
    for accepted in &facts.accepted {
        let run = facts.runs.get(&accepted.run_id).map_or(&Value::Null, |known| &known.run);
        end(accepted, run, report);
    }
    two_runs(facts, report);
    changed_ends(facts, report);
    poison(facts, report);
    early(facts, report);
    for odd in &facts.odd {
        report.charge(Charge::Odd, &odd.what);
    }
}

fn end(accepted: &Accepted, run: &Value, report: &mut Report) {
    let Accepted { run_id, tag, kind, .. } = accepted;
    match text(run, "status") {
        "" => report.charge(Charge::Lost, format!("{run_id} ({tag}, {kind}) is gone")),
        status @ ("finished" | "failed" | "cancelled") => {
            let reason = text(run, "stop_reason");
            let fits = match status {
                "finished" => reason == "final_answer",
                "cancelled" => reason == "cancelled",
                _ => !["", "final_answer", "cancelled", "internal_error"].contains(&reason),
            };
            if !fits {
                report.charge(
                    Charge::Odd,
                    format!("{run_id} ({tag}, {kind}) ended {status}: {reason:?}, {}", run["error"]),
                );
            }
            *report.ended.entry(reason.to_owned()).or_default() += 1;
        }
        status => {
            let waits = |list: &str| run[list].as_array().is_some_and(|list| !list.is_empty());
            if waits("pending_approvals") || waits("pending_tool_calls") {
                report.waiting += 1;
            } else {
                report.charge(Charge::Lost, format!("{run_id} ({tag}, {kind}) is still {status}"));
            }
        }
    }
}

/// By what was accepted, and by who asked the world for what.
fn two_runs(facts: &Facts, report: &mut Report) {
    let mut runs: HashMap<&str, &str> = HashMap::new();
    for Accepted { tag, run_id, .. } in &facts.accepted {
        let first = runs.entry(tag).or_insert(run_id);
        if *first != run_id {
            report.charge(Charge::TwoRuns, format!("{tag}: {first} and {run_id}"));
        }
    }
    for request in &facts.requests {
        let tag = request.began.token.split('/').next().unwrap_or_default();
        let other = runs.get(tag).filter(|run_id| **run_id != request.began.run_id);
        if let Some(run_id) = other {
            report.charge(
                Charge::TwoRuns,
                format!("{tag}: {run_id} was accepted, {} works", request.began.run_id),
            );
        }
    }
}

fn changed_ends(facts: &Facts, report: &mut Report) {
    let mut first: HashMap<&str, &Value> = HashMap::new();
    for seen in &facts.ends {
        let known = *first.entry(&seen.run_id).or_insert(&seen.end);
        if known != &seen.end {
            report.charge(
                Charge::Stale,
                format!("the end of {} changed from {known} to {}", seen.run_id, seen.end),
            );
        }
    }
    for (run_id, known) in first {
        let now = facts.runs.get(run_id).and_then(|facts| end_of(&facts.run));
        if now.as_ref() != Some(known) {
            let now = now.unwrap_or_default();
            report.charge(Charge::Stale, format!("the end of {run_id} was {known} and is {now}"));
        }
    }
}

/// Runs that kill servers are given up, and no others: a run's owner can't have died more often than servers did, a lease
/// apart.
fn poison(facts: &Facts, report: &mut Report) {
    let seen: HashMap<&str, u64> =
        facts.ends.iter().rev().map(|end| (end.run_id.as_str(), end.at_ms)).collect();
    for Accepted { run_id, tag, kind, asked_ms, .. } in
        facts.accepted.iter().filter(|run| run.kind != "poison")
    {
        let run = facts.runs.get(run_id).map_or(&Value::Null, |known| &known.run);
        let deaths = stage_log::owners_died(
            &facts.stage,
            *asked_ms,
            seen.get(run_id.as_str()).copied().unwrap_or(u64::MAX),
        );
        if run["stop_reason"] == "crash_loop" && deaths < DELIVERIES {
            let what = format!(
                "{run_id} ({tag}, {kind}) was given up: {}; that can be {deaths} at most",
                run["error"]["message"]
            );
            report.charge(Charge::CrashLoop, what);
        }
    }
    for Accepted { run_id, .. } in facts.accepted.iter().filter(|run| run.kind == "poison") {
        let reason = facts.runs.get(run_id).map(|facts| text(&facts.run, "stop_reason")).unwrap_or_default();
        let of_it = facts.requests.iter().filter(|r| r.began.tool == "poison" && &r.began.run_id == run_id);
        let deliveries = of_it.count();
        if reason != "crash_loop" || deliveries > DELIVERIES {
            report.charge(
                Charge::CrashLoop,
                format!("{run_id} ended as {reason:?} after {deliveries} deliveries"),
            );
        }
    }
}

/// A run's time is over when it is, whatever a server's clock says. A step of the database's own clock is excused: that
/// clock is the one that counts.
fn early(facts: &Facts, report: &mut Report) {
    for seen in facts.ends.iter().filter(|seen| seen.end["stop_reason"] == "timeout") {
        let Some(accepted) = facts.accepted.iter().find(|run| run.run_id == seen.run_id) else { continue };
        let limit = facts.runs.get(&seen.run_id).and_then(|of| of.run["budgets"]["timeout_ms"].as_u64());
        let lasted = seen.at_ms.saturating_sub(accepted.asked_ms);
        if limit.is_some_and(|limit| lasted < limit)
            && !stage_log::database_clock_moved(&facts.stage, seen.at_ms)
        {
            let what = format!(
                "{} ({}) timed out after {lasted} ms, {limit:?} were its own",
                seen.run_id, accepted.tag
            );
            report.charge(Charge::Odd, what);
        }
    }
}
