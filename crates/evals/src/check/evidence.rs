//! Ledger, traffic, counts, and what the model was shown.

use serde_json::Value;

use super::Findings;
use crate::case::{Expect, LedgerExpected, ModelSaw, Range};
use crate::observed::Shown;
use crate::{Observed, shown};

/// Each expected entry takes the first of the ledger's that fits and is not taken.
pub(super) fn check_ledger(expected: &[LedgerExpected], ledger: &[Value], findings: &mut Findings) {
    let mut free: Vec<&Value> = ledger.iter().collect();
    if expected.is_empty() && !free.is_empty() {
        findings.add("expect.ledger", "no entry", told(&free));
    }
    for (n, wanted) in expected.iter().enumerate() {
        match free.iter().position(|entry| is_entry(wanted, entry)) {
            Some(at) => drop(free.remove(at)),
            None => findings.add(format!("expect.ledger[{n}]"), as_json(wanted), told(&free)),
        }
    }
}

fn told(entries: &[&Value]) -> String {
    let all: Vec<String> = entries.iter().map(|entry| as_json(&brief(entry))).collect();
    if all.is_empty() { "no other entry".to_owned() } else { all.join("; ") }
}

fn as_json(entry: &LedgerExpected) -> String {
    serde_json::to_value(entry).map(|entry| shown::json(&entry)).unwrap_or_default()
}

fn is_entry(wanted: &LedgerExpected, entry: &Value) -> bool {
    let is = |name: &str, wanted: &Option<String>| {
        wanted.as_ref().is_none_or(|wanted| entry.get(name).and_then(Value::as_str) == Some(wanted))
    };
    let attempts = entry.get("attempts").and_then(Value::as_u64).unwrap_or(0);
    let state = entry.pointer("/resolution/state").and_then(Value::as_str);
    is("tool_name", &wanted.tool_name)
        && is("status", &wanted.status)
        && is("side_effect", &wanted.side_effect)
        && is("error_code", &wanted.error_code)
        && wanted.attempts.is_none_or(|range| range.has(attempts))
        && wanted.resolution.as_deref().is_none_or(|wanted| state == Some(wanted))
}

/// An entry as an expectation would name it.
fn brief(entry: &Value) -> LedgerExpected {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
    LedgerExpected {
        tool_name: text("tool_name"),
        status: text("status"),
        side_effect: text("side_effect"),
        attempts: entry.get("attempts").and_then(Value::as_u64).map(Range::exactly),
        error_code: text("error_code"),
        resolution: entry.pointer("/resolution/state").and_then(Value::as_str).map(str::to_owned),
    }
}

/// What reached the scripted tools.
pub(super) fn check_traffic(expect: &Expect, observed: &Observed, findings: &mut Findings) {
    let Some(tools) = &observed.tools else {
        for (place, counts) in [("effects", &expect.effects), ("requests", &expect.requests)] {
            if !counts.is_empty() {
                findings.add(
                    format!("expect.{place}"),
                    "scripted tools, whose requests are counted",
                    "others",
                );
            }
        }
        return;
    };
    let of = |name: &str| tools.get(name).copied().unwrap_or_default();
    for (name, range) in &expect.effects {
        findings.count(&format!("effects.{name}"), Some(range), of(name).effects);
    }
    for (name, range) in &expect.requests {
        findings.count(&format!("requests.{name}"), Some(range), of(name).requests);
    }
}

pub(super) fn check_counts(expect: &Expect, observed: &Observed, findings: &mut Findings) {
    let length = |list: &[Value]| u64::try_from(list.len()).unwrap_or(u64::MAX);
    let uncertain = observed.run.get("uncertain").and_then(Value::as_array).map_or(0, |list| length(list));
    findings.count("uncertain", expect.uncertain.as_ref(), uncertain);
    findings.count("artifacts", expect.artifacts.as_ref(), length(&observed.artifacts));
    findings.count("approvals", expect.approvals.as_ref(), length(&observed.approvals));
    findings.count("steps", expect.steps.as_ref(), observed.used("steps"));
    findings.count("tool_calls", expect.tool_calls.as_ref(), observed.used("tool_calls"));
    findings.count("tokens", expect.tokens.as_ref(), observed.used("tokens"));
    findings.count("cost_microusd", expect.cost_microusd.as_ref(), observed.used("cost_microusd"));
    match (observed.model_requests, &expect.model_requests) {
        (Some(requests), range) => findings.count("model_requests", range.as_ref(), requests),
        (None, Some(_)) => {
            findings.add("expect.model_requests", "a scripted model, whose requests are counted", "another");
        }
        (None, None) => {}
    }
    let took = u64::try_from(observed.took.as_millis()).unwrap_or(u64::MAX);
    findings.count("duration_ms", expect.duration_ms.as_ref(), took);
}

pub(super) fn check_shown(saw: &ModelSaw, requests: &[Shown], findings: &mut Findings) {
    for word in
        saw.contains.0.iter().filter(|word| !requests.iter().any(|shown| shown.text.contains(word.as_str())))
    {
        let got = format!("{} requests without it", requests.len());
        findings.add("expect.model_saw.contains", format!("{} in a request", shown::quoted(word)), got);
    }
    for (n, shown) in (1..).zip(requests) {
        findings.words(&format!("model_saw.lacks (request {n})"), &saw.lacks.0, &shown.text, false);
    }
    let longest = requests.iter().map(|shown| shown.text.chars().count()).max().unwrap_or(0);
    findings.count("model_saw.chars", saw.chars.as_ref(), longest.try_into().unwrap_or(u64::MAX));
    let roles = requests.last().map(|shown| shown.roles.as_slice()).unwrap_or_default();
    if !saw.roles.is_empty() && saw.roles.0 != roles {
        let list = |roles: &[String]| shown::list(roles.iter().map(String::as_str));
        findings.add("expect.model_saw.roles", list(&saw.roles.0), list(roles));
    }
}
