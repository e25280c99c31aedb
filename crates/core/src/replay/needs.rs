//! What a run needs from outside, and which events give it.

use std::collections::BTreeMap;

use crate::Millis;
use crate::budget::Limit;
use crate::id::CallId;
use crate::run::{Command, Event, Phase, RunState, Stage, outstanding};

/// Something that only somebody outside can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// A server takes it up.
    Start,
    /// What MCP servers offer.
    Tools,
    /// The next context.
    Context,
    /// A reply, or that there is none.
    Model,
    /// A summary, or that there is none.
    Summary,
    /// Who made the call before.
    Key(CallId),
    /// Who the agent of the call is, or who made the call before.
    Agent(CallId),
    /// How the run ended that the call began.
    Child(CallId),
    /// What an attempt of the call came to.
    Tool(CallId),
    /// What the far side says of the call.
    Reconcile(CallId),
    /// A person's word whether the call may run.
    Decision(CallId),
    /// A person's word whether the call happened.
    Settlement(CallId),
    /// The client's answer to the call.
    Submission(CallId),
    /// A person's word on more budget: the question's number, and what it is for. A change of limits may do as well.
    Budget(u32, Limit),
}

impl Need {
    /// All that a run needs now.
    pub(super) fn of(state: &RunState) -> Vec<Self> {
        match state.phase {
            Phase::Queued => return vec![Self::Start],
            Phase::Budget => return Self::budget(state).into_iter().collect(),
            _ => {}
        }
        let command = |command: Command| match command {
            Command::ListTools { .. } => Self::Tools,
            Command::BuildContext => Self::Context,
            Command::CallModel { .. } => Self::Model,
            Command::Summarize { .. } => Self::Summary,
            Command::ClaimKey { call } => Self::key(state, call),
            Command::RunTool { call, .. } => Self::Tool(call),
            Command::Reconcile { call } => Self::Reconcile(call),
        };
        let mut needs: Vec<Self> = outstanding(state).into_iter().map(command).collect();
        if state.phase == Phase::Tools && state.ending.is_none() {
            needs.extend(state.calls.iter().filter_map(|call| match call.stage {
                Stage::Asked { .. } => Some(Self::Decision(call.id)),
                Stage::AskedUncertain { .. } => Some(Self::Settlement(call.id)),
                Stage::Parked { .. } => Some(Self::Submission(call.id)),
                Stage::Child { .. } => Some(Self::Child(call.id)),
                _ => None,
            }));
        }
        needs
    }

    /// What a call waits for that is looked up.
    fn key(state: &RunState, call: CallId) -> Self {
        let is_agents = state.call(call).is_some_and(|call| call.agent);
        if is_agents { Self::Agent(call) } else { Self::Key(call) }
    }

    fn budget(state: &RunState) -> Option<Self> {
        state.budget_ask.map(|ask| Self::Budget(state.asks, ask.limit))
    }

    /// What an event gives to a run in this state. `None`: it comes by itself.
    pub(super) fn met_by(event: &Event, state: &RunState) -> Option<Self> {
        match event {
            Event::Started { .. } => Some(Self::Start),
            Event::ToolsListed { .. } | Event::ToolsKept { .. } | Event::ToolsUnavailable { .. } => {
                Some(Self::Tools)
            }
            Event::ContextBuilt { .. } | Event::ContextOverflowed { .. } | Event::SummaryNeeded { .. } => {
                Some(Self::Context)
            }
            Event::Summarized { .. } | Event::SummaryFailed { .. } => Some(Self::Summary),
            // A tenant's day as it was then; a replay asks for no allowance.
            Event::QuotaUsedUp { .. } if state.is_summing_up() => Some(Self::Summary),
            Event::QuotaUsedUp { .. } => Some(Self::Model),
            Event::ModelReplied { .. } | Event::ModelFailed { .. } => Some(Self::Model),
            Event::KeyFree { call, .. } | Event::KeyTaken { call, .. } => Some(Self::key(state, *call)),
            Event::AgentFound { call, .. } => Some(Self::Agent(*call)),
            Event::ChildEnded { call, .. } => Some(Self::Child(*call)),
            Event::ToolAttempted { call, .. } => Some(Self::Tool(*call)),
            Event::ToolReconciled { call, .. } => Some(Self::Reconcile(*call)),
            Event::CallDecided { call, .. } => Some(Self::Decision(*call)),
            Event::EffectSettled { call, .. } => Some(Self::Settlement(*call)),
            Event::ToolResultSubmitted { call, .. } => Some(Self::Submission(*call)),
            Event::BudgetDenied { .. } => Self::budget(state),
            Event::Recovered { .. }
            | Event::RulesChanged { .. }
            | Event::ToolsChanged { .. }
            | Event::Steered { .. }
            | Event::TimerFired { .. }
            | Event::Suspended { .. }
            | Event::Resumed { .. }
            | Event::Rested { .. }
            | Event::CancelRequested { .. }
            | Event::BudgetChanged { .. }
            | Event::Broken { .. } => None,
        }
    }

    /// The call that it is about.
    pub(super) fn call(self) -> Option<CallId> {
        match self {
            Self::Key(call)
            | Self::Agent(call)
            | Self::Child(call)
            | Self::Tool(call)
            | Self::Reconcile(call)
            | Self::Decision(call)
            | Self::Settlement(call)
            | Self::Submission(call) => Some(call),
            Self::Start | Self::Tools | Self::Context | Self::Model | Self::Summary | Self::Budget(..) => {
                None
            }
        }
    }

    /// The same need of another call.
    pub(super) fn for_call(self, with: impl Fn(CallId) -> CallId) -> Self {
        match self {
            Self::Key(call) => Self::Key(with(call)),
            Self::Agent(call) => Self::Agent(with(call)),
            Self::Child(call) => Self::Child(with(call)),
            Self::Tool(call) => Self::Tool(with(call)),
            Self::Reconcile(call) => Self::Reconcile(with(call)),
            Self::Decision(call) => Self::Decision(with(call)),
            Self::Settlement(call) => Self::Settlement(with(call)),
            Self::Submission(call) => Self::Submission(with(call)),
            other => other,
        }
    }
}

/// What a run waits for, and since when. A death begins nothing anew: whatever was out is out for longer.
#[derive(Debug, Clone)]
pub(super) struct Waits(BTreeMap<Need, Millis>);

impl Waits {
    /// Those of a run in its first state.
    pub(super) fn of(first: &RunState) -> Self {
        let since = first.clock.since.unwrap_or(0);
        Self(Need::of(first).into_iter().map(|need| (need, since)).collect())
    }

    /// Since when that is waited for.
    pub(super) fn since(&self, need: Need) -> Option<Millis> {
        self.0.get(&need).copied()
    }

    /// Goes on to the state after an event that met a need, or none. Gives what nobody waits for any more without having got
    /// it, and how long it was waited for.
    pub(super) fn go_on(&mut self, state: &RunState, met: Option<Need>, at: Millis) -> Vec<(Need, Millis)> {
        let since = |need: Need| self.since(need).filter(|_| met != Some(need)).unwrap_or(at);
        let now: BTreeMap<Need, Millis> =
            Need::of(state).into_iter().map(|need| (need, since(need))).collect();
        let before = std::mem::replace(&mut self.0, now);
        let is_given_up = |need: &Need| met != Some(*need) && !self.0.contains_key(need);
        before
            .into_iter()
            .filter(|(need, _)| is_given_up(need))
            .map(|(need, since)| (need, at.saturating_sub(since)))
            .collect()
    }
}
