//! The last words of a round.

use super::{Outcome, say};

/// Prints what was checked and what was found; the last line sums it up.
pub fn tell(outcome: &Outcome) {
    say(outcome.tally.to_string());
    for finding in &outcome.findings {
        say(format!("RED  {}: {}", finding.check, finding.detail));
    }
    say(outcome.report.to_string());
}
