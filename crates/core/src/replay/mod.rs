//! Replay: a recorded run once more, unchanged or under another agent, policy, context or budgets, without asking anybody.
//!
//! The recorded events are folded over the recorded first state by the very [`crate::run::step`] that made them. Unchanged,
//! they are taken as they came. Under changes the replay is a simulation: whatever the run needs from outside is answered
//! with what was recorded for it and takes as long as it took then; what people did by themselves comes when it came; a
//! question that nobody answered then expires; and what the recording has no answer for is answered here, so that every
//! replay ends.

mod difference;
mod gate;
mod ids;
mod needs;
mod player;
mod simulate;
mod story;
mod tape;
#[cfg(test)]
mod tests;
mod unanswered;

use serde_json::Value;

use crate::budget::Budgets;
use crate::id::ApprovalId;
use crate::message::Message;
use crate::permission::CompiledPolicy;
use crate::registry::Registry;
use crate::run::{Event, Record, RunState};
use crate::trace::{Frame, Span};

pub use difference::{Difference, first_difference};
pub use story::{CallStory, ContextStory, EndStory, ResultStory, StepStory, Story};

/// A run as it was recorded.
#[derive(Debug, Clone, Copy)]
pub struct Recording<'a> {
    /// The agent that it was pinned to.
    pub registry: &'a Registry,
    /// Deaths in one step that it survived at most.
    pub max_recoveries: u32,
    /// The state that it began in.
    pub first: &'a RunState,
    /// The history that it was shown before its own: of the runs that it stands on, and of its thread.
    pub before: &'a [Message],
    /// What it was given at its beginning.
    pub inputs: &'a [Message],
    /// What happened, in order.
    pub journal: &'a [Event],
}

/// Under what a run is played again.
#[derive(Debug, Clone, Copy)]
pub enum Under<'a> {
    /// What it was: the recorded events are taken just as they came, the gate's verdicts of then included.
    TheSame,
    /// Something else.
    Changed(Changes<'a>),
}

/// What is another than it was.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'a> {
    /// The agent.
    pub registry: &'a Registry,
    /// The limits that it begins with.
    pub budgets: &'a Budgets,
    /// By what its calls are validated and judged again; `None`: the verdicts of then stand.
    pub rules: Option<Rules<'a>>,
}

/// What calls are judged by, beside the agent's own policy. Remembered approvals don't apply.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The tenant's policy, judged beside the agent's.
    pub tenant: Option<&'a CompiledPolicy>,
    /// The policy that the run was started with.
    pub run: Option<&'a CompiledPolicy>,
    /// Who started the run.
    pub creators: &'a [String],
    /// The run's context.
    pub context: &'a Value,
}

/// A run that was played again. It has ended.
#[derive(Debug)]
pub struct Replayed {
    /// The state that it began in.
    pub first: RunState,
    /// What it was given at its beginning.
    pub inputs: Vec<Message>,
    /// What happened, in the pieces in which it is written.
    pub parts: Vec<Part>,
    /// What it did, for comparing it with what was done then.
    pub story: Story,
    /// Approvals that people's recorded words decided: those of the recording, and those of the replay.
    pub decided: Vec<(ApprovalId, ApprovalId)>,
}

impl Replayed {
    /// The state that it ended in.
    pub fn last(&self) -> &RunState {
        self.parts.last().map_or(&self.first, |part| &part.state)
    }
}

/// A piece of a replay: up to a checkpoint or the end.
#[derive(Debug)]
pub struct Part {
    /// The state after it.
    pub state: RunState,
    /// What happened.
    pub events: Vec<Event>,
    /// The spans that ended with each of them.
    pub spans: Vec<Vec<Span>>,
    /// The rows that tell of it.
    pub records: Vec<Record>,
}

impl Part {
    fn beginning(state: &RunState) -> Self {
        Self { state: state.clone(), events: Vec::new(), spans: Vec::new(), records: Vec::new() }
    }
}

/// Why a run can't be played again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unplayable {
    /// Its contexts must be built again, and messages that it was shown are gone.
    #[error("messages that the run was shown are gone")]
    HistoryGone,
    /// It comes to no end. That is a fault of the replay.
    #[error("the replay comes to no end")]
    Endless,
}

/// What a recording tells, as its own events do.
#[cfg(test)]
pub(crate) fn story_of(recording: &Recording<'_>) -> Story {
    let mut equipped = crate::catalog::Equipped::of(recording.registry);
    let (mut state, mut teller) = (recording.first.clone(), story::Teller::default());
    for event in recording.journal {
        let (registry, max_recoveries) = (equipped.registry(), recording.max_recoveries);
        let config = crate::run::RunConfig { registry, max_recoveries };
        let transition = crate::run::step(config, state, event.clone()).expect("legal");
        transition.records.iter().for_each(|record| teller.note(record));
        state = transition.state;
        equipped.hear(event);
    }
    teller.told(&state)
}

/// Plays a run again as run `frame.run_id`, in whose trace it stands then.
///
/// # Errors
/// It can't be played again.
pub fn replay(recording: &Recording<'_>, under: Under<'_>, frame: &Frame) -> Result<Replayed, Unplayable> {
    let player = player::Player::new(recording, under, frame);
    match under {
        Under::TheSame => player.verbatim(recording.journal),
        Under::Changed(_) if player.lacks_messages(recording.journal) => Err(Unplayable::HistoryGone),
        Under::Changed(_) => simulate::simulated(player, tape::Tape::of(recording)),
    }
}
