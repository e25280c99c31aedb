//! What a scene must have shown.

use serde_json::Value;

use super::screen::{Screen, Tone};

/// Says on the spot what held and what didn't, and keeps what didn't for the end.
pub(super) struct Checks {
    screen: Screen,
    scripted: bool,
    failures: Vec<String>,
}

impl Checks {
    pub(super) fn new(screen: Screen, scripted: bool) -> Self {
        Self { screen, scripted, failures: Vec::new() }
    }

    /// Must hold whatever the model says: the runtime's own promise.
    pub(super) fn promise(&mut self, holds: bool, what: &str) {
        self.say(holds, what, true);
    }

    /// Follows from what the scripted model does. A real one may do otherwise: then it is only told.
    pub(super) fn story(&mut self, holds: bool, what: &str) {
        self.say(holds, what, self.scripted);
    }

    fn say(&mut self, holds: bool, what: &str, matters: bool) {
        match (holds, matters) {
            (true, _) => self.screen.line(Tone::Good, &format!("     ✓ {what}")),
            (false, false) => self.screen.line(Tone::Careful, &format!("     – not this time: {what}")),
            (false, true) => {
                self.screen.line(Tone::Bad, &format!("     ✗ {what}"));
                self.failures.push(what.to_owned());
            }
        }
    }

    /// What did not hold.
    pub(super) fn failures(self) -> Vec<String> {
        self.failures
    }
}

/// The ledger entries of a tool.
pub(super) fn entries<'a>(ledger: &'a [Value], tool: &str) -> Vec<&'a Value> {
    ledger.iter().filter(|entry| entry["tool_name"] == tool).collect()
}

/// The validation outcomes of a tool's calls, over all steps.
pub(super) fn validations(steps: &[Value], tool: &str) -> Vec<String> {
    steps
        .iter()
        .flat_map(|step| step["tool_calls"].as_array().into_iter().flatten())
        .filter(|call| call["tool_name"] == tool)
        .filter_map(|call| call["validation"].as_str().map(str::to_owned))
        .collect()
}
