//! The ledger says what is so; what nobody knows for a while is settled, and truly.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::text;
use crate::clients::lines::end_of;
use crate::oracle::{Facts, RunFacts};
use crate::report::{Charge, Report};
use crate::world::kinds::kind_of;

pub(crate) fn weigh(facts: &Facts, report: &mut Report) {
    let done: HashSet<(&str, &str)> =
        facts.effects.iter().map(|e| (e.tool.as_str(), e.key.as_str())).collect();
    let mut known = HashSet::new();
    for (run_id, of) in &facts.runs {
        for entry in &of.ledger {
            let (tool, key) = (text(entry, "tool_name"), text(entry, "idempotency_key"));
            known.insert((tool, key));
            if kind_of(tool).is_some_and(|kind| kind.writes) {
                truth(entry, done.contains(&(tool, key)), report);
                if let Some(how) = settled(entry, of) {
                    *report.uncertain.entry(how).or_default() += 1;
                }
            }
            if end_of(&of.run).is_some() && entry["status"] == "started" {
                report.charge(Charge::OpenEntry, format!("{run_id} has ended, and {entry}"));
            }
        }
    }
    unlisted(facts, &known, report);
}

fn truth(entry: &Value, is_done: bool, report: &mut Report) {
    let resolved = text(&entry["resolution"], "state");
    let is_false = match (text(entry, "status"), text(entry, "side_effect")) {
        ("succeeded", "committed") => !is_done,
        ("failed", "none") => is_done,
        ("uncertain", "possible") | ("started", _) => false,
        _ => true,
    };
    let is_misjudged = (resolved == "applied" && !is_done) || (resolved == "not_applied" && is_done);
    if is_false || is_misjudged {
        let truth = if is_done { "it was done" } else { "it was not done" };
        report.charge(Charge::FalseLedger, format!("{truth}: {entry}"));
    }
}

/// How a call that was uncertain for a while was settled; `None`: it never was.
fn settled(entry: &Value, of: &RunFacts) -> Option<&'static str> {
    let asked = of.events.iter().any(|event| {
        event["type"] == "tool.reconciled" && event["data"]["tool_call_id"] == entry["tool_call_id"]
    });
    if entry["resolution"].is_object() {
        return Some("by a person");
    }
    match text(entry, "status") {
        "uncertain" if of.run["stop_reason"] == "side_effect_uncertain" => Some("the run stopped"),
        "uncertain" if of.run["stop_reason"] == "cancelled" => Some("cancelled meanwhile"),
        "uncertain" => Some("the model was told"),
        _ if asked => Some("by lookup"),
        _ => None,
    }
}

/// No effect without an intent.
fn unlisted(facts: &Facts, known: &HashSet<(&str, &str)>, report: &mut Report) {
    let accepted: HashMap<&str, bool> =
        facts.runs.iter().map(|(id, of)| (id.as_str(), !of.run.is_null())).collect();
    for effect in &facts.effects {
        let is_shown = accepted.get(effect.run_id.as_str()).copied().unwrap_or_default();
        if is_shown && !known.contains(&(effect.tool.as_str(), effect.key.as_str())) {
            report.charge(Charge::FalseLedger, format!("no entry for the effect {effect:?}"));
        }
    }
}
