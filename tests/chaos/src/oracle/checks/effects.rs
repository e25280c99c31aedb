//! An effect happens once.

use std::collections::{HashMap, HashSet};

use super::text;
use crate::oracle::Facts;
use crate::report::{Charge, Report};
use crate::world::lines::Effect;

pub(crate) fn weigh(facts: &Facts, report: &mut Report) {
    twice(facts, report);
    denied(facts, report);
}

/// By what was done, whatever the keys say, and by the keys.
fn twice(facts: &Facts, report: &mut Report) {
    let mut tokens: HashMap<(&str, &str), &Effect> = HashMap::new();
    let mut keys: HashMap<(&str, &str), &Effect> = HashMap::new();
    for effect in &facts.effects {
        let first = *tokens.entry((&effect.tool, &effect.token)).or_insert(effect);
        let same_key = *keys.entry((&effect.tool, &effect.key)).or_insert(effect);
        let again = [first, same_key].into_iter().find(|first| !std::ptr::eq(*first, effect));
        if let Some(first) = again {
            let told = |e: &Effect| format!("{} attempt {} of {} at {}", e.key, e.attempt, e.run_id, e.at_ms);
            let what = format!("{} {}: {}, again {}", effect.tool, effect.token, told(first), told(effect));
            report.charge(Charge::Repeated, what);
        }
    }
}

fn denied(facts: &Facts, report: &mut Report) {
    let approvals = facts.runs.values().flat_map(|known| &known.approvals);
    let denied: HashSet<&str> = approvals
        .filter(|approval| approval["kind"] == "tool_call" && approval["status"] == "denied")
        .map(|approval| text(approval, "tool_call_id"))
        .collect();
    for effect in facts.effects.iter().filter(|effect| denied.contains(effect.call_id.as_str())) {
        report.charge(Charge::Denied, format!("{} of {}: {}", effect.call_id, effect.run_id, effect.token));
    }
}
