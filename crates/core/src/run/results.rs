//! Calls get their results: in the ledger, in the history, before the loop guard; then the step is over.

use serde_json::json;

use super::call::{CallOutcome, Stage};
use super::event_type::EventType;
use super::record::{CheckpointRow, Record};
use super::state::Phase;
use super::status::StopReason;
use super::step::Machine;
use crate::agent::{Repeat, ToolKind};
use crate::id::LedgerId;
use crate::json::sha256_hex;
use crate::ledger::Outcome;
use crate::loop_guard::{Loop, Seen};
use crate::message::{Message, Role};
use crate::tool::{ErrorCode, Output, ResultStatus, ToolResult};

impl Machine<'_> {
    /// It happened: the ledger says so whatever becomes of its output.
    pub(super) fn executed(&mut self, index: usize, output: Output) {
        let call = &self.state.calls[index];
        let (ledger_id, outcome) = (call.ledger_id(), Outcome::succeeded(call.writes));
        self.records.push(Record::LedgerClosed { ledger_id, outcome });
        self.succeed(index, output, Some(ledger_id));
    }

    pub(super) fn succeed(&mut self, index: usize, output: Output, ledger_id: Option<LedgerId>) {
        let status = if output.too_large { ResultStatus::Failed } else { ResultStatus::Succeeded };
        let result = ToolResult {
            status,
            content: output.content,
            error_code: output.too_large.then_some(ErrorCode::OutputTooLarge),
            duration_ms: self.duration_ms(index),
            output_chars: output.chars,
            truncated: output.truncated,
            artifact_id: output.artifact_id,
            retryable: false,
        };
        self.complete(index, result, ledger_id);
    }

    /// It clearly didn't happen.
    pub(super) fn fail(&mut self, index: usize, code: ErrorCode, message: &str) {
        let ledger_id = self.state.calls[index].ledger_id();
        self.records.push(Record::LedgerClosed { ledger_id, outcome: Outcome::failed(code) });
        let retryable = matches!(code, ErrorCode::RateLimited | ErrorCode::Unavailable | ErrorCode::Timeout);
        let result = ToolResult {
            duration_ms: self.duration_ms(index),
            retryable,
            ..ToolResult::without_run(ResultStatus::Failed, Some(code), message)
        };
        self.complete(index, result, Some(ledger_id));
    }

    pub(super) fn duration_ms(&self, index: usize) -> u64 {
        let started = self.state.calls[index].started_at.unwrap_or(self.at);
        u64::try_from(self.at - started).unwrap_or(0)
    }

    /// The call has its result: a row, its message in the history, an event.
    pub(super) fn complete(&mut self, index: usize, result: ToolResult, ledger_id: Option<LedgerId>) {
        let call = &self.state.calls[index];
        let (id, tool_name, message) = (call.id, call.tool_name.clone(), call.message);
        let attempt = match call.stage {
            Stage::Out { attempt, .. }
            | Stage::Backoff { attempt, .. }
            | Stage::Reconciling { attempt, .. } => attempt,
            _ => 1,
        };
        let mut told = told_to_model(&result, call.edited.as_deref(), call.started_at.is_some());
        told.push_str(&self.how_to_read_on(&tool_name, &result));
        let outcome = CallOutcome {
            status: result.status,
            error_code: result.error_code,
            result_hash: sha256_hex(told.as_bytes()),
        };
        self.state.calls[index].stage = Stage::Done(outcome);
        self.leave_approval_unused(index);
        if let Some((message_id, seq)) = message {
            self.records.push(Record::Message(Message {
                tool_call_id: Some(id),
                step: Some(self.state.step),
                ..Message::text(message_id, seq, Role::Tool, told)
            }));
        }
        let data = json!({"tool_call_id": id, "tool_name": tool_name, "status": result.status,
            "error_code": result.error_code, "duration_ms": result.duration_ms, "attempt": attempt});
        match result.status {
            ResultStatus::Rejected => self.emit_in_step(EventType::ToolRejected, data),
            ResultStatus::Denied => {}
            _ => self.emit_in_step(EventType::ToolCompleted, data),
        }
        self.records.push(Record::CallResult { call: id, result, ledger_id });
    }

    /// Says to a model that has the tool for it how it gets more of a long output.
    fn how_to_read_on(&self, tool_name: &str, result: &ToolResult) -> String {
        let registry = self.config.registry;
        let has_it = registry.tool("read_artifact").is_some_and(|tool| tool.kind == ToolKind::Workspace);
        match (result.artifact_id, registry.tool(tool_name)) {
            (Some(id), Some(tool)) if has_it && result.truncated => {
                let offset = tool.output.max_chars;
                format!("\n[read_artifact with artifact_id {id} and offset {offset} reads on]")
            }
            _ => String::new(),
        }
    }

    /// Shows the loop guard the calls that are done, in call order.
    pub(super) fn note_progress(&mut self) {
        while let Some(call) = self.state.calls.get(self.state.guarded) {
            let Stage::Done(outcome) = &call.stage else { return };
            // Calls that are over a limit say nothing of the tool; the limit itself ends the run. A child's limits are its
            // own.
            let is_childs = call.agent && call.started_at.is_some();
            if outcome.error_code == Some(ErrorCode::BudgetExhausted) && !is_childs {
                self.state.guarded += 1;
                continue;
            }
            let repeat = self.config.registry.tool(&call.tool_name).map(|tool| tool.repeat);
            let seen = Seen {
                tool_name: &call.tool_name,
                input_hash: &call.input_hash,
                result_hash: &outcome.result_hash,
                error_code: outcome.error_code,
                may_repeat: repeat == Some(Repeat::Allow),
            };
            let found = self.state.guard.note(&self.config.registry.spec.loop_guard, &seen);
            let tool_name = call.tool_name.clone();
            self.state.guarded += 1;
            let (reason, what) = match found {
                None => continue,
                Some(Loop::Calls) => {
                    (StopReason::RepeatedToolCall, "was called again and again with the same result")
                }
                Some(Loop::Errors) => {
                    (StopReason::SameErrorRepeated, "failed again and again with the same error")
                }
            };
            self.end_by(reason, format!("{tool_name} {what}"), Some(tool_name));
            return;
        }
    }

    /// All calls have results: the step is over and its state is worth going back to.
    pub(super) fn close_step(&mut self) {
        self.records.push(Record::StepClosed { number: self.state.step });
        self.save_checkpoint();
        self.state.phase = Phase::Boundary;
        if self.state.over_limit && self.state.used.tool_calls >= self.state.budgets.max_tool_calls {
            self.exhausted(crate::budget::Limit::MaxToolCalls);
        }
    }

    pub(super) fn save_checkpoint(&mut self) {
        self.records.push(Record::Checkpoint(CheckpointRow { step: self.state.step }));
        self.emit_in_step(EventType::CheckpointSaved, json!({}));
    }
}

/// A result as the model sees it: plain where it succeeded, otherwise what went wrong in a form that tells them apart.
fn told_to_model(result: &ToolResult, edited: Option<&str>, has_begun: bool) -> String {
    let told = match (result.status, result.error_code) {
        (ResultStatus::Succeeded, _) if result.content.is_empty() => "(no output)".to_owned(),
        (ResultStatus::Succeeded, _) => result.content.clone(),
        (status, code) => {
            json!({"status": status, "error_code": code, "message": result.content}).to_string()
        }
    };
    match edited {
        Some(input) => {
            let before = if has_begun { " before it ran" } else { "" };
            format!("[A person changed the arguments of this call{before}, to {input}]\n{told}")
        }
        None => told,
    }
}
