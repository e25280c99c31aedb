//! How long runs stood still, by the world's clock.

use std::collections::HashMap;

use crate::oracle::Facts;
use crate::report::Report;

/// Kinds of runs that never wait for a person.
const WAIT_FOR_NOBODY: [&str; 4] = ["read", "long", "ship", "slow_ship"];

pub(crate) fn weigh(facts: &Facts, report: &mut Report) {
    let mut heard: HashMap<&str, Vec<u64>> = HashMap::new();
    let kinds = facts.accepted.iter().filter(|run| WAIT_FOR_NOBODY.contains(&run.kind.as_str()));
    let tags: HashMap<&str, &str> = kinds.map(|run| (run.tag.as_str(), run.run_id.as_str())).collect();
    for line in &facts.model {
        if let Some(run_id) = tags.get(line.tag.as_str()) {
            heard.entry(run_id).or_default().push(line.at_ms);
        }
    }
    for request in &facts.requests {
        if let Some(heard) = heard.get_mut(request.began.run_id.as_str()) {
            heard.push(request.began.at_ms);
            heard.extend(request.ended.as_ref().map(|(at_ms, _)| *at_ms));
        }
    }
    for mut moments in heard.into_values() {
        moments.sort_unstable();
        report.silences.extend(moments.windows(2).map(|pair| pair[1] - pair[0]).max());
    }
}
