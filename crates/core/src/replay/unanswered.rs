//! What a replay itself says where nothing is recorded: nobody is asked.

use super::needs::Need;
use crate::Millis;
use crate::agent::AgentSpec;
use crate::budget::Used;
use crate::catalog::{self, Missing};
use crate::ledger::Effect;
use crate::model::{FailureKind, ModelFailure};
use crate::run::{ChildEnd, Event, Reconciliation, RunState, RunTools, Status, StopReason, ToolList};
use crate::tool::{Attempt, ErrorCode, Output, Reconciled};

const NO_ANSWER: &str = "The recording has no answer for this call.";

/// The answer to a need. `None`: it is for people or time to give, or it must be made of what there is.
pub(super) fn unanswered(need: Need, at: Millis) -> Option<Event> {
    match need {
        Need::Model => Some(no_reply(at)),
        Need::Summary => Some(no_summary(at)),
        Need::Key(call) => Some(Event::KeyFree { at, call }),
        Need::Tool(call) => {
            let outcome = Attempt::Refused(ErrorCode::Unavailable, NO_ANSWER.to_owned());
            Some(Event::ToolAttempted { at, call, outcome, jitter: 0 })
        }
        Need::Agent(call) => Some(Event::AgentFound { at, call, found: Err(NO_ANSWER.to_owned()) }),
        Need::Child(call) => Some(Event::ChildEnded { at, call, end: Box::new(no_end()) }),
        Need::Reconcile(call) => {
            let reconciliation = Reconciliation { state: Reconciled::Unknown, result: None };
            Some(Event::ToolReconciled { at, call, reconciliation })
        }
        Need::Start
        | Need::Tools
        | Need::Context
        | Need::Decision(_)
        | Need::Settlement(_)
        | Need::Submission(_)
        | Need::Budget(..) => None,
    }
}

/// The run goes on with the tools that it has, or without those of any server.
pub(super) fn no_news_of_tools(agent: &AgentSpec, state: &RunState, at: Millis) -> Event {
    if state.tools.as_ref().is_some_and(RunTools::has_list) {
        return Event::ToolsKept { at, duration_ms: 0 };
    }
    let missing = catalog::servers(agent).into_iter().map(|(server, _)| Missing {
        server: server.to_owned(),
        reason: "the recording doesn't tell of its tools".into(),
    });
    let list = ToolList { missing: missing.collect(), ..ToolList::default() };
    Event::ToolsListed { at, list, duration_ms: 0 }
}

/// The run that the call began never was.
fn no_end() -> ChildEnd {
    ChildEnd {
        status: Status::Failed,
        reason: StopReason::InternalError,
        output: Output::plain(NO_ANSWER),
        used: Used::default(),
        ran_ms: 0,
        effect: Effect::None,
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
