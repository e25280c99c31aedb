//! What whoever observes the engine is told of a commit, beyond its rows: times that only this process knows.

use std::time::{Duration, Instant};

use answerable_core::run::{EventType, Record, Status};
use answerable_ports::{Committed, Started};

use crate::draft::Draft;
use crate::session::Session;

impl Session {
    /// Something is stored: tells of it. The state is still the one before.
    pub(crate) fn observed(&mut self, draft: &Draft, took: Duration) {
        let closed = draft.records.iter().any(|record| matches!(record, Record::StepClosed { .. }));
        let began = if closed { self.step_began.take() } else { None };
        // The next one may begin in the same commit.
        if has(draft, EventType::StepStarted) {
            self.step_began = Some(Instant::now());
        }
        self.env.observer.committed(&Committed {
            records: &draft.records,
            spans: &draft.spans,
            took,
            started: has(draft, EventType::RunStarted).then(|| self.started()),
            step_took: began.map(|began| began.elapsed()),
        });
        if draft.state.status == Status::Failed {
            tell_of_failure(draft);
        }
    }

    fn started(&self) -> Started {
        let waited = self.state.clock.since.map(|since| self.now() - since);
        let waited = waited.and_then(|waited| u64::try_from(waited).ok()).unwrap_or(0);
        Started { after_accepted: Duration::from_millis(waited), after_claimed: self.hold.claimed.elapsed() }
    }
}

fn has(draft: &Draft, wanted: EventType) -> bool {
    draft.records.iter().any(|record| matches!(record, Record::Event { kind, .. } if *kind == wanted))
}

/// Facts alone: what happened in words stands with the run, for those who may read it.
fn tell_of_failure(draft: &Draft) {
    if let Some(end) = &draft.state.end {
        tracing::info!(stop_reason = %end.reason.as_str(), code = %end.code, step = end.step, "the run failed");
    }
}
