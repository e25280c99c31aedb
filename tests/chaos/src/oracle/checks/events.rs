//! Events have no gaps, one end, and are what streams showed.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::text;
use crate::clients::lines::{Seen, end_of};
use crate::oracle::{Facts, RunFacts};
use crate::report::{Charge, Report};

const ENDS: [&str; 3] = ["run.finished", "run.failed", "run.cancelled"];

pub(crate) fn weigh(facts: &Facts, report: &mut Report) {
    for (run_id, known) in facts.runs.iter().filter(|(_, known)| !known.run.is_null()) {
        listed(run_id, known, report);
    }
    let mut streams: HashMap<&str, Vec<&Seen>> = HashMap::new();
    for seen in &facts.seen {
        streams.entry(&seen.run_id).or_default().push(seen);
    }
    for (run_id, seen) in streams {
        streamed(run_id, &seen, facts.runs.get(run_id), report);
    }
}

fn listed(run_id: &str, known: &RunFacts, report: &mut Report) {
    let seqs = known.events.iter().map(|event| event["seq"].as_u64().unwrap_or_default());
    if !seqs.clone().eq(1..=known.events.len() as u64) {
        report.charge(Charge::Gap, format!("{run_id}: {:?}", seqs.collect::<Vec<u64>>()));
    }
    let ids: HashSet<&str> = known.events.iter().map(|event| text(event, "id")).collect();
    if ids.len() != known.events.len() {
        report.charge(Charge::Stale, format!("{run_id}: two events have one id"));
    }
    let ends = known.events.iter().filter(|event| ENDS.contains(&text(event, "type"))).count();
    let has_ended = end_of(&known.run).is_some();
    if ends != usize::from(has_ended) {
        report.charge(
            Charge::DoubleEnd,
            format!("{run_id} ({}) has {ends} terminal events", known.run["status"]),
        );
    } else if has_ended {
        let last = known.events.last().unwrap_or(&Value::Null);
        let wanted = format!("run.{}", text(&known.run, "status"));
        let says = [&last["data"]["status"], &last["data"]["stop_reason"]];
        if text(last, "type") != wanted || says != [&known.run["status"], &known.run["stop_reason"]] {
            report.charge(Charge::DoubleEnd, format!("{run_id} is {wanted}, its last event {last}"));
        }
    }
}

/// Each event once and in order; and what a stream showed is what the list says.
fn streamed(run_id: &str, seen: &[&Seen], known: Option<&RunFacts>, report: &mut Report) {
    let seqs = seen.iter().map(|seen| seen.seq);
    if !seqs.clone().eq(1..=seen.len() as u64) {
        report.charge(Charge::Gap, format!("the stream of {run_id}: {:?}", seqs.collect::<Vec<u64>>()));
    }
    let events = known.map_or(&[][..], |known| known.events.as_slice());
    let listed: HashMap<u64, &Value> =
        events.iter().filter_map(|event| Some((event["seq"].as_u64()?, event))).collect();
    for seen in seen {
        let same = listed
            .get(&seen.seq)
            .is_some_and(|event| text(event, "id") == seen.id && text(event, "type") == seen.kind);
        if !same {
            let now = listed.get(&seen.seq).map_or("nothing".to_owned(), |event| event.to_string());
            report.charge(Charge::Stale, format!("{run_id}: a stream showed {seen:?}, and now it is {now}"));
        }
    }
}
