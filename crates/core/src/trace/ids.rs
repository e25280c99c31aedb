//! Ids of spans. They follow from what a span is, so that whoever tells of it again tells of the same span, and so that a
//! request can carry the id of a span that has not ended yet.

use super::span::SpanId;
use crate::id::{CallId, RunId};
use crate::run::{Phase, RunState};

/// The run's own span.
pub fn agent_span(run: RunId) -> SpanId {
    SpanId::of(&["agent.run", &run.to_string()])
}

/// The attempt on the model that is outstanding in `state`.
pub fn model_span(state: &RunState) -> SpanId {
    let (run, step) = (state.run_id.to_string(), state.step.to_string());
    // A server that dies leaves its attempt behind; the next one makes another, which has the same number.
    let (attempt, deaths) = (state.model.attempts.to_string(), state.deaths.to_string());
    if state.phase == Phase::Summary {
        // Of those that follow a step, each has its number.
        let nth = state.summing.made.to_string();
        return SpanId::of(&["model.call", &run, &step, &attempt, &deaths, "summary", &nth]);
    }
    SpanId::of(&["model.call", &run, &step, &attempt, &deaths])
}

/// An attempt of a call, from 1; 0: its result that needed none.
pub fn tool_span(run: RunId, call: CallId, attempt: u32) -> SpanId {
    SpanId::of(&["tool.call", &run.to_string(), &call.to_string(), &attempt.to_string()])
}

/// The question of what became of an attempt.
pub fn reconcile_span(run: RunId, call: CallId, attempt: u32) -> SpanId {
    SpanId::of(&["tool.reconcile", &run.to_string(), &call.to_string(), &attempt.to_string()])
}

/// The one decision of its kind on a call, or the one that an approval came to.
pub(super) fn decision_span(run: RunId, call: CallId, kind: &str) -> SpanId {
    SpanId::of(&["permission.decision", &run.to_string(), &call.to_string(), kind])
}

/// The nth decision on more budget.
pub(super) fn budget_span(run: RunId, asks: u32) -> SpanId {
    SpanId::of(&["permission.decision", &run.to_string(), "budget", &asks.to_string()])
}

/// A context that was built in `before`: for the next step, or once more for the open one.
pub(super) fn context_span(before: &RunState) -> SpanId {
    let open = if before.phase == Phase::Rebuild { "open" } else { "next" };
    let (run, step) = (before.run_id.to_string(), before.step.to_string());
    let (attempts, asks) = (before.model.attempts.to_string(), before.asks.to_string());
    SpanId::of(&["context.build", &run, &step, open, &attempts, &asks])
}

/// The checkpoint of a step.
pub(super) fn checkpoint_span(run: RunId, step: u32) -> SpanId {
    SpanId::of(&["checkpoint.save", &run.to_string(), &step.to_string()])
}
