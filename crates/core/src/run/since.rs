//! Since when something is as it is: the begin of whatever is told of later, when it ends.

use super::call::Stage;
use super::state::{Phase, RunState};
use crate::Millis;
use crate::id::CallId;

/// Where calls and the model's attempt stood before an event.
pub(super) struct Since {
    calls: Vec<(CallId, Stage)>,
    attempt: Option<Attempt>,
}

/// Which attempt on the model is outstanding.
#[derive(PartialEq, Eq)]
struct Attempt {
    phase: Phase,
    step: u32,
    summaries: u32,
    number: u32,
    deaths: u32,
}

impl Since {
    pub(super) fn of(state: &RunState) -> Self {
        let calls = state.calls.iter().map(|call| (call.id, call.stage.clone())).collect();
        Self { calls, attempt: outstanding_attempt(state) }
    }

    /// Notes the moment for what has come about since.
    pub(super) fn note(&self, state: &mut RunState, at: Millis) {
        for (index, call) in state.calls.iter_mut().enumerate() {
            let before = self.calls.get(index).filter(|(id, _)| *id == call.id);
            // A run that is told to end is the one that was begun.
            let goes_on = |stage: &Stage| {
                *stage == call.stage
                    || matches!((stage, &call.stage), (Stage::Child { .. }, Stage::Child { .. }))
            };
            if before.is_none_or(|(_, stage)| !goes_on(stage)) {
                call.since = Some(at);
            }
        }
        match outstanding_attempt(state) {
            None => state.model.asked_at = None,
            attempt if attempt != self.attempt => state.model.asked_at = Some(at),
            _ => {}
        }
    }
}

fn outstanding_attempt(state: &RunState) -> Option<Attempt> {
    let asks = matches!(state.phase, Phase::Model | Phase::Summary) && state.model.not_before.is_none();
    asks.then_some(Attempt {
        phase: state.phase,
        step: state.step,
        summaries: state.summing.made,
        number: state.model.attempts,
        deaths: state.deaths,
    })
}
