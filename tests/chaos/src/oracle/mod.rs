//! The judge. It believes the witnesses, and holds against them what the API says.
//!
//! [`weigh`] is pure: from facts to a report. What a stage that stops processes may excuse it reads from the stage's
//! journal: between `stop` and `cont` of a server, and a moment after, what that server had begun may still arrive.

mod checks;
mod facts;
mod gather;
mod stage_log;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use crate::clients::Clients;
use crate::report::Report;

pub use facts::{Facts, Request, RunFacts};

/// Reads the logs in `dir`, asks the API about every accepted run, and judges.
///
/// # Errors
/// A log can't be written to its end, or read.
pub async fn judge(dir: &Path, clients: &Clients) -> io::Result<Report> {
    clients.settled().await?;
    clients.world_settled().await?;
    let mut facts = Facts::read(dir)?;
    gather::gather(&mut facts, &clients.caller()).await;
    // For whoever must find out why: the servers and their database are gone soon.
    facts.keep(dir)?;
    Ok(weigh(&facts))
}

/// Judges.
#[must_use]
pub fn weigh(facts: &Facts) -> Report {
    let mut report = Report {
        faults: stage_log::faults(&facts.stage),
        runs: facts.accepted.len(),
        effects: facts.effects.len(),
        requests: facts.requests.len(),
        takeovers: stage_log::takeovers(&facts.stage),
        ..Report::default()
    };
    checks::runs::weigh(facts, &mut report);
    checks::events::weigh(facts, &mut report);
    checks::effects::weigh(facts, &mut report);
    checks::ledger::weigh(facts, &mut report);
    checks::requests::weigh(facts, &mut report);
    checks::told::weigh(facts, &mut report);
    checks::model::weigh(facts, &mut report);
    checks::silence::weigh(facts, &mut report);
    report
}
