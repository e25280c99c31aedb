//! How runs end: at once where nothing is out, else as soon as the writes that are out are known.

use serde_json::json;

use super::approval_row::ApprovalStatus;
use super::call::Stage;
use super::event_type::EventType;
use super::record::Record;
use super::settle::uncertain_result;
use super::state::{End, Phase};
use super::status::{Status, StopReason};
use super::step::{Legal, Machine};
use crate::budget::Limit;
use crate::id::ApprovalId;
use crate::ledger::Outcome;
use crate::tool::{ErrorCode, ResultStatus, ToolResult};

impl Machine<'_> {
    /// The run will end for `reason`.
    pub(super) fn end_by(&mut self, reason: StopReason, detail: String, tool_name: Option<String>) {
        self.end_with_code(reason, reason.as_str(), detail, tool_name);
    }

    /// The run will end for `reason`, with a finer code. The first reason stands.
    pub(super) fn end_with_code(
        &mut self,
        reason: StopReason,
        code: &str,
        detail: String,
        tool_name: Option<String>,
    ) {
        if self.state.ending.is_none() {
            let step = self.step_number();
            self.state.ending = Some(End { reason, code: code.to_owned(), detail, step, tool_name });
        }
    }

    pub(super) fn end_by_limit(&mut self, limit: Limit) {
        let budgets = &self.state.budgets;
        let detail = match limit {
            Limit::MaxSteps => format!("the limit of {} steps is used up", budgets.max_steps),
            Limit::MaxTokens => {
                format!("the limit of {} tokens leaves no room for another model call", budgets.max_tokens)
            }
            Limit::MaxToolCalls => format!("the limit of {} tool calls is used up", budgets.max_tool_calls),
            Limit::MaxCost => "the cost limit leaves no room for another model call".into(),
            Limit::Timeout => self.timeout_detail(),
        };
        let tool_name = if limit == Limit::Timeout { self.tool_at_work() } else { None };
        self.end_by(limit.into(), detail, tool_name);
    }

    fn timeout_detail(&self) -> String {
        let during = self.tool_at_work().map(|tool| format!(" while {tool} was at work")).unwrap_or_default();
        if self.state.deadline.is_some_and(|deadline| deadline <= self.at) {
            format!("its deadline passed{during}")
        } else {
            format!("its {} ms were over{during}", self.state.budgets.timeout_ms)
        }
    }

    fn tool_at_work(&self) -> Option<String> {
        self.state.calls.iter().find(|call| !call.is_done()).map(|call| call.tool_name.clone())
    }

    /// Cancel wins over everything not yet finished; writes that are out come in late, to the ledger alone.
    pub(super) fn cancelled(&mut self, reason: Option<String>) -> Legal {
        let detail = reason.unwrap_or_else(|| "cancelled".into());
        let step = self.step_number();
        let code = StopReason::Cancelled.as_str().to_owned();
        self.state.ending = None;
        self.finish(End { reason: StopReason::Cancelled, code, detail, step, tool_name: None });
        Ok(())
    }

    pub(super) fn broken(&mut self, code: String, detail: String) -> Legal {
        self.end_with_code(StopReason::InternalError, &code, detail, None);
        Ok(())
    }

    /// Ends the run if nothing that matters is out: reads are given up, writes are waited for.
    pub(super) fn settle_ending(&mut self) {
        let writing =
            self.state.calls.iter().any(|call| {
                call.writes && matches!(call.stage, Stage::Out { .. } | Stage::Reconciling { .. })
            });
        if writing {
            self.stop_children();
        } else if let Some(end) = self.state.ending.take() {
            self.finish(end);
        }
    }

    pub(super) fn finish_with_answer(&mut self, answer: String) {
        let step = Some(self.state.step);
        let code = StopReason::FinalAnswer.as_str().to_owned();
        let end = End { reason: StopReason::FinalAnswer, code, detail: answer, step, tool_name: None };
        self.close_run(end);
    }

    /// Every call gets a result, every approval an end, then the run is over.
    fn finish(&mut self, end: End) {
        for index in 0..self.state.calls.len() {
            self.cut_short(index, end.reason);
        }
        if self.state.is_step_open() {
            self.records.push(Record::StepClosed { number: self.state.step });
            if self.state.phase == Phase::Tools {
                self.save_checkpoint();
            }
        }
        if let Some(ask) = self.state.budget_ask.take() {
            self.cancel_approval(ask.approval_id);
        }
        self.close_run(end);
    }

    /// What becomes of a call when its run ends.
    fn cut_short(&mut self, index: usize, reason: StopReason) {
        let call = &self.state.calls[index];
        let (ledger_id, writes) = (call.ledger_id(), call.writes);
        let (approval, uncertain_approval) = (call.approval_id(), call.uncertain_approval_id());
        let close = |outcome| Record::LedgerClosed { ledger_id, outcome };
        let mut entry = Some(ledger_id);
        // What comes of a run that is told to end is heard by the ledger alone.
        if matches!(call.stage, Stage::Child { .. }) {
            let reason = "the run that called it ended".into();
            self.records.push(Record::ChildStopped { call: call.id, reason });
        }
        match self.state.calls[index].stage {
            Stage::Done(_) => return,
            Stage::Ready | Stage::Key => entry = None,
            Stage::Asked { .. } => {
                entry = None;
                self.cancel_approval(approval);
            }
            // The entry is uncertain already.
            Stage::AskedUncertain { .. } => {
                self.cancel_approval(uncertain_approval);
                self.complete(index, uncertain_result("the run ended before anybody could tell"), entry);
                return;
            }
            Stage::Backoff { tainted: false, .. } => {
                self.records.push(close(Outcome::failed(ErrorCode::Cancelled)))
            }
            Stage::Out { .. }
            | Stage::Reconciling { .. }
            | Stage::Parked { .. }
            | Stage::Child { .. }
            | Stage::Backoff { .. }
                if !writes =>
            {
                self.records.push(close(Outcome::failed(ErrorCode::Cancelled)));
            }
            // After a cancel the request is let finish; its outcome comes to the ledger late.
            Stage::Out { .. } if reason == StopReason::Cancelled => {}
            Stage::Out { .. }
            | Stage::Reconciling { .. }
            | Stage::Parked { .. }
            | Stage::Child { .. }
            | Stage::Backoff { .. } => {
                self.records.push(close(Outcome::uncertain()));
                let parked =
                    matches!(self.state.calls[index].stage, Stage::Parked { .. } | Stage::Child { .. });
                if !parked && reason != StopReason::Cancelled {
                    self.complete(index, uncertain_result("the run ended while it was out"), entry);
                    return;
                }
            }
        }
        let message = "The run ended before this call did.";
        let result = ToolResult {
            duration_ms: self.duration_ms(index),
            ..ToolResult::without_run(ResultStatus::Cancelled, Some(ErrorCode::Cancelled), message)
        };
        self.complete(index, result, entry);
    }

    pub(super) fn cancel_approval(&mut self, approval_id: ApprovalId) {
        self.records.push(Record::ApprovalClosed {
            approval_id,
            status: ApprovalStatus::Cancelled,
            by: "run".into(),
        });
    }

    fn close_run(&mut self, end: End) {
        let status = end.reason.status();
        let (answer, error) = match status {
            Status::Finished => (Some(end.detail.clone()), None),
            Status::Cancelled => (None, None),
            _ => (Some(sentence(&end)), Some(error_of(&end))),
        };
        self.state.clock.stop(self.at);
        self.state.status = status;
        self.state.phase = Phase::Ended;
        let kind = match status {
            Status::Finished => EventType::RunFinished,
            Status::Cancelled => EventType::RunCancelled,
            _ => EventType::RunFailed,
        };
        self.records.push(Record::Ended { final_answer: answer, error });
        self.emit(kind, json!({"status": status, "stop_reason": end.reason}));
        // The answer is a body and stands in its row; the state keeps the facts.
        let detail = if status == Status::Finished { String::new() } else { end.detail };
        self.state.end = Some(End { detail, ..end });
    }
}

/// What a stopped run tells its user: what stopped it, the step and the tool.
fn sentence(end: &End) -> String {
    let step = end.step.map(|step| format!(" in step {step}")).unwrap_or_default();
    let tool = match &end.tool_name {
        Some(tool) if !end.detail.contains(tool.as_str()) => format!(" (tool {tool})"),
        _ => String::new(),
    };
    format!("This run was stopped{step}: {}{tool}.", end.detail.trim_end_matches('.'))
}

fn error_of(end: &End) -> serde_json::Value {
    let mut error = json!({"code": end.code, "message": end.detail, "step": end.step});
    if let Some(tool_name) = &end.tool_name {
        error["tool_name"] = json!(tool_name);
    }
    error
}
