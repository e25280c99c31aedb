//! LoopController: given the state and what just happened, what is true then?

use serde_json::{Value, json};

use super::event::Event;
use super::event_type::EventType;
use super::record::Record;
use super::since::Since;
use super::state::{Phase, RunState};
use super::status::Status;
use crate::Millis;
use crate::registry::Registry;

/// Deaths in one step that a run survives (contract, "Behaviours decided" 13).
pub const MAX_RECOVERIES: u32 = 5;

/// What stays the same for a run's whole life.
#[derive(Debug, Clone, Copy)]
pub struct RunConfig<'a> {
    /// The pinned agent.
    pub registry: &'a Registry,
    /// Deaths in one step that a run survives.
    pub max_recoveries: u32,
}

/// What an event leads to: the next state and the rows that tell of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// The state after the event.
    pub state: RunState,
    /// Rows to be committed with it, in order.
    pub records: Vec<Record>,
}

/// The event can't happen in this state. For a run that has ended this is how late events are told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{event} can not happen to a run in phase {phase:?}")]
pub struct IllegalEvent {
    /// Where the run was.
    pub phase: Phase,
    /// What came.
    pub event: &'static str,
}

/// The next state.
///
/// # Errors
/// The event is illegal in this state; nothing has changed.
pub fn step(config: RunConfig<'_>, state: RunState, event: Event) -> Result<Transition, IllegalEvent> {
    let at = event.at();
    let before = Since::of(&state);
    let mut machine = Machine { config, state, records: Vec::new(), at };
    machine.apply(event)?;
    machine.advance();
    machine.forget_settled_approvals();
    before.note(&mut machine.state, at);
    Ok(Transition { state: machine.state, records: machine.records })
}

/// A state on its way to the next.
pub(super) struct Machine<'a> {
    pub(super) config: RunConfig<'a>,
    pub(super) state: RunState,
    pub(super) records: Vec<Record>,
    pub(super) at: Millis,
}

/// Whether an event was legal.
pub(super) type Legal = Result<(), IllegalEvent>;

impl Machine<'_> {
    /// One exhaustive match: what may happen where. The parts below refine it by the stage of the call.
    fn apply(&mut self, event: Event) -> Legal {
        match (self.state.phase, event) {
            (Phase::Ended, event) => Err(self.illegal(name(&event))),

            (Phase::Queued, Event::Started { .. }) => self.started(),
            (_, event @ Event::Started { .. }) => Err(self.illegal(name(&event))),

            // May happen to any live run.
            (_, Event::Recovered { deaths, unsent, .. }) => self.recovered(deaths, &unsent),
            (_, Event::TimerFired { .. }) => self.timer_fired(),
            (_, event @ (Event::Suspended { .. } | Event::Resumed { .. })) => {
                self.state.suspended = matches!(event, Event::Suspended { .. });
                Ok(())
            }
            (_, Event::Rested { from, until, .. }) => {
                self.state.clock.rest(from, until);
                Ok(())
            }
            (_, Event::CancelRequested { reason, .. }) => self.cancelled(reason),
            (_, Event::BudgetChanged { patch, by, .. }) => self.budget_changed(&patch, by),
            (_, Event::Steered { message_id, content, parts, pinned, .. }) => {
                self.steered(message_id, content, parts, pinned)
            }
            (_, Event::Broken { code, detail, .. }) => self.broken(code, detail),

            (Phase::Boundary, Event::ToolsListed { list, duration_ms, .. }) => {
                self.tools_listed(list, duration_ms)
            }
            (Phase::Boundary, Event::ToolsKept { .. }) => self.tools_kept(),
            (Phase::Boundary, Event::ToolsUnavailable { server, detail, .. }) => {
                self.tools_unavailable(&server, &detail)
            }
            (Phase::Boundary, Event::ToolsChanged { .. }) => self.tools_changed(),
            (
                _,
                event @ (Event::ToolsListed { .. }
                | Event::ToolsKept { .. }
                | Event::ToolsUnavailable { .. }
                | Event::ToolsChanged { .. }),
            ) => Err(self.illegal(name(&event))),
            // Tools come first.
            (
                Phase::Boundary,
                event @ (Event::ContextBuilt { .. }
                | Event::ContextOverflowed { .. }
                | Event::SummaryNeeded { .. }),
            ) if self.state.lists_tools() => Err(self.illegal(name(&event))),

            (
                Phase::Boundary | Phase::Rebuild,
                Event::ContextBuilt { manifest, estimate, provider, model, .. },
            ) => self.context_built(manifest, estimate, provider, model),
            (Phase::Boundary | Phase::Rebuild, Event::ContextOverflowed { tokens, max_tokens, .. }) => {
                self.context_overflowed(tokens, max_tokens)
            }
            (_, event @ (Event::ContextBuilt { .. } | Event::ContextOverflowed { .. })) => {
                Err(self.illegal(name(&event)))
            }

            (Phase::Boundary, Event::SummaryNeeded { task, estimate, .. }) => {
                self.summary_needed(task, estimate)
            }
            (Phase::Summary, Event::Summarized { reply, .. }) => self.summarized(*reply),
            (Phase::Summary, Event::SummaryFailed { failure, cost_microusd, jitter, duration_ms, .. }) => {
                self.summary_failed(&failure, cost_microusd, jitter, duration_ms)
            }
            (
                _,
                event
                @ (Event::SummaryNeeded { .. } | Event::Summarized { .. } | Event::SummaryFailed { .. }),
            ) => Err(self.illegal(name(&event))),

            (Phase::Model, Event::ModelReplied { reply, calls, more_input, .. }) => {
                self.model_replied(*reply, calls, more_input)
            }
            (Phase::Model, Event::ModelFailed { failure, cost_microusd, jitter, duration_ms, .. }) => {
                self.model_failed(failure, cost_microusd, jitter, duration_ms)
            }
            // Older servers asked a fallback without building its context anew, and their journals are still read.
            (Phase::Rebuild, event @ (Event::ModelReplied { .. } | Event::ModelFailed { .. }))
                if self.state.model.target > 0 && !self.state.model.shrunk =>
            {
                self.state.phase = Phase::Model;
                self.apply(event)
            }
            (_, event @ (Event::ModelReplied { .. } | Event::ModelFailed { .. })) => {
                Err(self.illegal(name(&event)))
            }
            (Phase::Model | Phase::Summary, Event::QuotaUsedUp { limit, .. }) => self.quota_used_up(limit),
            (_, event @ Event::QuotaUsedUp { .. }) => Err(self.illegal(name(&event))),

            (Phase::Tools, Event::CallDecided { call, approval, verdict, by, given_at, reason, .. }) => {
                self.call_decided(call, approval, verdict, (by, given_at), reason)
            }
            (Phase::Tools, Event::RulesChanged { verdicts, .. }) => self.rules_changed(&verdicts),
            (Phase::Tools, Event::KeyFree { call, .. }) => self.key_free(call),
            (Phase::Tools, Event::KeyTaken { call, holder, .. }) => self.key_taken(call, holder),
            (Phase::Tools, Event::AgentFound { call, found, .. }) => self.agent_found(call, found),
            (Phase::Tools, Event::ChildEnded { call, end, .. }) => self.child_ended(call, *end),
            (Phase::Tools, Event::ToolAttempted { call, outcome, jitter, .. }) => {
                self.tool_attempted(call, outcome, jitter)
            }
            (Phase::Tools, Event::ToolReconciled { call, reconciliation, .. }) => {
                self.tool_reconciled(call, reconciliation)
            }
            (Phase::Tools, Event::EffectSettled { call, applied, content, by, .. }) => {
                self.effect_settled(call, applied, content, by)
            }
            (Phase::Tools, Event::ToolResultSubmitted { call, submitted, .. }) => {
                self.result_submitted(call, submitted)
            }
            (
                _,
                event @ (Event::CallDecided { .. }
                | Event::RulesChanged { .. }
                | Event::KeyFree { .. }
                | Event::KeyTaken { .. }
                | Event::AgentFound { .. }
                | Event::ChildEnded { .. }
                | Event::ToolAttempted { .. }
                | Event::ToolReconciled { .. }
                | Event::EffectSettled { .. }
                | Event::ToolResultSubmitted { .. }),
            ) => Err(self.illegal(name(&event))),

            (Phase::Budget, Event::BudgetDenied { approval, by, .. }) => self.budget_denied(approval, &by),
            (_, event @ Event::BudgetDenied { .. }) => Err(self.illegal(name(&event))),
        }
    }

    /// Goes as far as it can without anything more happening, then says what the run waits for.
    fn advance(&mut self) {
        if self.state.ending.is_some() {
            self.settle_ending();
        }
        if self.state.phase == Phase::Tools {
            self.start_ready_calls();
            if self.state.ending.is_some() {
                self.settle_ending();
            }
        }
        if self.state.phase == Phase::Tools && self.state.calls.iter().all(super::call::Call::is_done) {
            self.resume();
            self.close_step();
        }
        if self.state.phase == Phase::Boundary && self.state.used.steps >= self.state.budgets.max_steps {
            self.exhausted(crate::budget::Limit::MaxSteps);
        }
        self.settle_status();
    }

    /// Status follows from what is outstanding.
    fn settle_status(&mut self) {
        let status = self.status_now();
        if status == self.state.status || status.is_terminal() || status == Status::Queued {
            return;
        }
        if status.is_waiting() {
            let what = if status == Status::WaitingApproval { "approval" } else { "tool" };
            self.state.clock.stop(self.at);
            self.emit(EventType::RunWaiting, json!({"for": what}));
        } else {
            self.resume();
        }
        self.state.status = status;
    }

    fn status_now(&self) -> Status {
        use super::call::Stage;
        let calls = &self.state.calls;
        match self.state.phase {
            Phase::Queued => Status::Queued,
            Phase::Ended => self.state.status,
            Phase::Budget => Status::WaitingApproval,
            Phase::Boundary | Phase::Summary | Phase::Rebuild | Phase::Model => Status::Running,
            Phase::Tools if calls.iter().any(super::call::Call::is_at_work) || self.is_held_back() => {
                Status::Running
            }
            Phase::Tools
                if calls
                    .iter()
                    .any(|c| matches!(c.stage, Stage::Asked { .. } | Stage::AskedUncertain { .. })) =>
            {
                Status::WaitingApproval
            }
            Phase::Tools => Status::WaitingTool,
        }
    }

    /// The run works again: said before whatever it does then.
    pub(super) fn resume(&mut self) {
        if self.state.status.is_waiting() {
            self.emit(EventType::RunResumed, json!({}));
            self.state.status = Status::Running;
            self.state.clock.start(self.at);
        }
    }

    /// An event of the whole run.
    pub(super) fn emit(&mut self, kind: EventType, data: Value) {
        self.records.push(Record::Event { kind, step: None, data });
    }

    /// An event of the open step.
    pub(super) fn emit_in_step(&mut self, kind: EventType, data: Value) {
        self.records.push(Record::Event { kind, step: self.step_number(), data });
    }

    /// The step that is open or was last; `None` before the first.
    pub(super) fn step_number(&self) -> Option<u32> {
        Some(self.state.step).filter(|step| *step > 0)
    }

    /// Takes a place in the history.
    pub(super) fn next_message(&mut self) -> u64 {
        let seq = self.state.next_message;
        self.state.next_message += 1;
        seq
    }

    pub(super) fn illegal(&self, event: &'static str) -> IllegalEvent {
        IllegalEvent { phase: self.state.phase, event }
    }
}

/// The event's name, for messages.
pub(super) fn name(event: &Event) -> &'static str {
    match event {
        Event::Started { .. } => "Started",
        Event::Recovered { .. } => "Recovered",
        Event::ToolsListed { .. } => "ToolsListed",
        Event::ToolsKept { .. } => "ToolsKept",
        Event::ToolsUnavailable { .. } => "ToolsUnavailable",
        Event::ToolsChanged { .. } => "ToolsChanged",
        Event::ContextBuilt { .. } => "ContextBuilt",
        Event::ContextOverflowed { .. } => "ContextOverflowed",
        Event::SummaryNeeded { .. } => "SummaryNeeded",
        Event::Summarized { .. } => "Summarized",
        Event::SummaryFailed { .. } => "SummaryFailed",
        Event::ModelReplied { .. } => "ModelReplied",
        Event::ModelFailed { .. } => "ModelFailed",
        Event::QuotaUsedUp { .. } => "QuotaUsedUp",
        Event::CallDecided { .. } => "CallDecided",
        Event::RulesChanged { .. } => "RulesChanged",
        Event::KeyFree { .. } => "KeyFree",
        Event::KeyTaken { .. } => "KeyTaken",
        Event::AgentFound { .. } => "AgentFound",
        Event::ChildEnded { .. } => "ChildEnded",
        Event::ToolAttempted { .. } => "ToolAttempted",
        Event::ToolReconciled { .. } => "ToolReconciled",
        Event::EffectSettled { .. } => "EffectSettled",
        Event::ToolResultSubmitted { .. } => "ToolResultSubmitted",
        Event::Steered { .. } => "Steered",
        Event::TimerFired { .. } => "TimerFired",
        Event::Suspended { .. } => "Suspended",
        Event::Resumed { .. } => "Resumed",
        Event::Rested { .. } => "Rested",
        Event::CancelRequested { .. } => "CancelRequested",
        Event::BudgetChanged { .. } => "BudgetChanged",
        Event::BudgetDenied { .. } => "BudgetDenied",
        Event::Broken { .. } => "Broken",
    }
}
