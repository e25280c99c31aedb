//! The last words of a round.

use super::{Outcome, say};

/// Prints what was checked and what was found; the last line sums it up.
pub fn tell(outcome: &Outcome) {
    for (kind, times) in &outcome.faults {
        say(format!("{times:>4} x {kind}"));
    }
    for finding in &outcome.findings {
        say(format!("RED  {}: {}", finding.check, finding.detail));
    }
    say(outcome.report.to_string());
}
