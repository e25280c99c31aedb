//! The model is asked once a turn, but for deaths and failures, and always with a history that providers accept.

use std::collections::{BTreeMap, HashMap};

use super::text;
use crate::clients::lines::Accepted;
use crate::oracle::{Facts, RunFacts, stage_log};
use crate::report::{Charge, Report};
use crate::world::lines::ModelLine;

pub(crate) fn weigh(facts: &Facts, report: &mut Report) {
    let accepted: HashMap<&str, &Accepted> =
        facts.accepted.iter().map(|run| (run.tag.as_str(), run)).collect();
    let mut by_tag: BTreeMap<&str, Vec<&ModelLine>> = BTreeMap::new();
    for line in &facts.model {
        if let Some(violation) = &line.violation {
            report.charge(Charge::History, format!("{} turn {}: {violation}", line.tag, line.turn));
        }
        by_tag.entry(&line.tag).or_default().push(line);
    }
    for (tag, lines) in by_tag {
        let run = accepted.get(tag).and_then(|run| Some((*run, facts.runs.get(&run.run_id)?)));
        if let Some((run, known)) = run {
            often(run, known, &lines, facts, report);
        }
    }
}

fn often(run: &Accepted, known: &RunFacts, lines: &[&ModelLine], facts: &Facts, report: &mut Report) {
    let mut turns: BTreeMap<usize, usize> = BTreeMap::new();
    for line in lines {
        *turns.entry(line.turn).or_default() += 1;
    }
    let again = lines.len() - turns.len();
    let failed = known.events.iter().filter(|event| text(event, "type") == "model.failed").count();
    let attempts = known.run["attempt"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
    let last = lines.iter().map(|line| line.at_ms).max().unwrap_or_default();
    // A server that leaves hands a run back in the middle of a turn, and that is no death.
    let deaths = stage_log::deaths(&facts.stage, run.asked_ms, last);
    let upsets = stage_log::upsets(&facts.stage, run.asked_ms, last);
    let explained = failed + attempts.saturating_sub(1) + deaths + upsets;
    if again > explained {
        let what = format!(
            "{} ({}): {turns:?}, {failed} failures, attempt {attempts}, {deaths} deaths",
            run.run_id, run.tag
        );
        report.charge(Charge::ModelAgain, what);
    }
}
