//! Who asks the world: one owner at a time, and never again for a write that may have happened.

use std::collections::{BTreeMap, HashMap};

use crate::oracle::stage_log::{Stopped, is_excused, is_troubled, stopped};
use crate::oracle::{Facts, Request};
use crate::report::{Charge, Report};
use crate::world::kinds::{FIND, kind_of};

/// Two requests of one key may both be open for so long: the end of one is noticed when the world comes to it.
const BOTH_OPEN_MS: u64 = 250;
/// How long a cancel may take to reach a run's owner, and how long while something is broken.
const CANCEL_MS: (u64, u64) = (1500, 5000);

pub(crate) fn weigh(facts: &Facts, report: &mut Report) {
    let stopped = stopped(&facts.stage);
    let mut by_key: BTreeMap<(&str, &str), Vec<&Request>> = BTreeMap::new();
    for request in facts.requests.iter().filter(|request| request.began.tool != FIND) {
        by_key.entry((&request.began.tool, &request.began.key)).or_default().push(request);
    }
    for requests in by_key.values() {
        order(requests, &stopped, report);
        overlaps(requests, &stopped, report);
        one_call(requests, report);
        again(requests, &facts.requests, report);
    }
    cancelled(facts, &stopped, report);
}

/// Attempts rise. One that is not new comes from somebody who is no longer the owner.
fn order(requests: &[&Request], stopped: &[Stopped], report: &mut Report) {
    let mut highest = 0;
    for request in requests {
        let is_refused = request.how().starts_with("refused");
        if request.began.attempt > highest && !is_refused {
            highest = request.began.attempt;
            continue;
        }
        if is_excused(stopped, request.began.at_ms) {
            report.late_and_refused += usize::from(is_refused);
        } else {
            report.charge(Charge::Stale, format!("after attempt {highest} came {}", told(request)));
        }
    }
}

fn overlaps(requests: &[&Request], stopped: &[Stopped], report: &mut Report) {
    for (n, later) in requests.iter().enumerate() {
        let is_open = |first: &&&Request| {
            first.ended.as_ref().is_none_or(|(at_ms, _)| *at_ms > later.began.at_ms + BOTH_OPEN_MS)
        };
        if let Some(first) = requests[..n].iter().find(is_open)
            && !is_excused(stopped, later.began.at_ms)
        {
            report.charge(Charge::Stale, format!("both open: {} and {}", told(first), told(later)));
        }
    }
}

/// A key belongs to one call, a business key too.
fn one_call(requests: &[&Request], report: &mut Report) {
    let first = requests[0];
    if let Some(other) = requests.iter().find(|request| request.began.call_id != first.began.call_id) {
        report
            .charge(Charge::Repeated, format!("two calls have one key: {} and {}", told(first), told(other)));
    }
}

/// A write that doesn't dedupe is asked for again only after an answer that says "not done", or a lookup that does.
fn again(requests: &[&Request], all: &[Request], report: &mut Report) {
    let is_once = kind_of(&requests[0].began.tool).is_some_and(|tool| tool.writes && !tool.dedupes);
    if !is_once {
        return;
    }
    for pair in requests.windows(2) {
        let (first, next) = (pair[0], pair[1]);
        let is_not_done = first.how() == "answered 503" || first.how().starts_with("refused");
        let looked_up = all.iter().any(|look| {
            look.began.tool == FIND
                && look.began.token == first.began.key
                && look.how() == "said not_applied"
                && (first.began.n..next.began.n).contains(&look.began.n)
        });
        // What was refused had no effect; whether it may come at all is another question.
        if !is_not_done && !looked_up && !next.how().starts_with("refused") {
            report.charge(Charge::Repeated, format!("asked again: {}, then {}", told(first), told(next)));
        }
    }
}

fn cancelled(facts: &Facts, stopped: &[Stopped], report: &mut Report) {
    let cancels: HashMap<&str, u64> = facts
        .told
        .iter()
        .filter(|told| {
            told.what == "cancel" && !["finished", "failed", "cancelled"].contains(&told.shown.as_str())
        })
        .map(|told| (told.run_id.as_str(), told.at_ms))
        .collect();
    for request in &facts.requests {
        let began = &request.began;
        let Some(at_ms) = cancels.get(began.run_id.as_str()) else { continue };
        let grace = if is_troubled(&facts.stage, *at_ms) { CANCEL_MS.1 } else { CANCEL_MS.0 };
        let writes = kind_of(&began.tool).is_some_and(|tool| tool.writes);
        if writes && began.at_ms > at_ms + grace && !is_excused(stopped, began.at_ms) {
            let after = began.at_ms - at_ms;
            report.charge(Charge::Cancel, format!("{after} ms after its cancel: {}", told(request)));
        }
    }
}

fn told(request: &Request) -> String {
    let began = &request.began;
    let (tool, token, key, run, attempt) =
        (&began.tool, &began.token, &began.key, &began.run_id, began.attempt);
    let (from, to) = (began.at_ms, request.ended.as_ref().map_or(0, |(at_ms, _)| *at_ms));
    format!(
        "{tool} {token} attempt {attempt} of {run} under {key} by {}, {from}–{to} ({})",
        began.peer,
        request.how()
    )
}
