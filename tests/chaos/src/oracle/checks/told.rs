//! What somebody was told holds.

use std::collections::HashMap;

use serde_json::Value;

use super::text;
use crate::clients::lines::Told;
use crate::oracle::{Facts, RunFacts};
use crate::report::{Charge, Report};

pub(crate) fn weigh(facts: &Facts, report: &mut Report) {
    let nothing = RunFacts::default();
    for told in &facts.told {
        let known = facts.runs.get(&told.run_id).unwrap_or(&nothing);
        let broken = match told.what.as_str() {
            // A run that is gone is charged as lost.
            _ if known.run.is_null() => None,
            "cancel" => cancel(told, known),
            "decision" => decision(told, known),
            "settled" => settled(told, known),
            "tool_result" => tool_result(told, known),
            "steer" => steer(told, known),
            "budget" => budget(told, known),
            _ => None,
        };
        if let Some(why) = broken {
            report.charge(Charge::Promise, format!("{told:?}: {why}"));
        }
    }
    two_words(facts, report);
    edited(facts, report);
}

fn cancel(told: &Told, known: &RunFacts) -> Option<String> {
    let status = text(&known.run, "status");
    let wanted = match told.shown.as_str() {
        "finished" | "failed" => told.shown.as_str(),
        _ => "cancelled",
    };
    (status != wanted).then(|| format!("the run is {status}"))
}

fn decision(told: &Told, known: &RunFacts) -> Option<String> {
    let approval = known.approvals.iter().find(|approval| text(approval, "id") == told.id);
    let status = approval.map_or("", |approval| text(approval, "status"));
    let wanted = if told.word == "deny" { "denied" } else { "approved" };
    (status != wanted).then(|| format!("the approval is {status:?}"))
}

fn settled(told: &Told, known: &RunFacts) -> Option<String> {
    let entry = known.ledger.iter().find(|entry| text(entry, "id") == told.id).unwrap_or(&Value::Null);
    (text(&entry["resolution"], "state") != told.word).then(|| format!("the entry is {entry}"))
}

fn tool_result(told: &Told, known: &RunFacts) -> Option<String> {
    // A cancel goes before what was not yet taken in.
    if known.run["status"] == "cancelled" {
        return None;
    }
    let call = known.calls.iter().find(|call| text(call, "id") == told.id).unwrap_or(&Value::Null);
    (text(&call["result"], "content") != told.word).then(|| format!("the call is {call}"))
}

/// Whoever ends by the model's answer has been told everything before.
fn steer(told: &Told, known: &RunFacts) -> Option<String> {
    let is_there = known.messages.iter().any(|message| {
        text(message, "id") == told.id && text(message, "content") == told.word && message["seq"].is_u64()
    });
    (known.run["stop_reason"] == "final_answer" && !is_there)
        .then(|| "the message is not in its history".to_owned())
}

fn budget(told: &Told, known: &RunFacts) -> Option<String> {
    let limit = &known.run["budgets"]["max_steps"];
    (known.run["stop_reason"] == "final_answer" && limit != &told.input["max_steps"])
        .then(|| format!("the limit is {limit}"))
}

/// Of two different words about one thing only one can have been taken.
fn two_words(facts: &Facts, report: &mut Report) {
    let mut first: HashMap<(&str, &str), &Told> = HashMap::new();
    for told in
        facts.told.iter().filter(|told| ["decision", "settled", "tool_result"].contains(&told.what.as_str()))
    {
        let known = *first.entry((&told.what, &told.id)).or_insert(told);
        if known.word != told.word || known.input != told.input {
            report.charge(Charge::Promise, format!("both were taken: {known:?} and {told:?}"));
        }
    }
}

/// What a person changed is what was done.
fn edited(facts: &Facts, report: &mut Report) {
    let edits = facts.told.iter().filter(|told| told.what == "decision" && told.input.is_object());
    for told in edits {
        let approvals = facts.runs.get(&told.run_id).map_or(&[][..], |known| known.approvals.as_slice());
        let Some(approval) = approvals.iter().find(|approval| text(approval, "id") == told.id) else {
            continue;
        };
        let call_id = text(approval, "tool_call_id");
        let other =
            facts.effects.iter().find(|effect| effect.call_id == call_id && effect.input != told.input);
        if let Some(effect) = other {
            report.charge(Charge::Promise, format!("{told:?}: {effect:?} was done"));
        }
    }
}
