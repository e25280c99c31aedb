//! What a replay itself says where nothing is recorded: nobody is asked.

use super::needs::Need;
use crate::Millis;
use crate::model::{FailureKind, ModelFailure};
use crate::run::{Event, Reconciliation};
use crate::tool::{Attempt, ErrorCode, Reconciled};

/// The answer to a need. `None`: it is for people or time to give, or it must be made of what there is.
pub(super) fn unanswered(need: Need, at: Millis) -> Option<Event> {
    match need {
        Need::Model => Some(no_reply(at)),
        Need::Summary => Some(no_summary(at)),
        Need::Key(call) => Some(Event::KeyFree { at, call }),
        Need::Tool(call) => {
            let message = "The recording has no answer for this call.".to_owned();
            let outcome = Attempt::Refused(ErrorCode::Unavailable, message);
            Some(Event::ToolAttempted { at, call, outcome, jitter: 0 })
        }
        Need::Reconcile(call) => {
            let reconciliation = Reconciliation { state: Reconciled::Unknown, result: None };
            Some(Event::ToolReconciled { at, call, reconciliation })
        }
        Need::Start
        | Need::Context
        | Need::Decision(_)
        | Need::Settlement(_)
        | Need::Submission(_)
        | Need::Budget(..) => None,
    }
}

fn nothing_recorded(message: &str) -> ModelFailure {
    let (kind, message) = (FailureKind::Exhausted, message.to_owned());
    ModelFailure { kind, status: None, message, retry_after_ms: None, usage: None }
}

/// The run goes on without.
fn no_summary(at: Millis) -> Event {
    let failure = nothing_recorded("the recording has no more summaries");
    Event::SummaryFailed { at, failure, cost_microusd: 0, jitter: 0, duration_ms: 0, wire: None }
}

fn no_reply(at: Millis) -> Event {
    let failure = nothing_recorded("the recording has no more replies");
    let (cost_microusd, jitter, duration_ms, wire) = (0, 0, 0, None);
    Event::ModelFailed { at, failure, cost_microusd, jitter, duration_ms, wire }
}
