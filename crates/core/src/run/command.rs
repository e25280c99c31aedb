//! What is to be done: derived from the state, never stored beside it.

use super::call::Stage;
use super::state::{Phase, RunState};
use crate::id::CallId;

/// Something that the shell must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// Ask MCP servers for their tools.
    ListTools {
        /// How often that was done before.
        listing: u32,
    },
    /// Build the next turn's context, and say [`super::Event::ContextBuilt`].
    BuildContext,
    /// Ask a model for the summary that is being made.
    Summarize {
        /// The step that it follows.
        step: u32,
        /// Its version.
        version: u32,
        /// Attempts before this one.
        attempt: u32,
    },
    /// Ask the model; `attempt` is how many were made in this step before.
    CallModel {
        /// Step.
        step: u32,
        /// Attempts and re-asks before this one.
        attempt: u32,
    },
    /// Look up who has the call's business key, or made its effect before.
    ClaimKey {
        /// Which.
        call: CallId,
    },
    /// Send a call.
    RunTool {
        /// Which.
        call: CallId,
        /// From 1.
        attempt: u32,
    },
    /// Ask the far side what became of a call.
    Reconcile {
        /// Which.
        call: CallId,
    },
}

/// Everything not yet done, in order. After a crash this is all there is to do again.
pub fn outstanding(state: &RunState) -> Vec<Command> {
    match state.phase {
        Phase::Queued | Phase::Budget | Phase::Ended => Vec::new(),
        _ if state.ending.is_some() => {
            of_calls(state).filter(|command| is_for_a_write(state, command)).collect()
        }
        Phase::Boundary if state.lists_tools() => {
            let listing = state.tools.as_ref().map_or(0, |tools| tools.listings);
            vec![Command::ListTools { listing }]
        }
        Phase::Boundary | Phase::Rebuild => vec![Command::BuildContext],
        Phase::Model | Phase::Summary if state.model.not_before.is_some() => Vec::new(),
        Phase::Summary => summarize(state).into_iter().collect(),
        Phase::Model => vec![Command::CallModel { step: state.step, attempt: state.model.attempts }],
        Phase::Tools => of_calls(state).collect(),
    }
}

fn summarize(state: &RunState) -> Option<Command> {
    let version = state.summing.task.as_ref()?.version;
    Some(Command::Summarize { step: state.step, version, attempt: state.model.attempts })
}

fn of_calls(state: &RunState) -> impl Iterator<Item = Command> {
    state.calls.iter().filter_map(|call| match call.stage {
        Stage::Key => Some(Command::ClaimKey { call: call.id }),
        Stage::Out { attempt, .. } => Some(Command::RunTool { call: call.id, attempt }),
        Stage::Reconciling { .. } => Some(Command::Reconcile { call: call.id }),
        _ => None,
    })
}

/// A run that is ending gives up reads and waits for writes.
fn is_for_a_write(state: &RunState, command: &Command) -> bool {
    match command {
        Command::RunTool { call, .. } | Command::Reconcile { call } => {
            state.call(*call).is_some_and(|call| call.writes)
        }
        _ => false,
    }
}
