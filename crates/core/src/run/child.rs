//! Calls of other agents: each is a run of its own, its child, which this one waits for and pays for.

mod given;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use given::Given;
use given::limits;

use super::call::Stage;
use super::record::Record;
use super::state::RunState;
use super::status::{Status, StopReason};
use super::step::{Legal, Machine};
use crate::Millis;
use crate::agent::ToolSpec;
use crate::budget::{Budgets, MAX_COUNT, Used};
use crate::id::{AgentId, CallId};
use crate::ledger::{Effect, EntryStatus, Outcome};
use crate::model::Usage;
use crate::tool::{ErrorCode, Output, ResultStatus, ToolResult};

/// Runs that may stand below each other: one this deep calls no agent.
pub const MAX_DEPTH: u32 = 4;
/// Version of the first binary that knows runs which call agents.
pub(super) const VERSION_OF_CHILDREN: u16 = 4;
/// Time that a child has to come to its end after it was told to, in milliseconds.
const STOP_GRACE_MS: u64 = 60_000;

/// The agent of a call, as it is when the call begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedAgent {
    /// The agent.
    pub agent_id: AgentId,
    /// Its version.
    pub version: u32,
    /// Hash of what it is.
    pub spec_hash: String,
    /// Its own limits.
    pub budgets: Budgets,
}

/// A child that is to begin. Its id is the call's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRow {
    /// The call that it is.
    pub call: CallId,
    /// Its agent.
    pub agent: PinnedAgent,
    /// Its limits.
    pub budgets: Budgets,
    /// Runs above it.
    pub depth: u32,
    /// It ends then, as its parent does.
    pub deadline: Option<Millis>,
}

/// How a child ended, and what it used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildEnd {
    /// `Finished`, `Failed` or `Cancelled`.
    pub status: Status,
    /// Why it ended.
    pub reason: StopReason,
    /// Its answer, or what stopped it, under the tool's limits.
    pub output: Output,
    /// Used by it and by its own children.
    pub used: Used,
    /// Time of it that counts, in milliseconds.
    pub ran_ms: u64,
    /// What is known of its effects, all of them together.
    pub effect: Effect,
}

impl ChildEnd {
    /// What the ledger says of the call then. `writes`: it may change something.
    pub fn outcome(&self, writes: bool) -> Outcome {
        match (self.status, self.effect) {
            (Status::Finished, effect) => Outcome::succeeded(writes || effect != Effect::None),
            (_, Effect::Possible) => Outcome::uncertain(),
            (_, effect) => {
                let error_code = Some(error_code(self.reason));
                Outcome { status: EntryStatus::Failed, effect, error_code }
            }
        }
    }
}

/// Why a call failed whose child ended for `reason`.
fn error_code(reason: StopReason) -> ErrorCode {
    match reason {
        StopReason::Cancelled => ErrorCode::Cancelled,
        StopReason::Timeout => ErrorCode::Timeout,
        StopReason::MaxSteps | StopReason::MaxTokens | StopReason::MaxToolCalls | StopReason::MaxCost => {
            ErrorCode::BudgetExhausted
        }
        StopReason::PermissionDenied | StopReason::ApprovalExpired => ErrorCode::PermissionDenied,
        StopReason::ModelError | StopReason::ToolsUnavailable => ErrorCode::Unavailable,
        _ => ErrorCode::Internal,
    }
}

impl RunState {
    /// The same of a run that has so many above it.
    #[must_use]
    pub fn below(self, depth: u32) -> Self {
        let version = if depth > 0 { self.version.max(VERSION_OF_CHILDREN) } else { self.version };
        Self { version, depth, ..self }
    }
}

/// What a child is told: the one text that its tool takes, or all that it was given.
pub fn input_text(input: &Value) -> String {
    match (input.get("input").and_then(Value::as_str), input.as_object()) {
        (Some(text), Some(fields)) if fields.len() == 1 => text.to_owned(),
        _ => input.to_string(),
    }
}

impl Machine<'_> {
    /// The turn of another agent's call has come: it is looked up who that is.
    pub(super) fn look_for_agent(&mut self, index: usize) {
        if self.state.depth >= MAX_DEPTH {
            let message =
                format!("Agents call each other at most {MAX_DEPTH} deep, and this one is that deep.");
            self.no_child(index, ErrorCode::Unavailable, message);
            return;
        }
        self.resume();
        self.state.version = self.state.version.max(VERSION_OF_CHILDREN);
        self.state.calls[index].stage = Stage::Key;
    }

    /// Who the agent is; or why it can't be called.
    pub(super) fn agent_found(&mut self, call: CallId, found: Result<PinnedAgent, String>) -> Legal {
        let index = self.index_of(call, "AgentFound")?;
        let known = &self.state.calls[index];
        if known.stage != Stage::Key || !known.agent {
            return Err(self.illegal("AgentFound"));
        }
        // Nothing is begun any more in a run that is ending; in one that is suspended the agent is looked for again.
        if self.state.ending.is_none() && !self.state.suspended {
            match found {
                Ok(agent) => self.open_child(index, agent),
                Err(why) => self.no_child(index, ErrorCode::NotFound, why),
            }
            self.note_progress();
        }
        Ok(())
    }

    fn open_child(&mut self, index: usize, agent: PinnedAgent) {
        if !self.may_still_run(index) {
            return;
        }
        let share = self.state.left(self.at).part(self.sharers(index));
        if share.is_nothing() {
            let message =
                "The run has nothing left to give to another agent: its tokens, money or time are used up.";
            self.no_child(index, ErrorCode::BudgetExhausted, message.into());
            return;
        }
        let patch = self.tool_of(index).and_then(|tool| tool.agent.as_ref()?.budgets.clone());
        let budgets = limits(&agent.budgets, &patch.unwrap_or_default(), share);
        let given = Given {
            tokens: budgets.max_tokens,
            cost_microusd: budgets.max_cost_microusd,
            time_ms: budgets.timeout_ms,
        };
        let timeout_ms = self.tool_of(index).map_or(0, ToolSpec::timeout_ms);
        let expires_at = self.at.saturating_add_unsigned(timeout_ms);
        let call = self.state.calls[index].id;
        let (depth, deadline) = (self.state.depth + 1, self.state.deadline);
        self.begin(index, Stage::Child { expires_at, given, stopping: false }, expires_at);
        let row = ChildRow { call, agent, budgets, depth, deadline };
        self.records.push(Record::ChildOpened(Box::new(row)));
    }

    /// Calls among which what is left is shared: those of agents that may begin beside this one, and it.
    fn sharers(&self, index: usize) -> u64 {
        let calls = &self.state.calls;
        if !calls[index].parallel_safe {
            return 1;
        }
        let waits = |stage: &Stage| matches!(stage, Stage::Ready | Stage::Key);
        calls.iter().filter(|call| call.agent && call.parallel_safe && waits(&call.stage)).count() as u64
    }

    /// The call has a result, and no run was begun for it.
    fn no_child(&mut self, index: usize, code: ErrorCode, message: String) {
        let result = ToolResult::without_run(ResultStatus::Failed, Some(code), message);
        self.complete(index, result, None);
    }

    pub(super) fn child_ended(&mut self, call: CallId, end: ChildEnd) -> Legal {
        let index = self.index_of(call, "ChildEnded")?;
        let Stage::Child { stopping, .. } = self.state.calls[index].stage else {
            return Err(self.illegal("ChildEnded"));
        };
        self.charge(&end);
        let known = &mut self.state.calls[index];
        // Whatever its tool was said to be: an effect is an effect.
        known.writes |= end.effect != Effect::None;
        let mut outcome = end.outcome(known.writes);
        // A run that ends stops those that it called for no fault of theirs.
        let took_too_long = stopping && self.state.ending.is_none();
        if took_too_long && outcome.error_code == Some(ErrorCode::Cancelled) {
            outcome.error_code = Some(ErrorCode::Timeout);
        }
        match outcome.status {
            EntryStatus::Succeeded => self.executed(index, end.output),
            EntryStatus::Uncertain => {
                let said = end.output.content.trim_end_matches('.').to_owned();
                self.uncertain(index, &said);
            }
            _ => self.child_failed(index, outcome, end.output),
        }
        self.note_progress();
        Ok(())
    }

    /// It ended without an answer; what it did before is known.
    fn child_failed(&mut self, index: usize, outcome: Outcome, output: Output) {
        let ledger_id = self.state.calls[index].ledger_id();
        self.records.push(Record::LedgerClosed { ledger_id, outcome });
        let done = match outcome.effect {
            Effect::None => "It changed nothing.",
            _ => "What it had changed by then stays changed.",
        };
        let message = format!("The agent's run ended without an answer. {} {done}", output.content);
        let result = ToolResult {
            duration_ms: self.duration_ms(index),
            truncated: output.truncated,
            artifact_id: output.artifact_id,
            ..ToolResult::without_run(ResultStatus::Failed, outcome.error_code, message)
        };
        self.complete(index, result, Some(ledger_id));
    }

    /// What a child used is used by its parent, too.
    fn charge(&mut self, end: &ChildEnd) {
        let (input_tokens, output_tokens) = (end.used.input_tokens, end.used.output_tokens);
        let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
        self.state.used.add(&usage, end.used.cost_microusd);
        self.state.by_children.add(&usage, end.used.cost_microusd);
        let ran_ms = self.state.clock.ran_ms.saturating_add(end.ran_ms);
        self.state.clock.ran_ms = ran_ms.min(MAX_COUNT);
    }

    /// Its time is over: it is told to end, and what it did by then is heard. If it doesn't come to its end, nobody knows.
    pub(super) fn child_expired(&mut self, index: usize) {
        let Stage::Child { given, stopping, .. } = self.state.calls[index].stage else { return };
        if !stopping {
            let expires_at = self.at.saturating_add_unsigned(STOP_GRACE_MS);
            self.state.calls[index].stage = Stage::Child { expires_at, given, stopping: true };
            let call = self.state.calls[index].id;
            self.records.push(Record::ChildStopped { call, reason: "the call's time is over".into() });
            return;
        }
        self.state.abandoned = self.state.abandoned.and(given);
        if self.state.calls[index].writes {
            self.uncertain(index, "the agent's run did not come to its end");
        } else {
            self.fail(index, ErrorCode::Timeout, "The agent's run did not come to its end in time.");
        }
    }

    /// The run is ending and waits for writes that are out: those that its calls began don't work on meanwhile.
    pub(super) fn stop_children(&mut self) {
        for call in &mut self.state.calls {
            if let Stage::Child { stopping, .. } = &mut call.stage
                && !*stopping
            {
                *stopping = true;
                let reason = "the run that called it ends".into();
                self.records.push(Record::ChildStopped { call: call.id, reason });
            }
        }
    }
}
