//! Calls run: in order, within limits, each attempt written down before it is sent.

use serde_json::json;

use super::call::{Call, CallOutcome, Stage};
use super::event::{CallVerdict, KeyHolder, Submitted, SubmittedStatus};
use super::record::{CheckpointRow, Decision, EventType, LedgerRow, Record};
use super::state::{Phase, StopReason};
use super::step::{Legal, Machine};
use crate::agent::{Repeat, ToolSpec};
use crate::id::{CallId, LedgerId};
use crate::json::sha256_hex;
use crate::ledger::{Next, Outcome, after_attempt, taints};
use crate::loop_guard::{Loop, Seen};
use crate::message::{Message, Role};
use crate::permission::Effect;
use crate::tool::{Attempt, ErrorCode, Output, ResultStatus, ToolResult};

/// What the model is told of a call that may have happened before.
pub(super) const SAME_IS_UNCLEAR: &str =
    "The same call was made before and nobody knows whether it happened; it is not sent again.";
/// Code points of an edited input that the model is shown beside the result.
const MAX_EDIT_SHOWN: usize = 2_000;
/// Calls of one step that may be out at once.
const MAX_AT_ONCE: usize = 16;
/// Time past an attempt's own timeout after which its entry must be known, in milliseconds.
const ENTRY_GRACE_MS: u64 = 5_000;

impl Machine<'_> {
    pub(super) fn index_of(&self, call: CallId, event: &'static str) -> Result<usize, super::IllegalEvent> {
        self.state.calls.iter().position(|known| known.id == call).ok_or_else(|| self.illegal(event))
    }

    pub(super) fn tool_of(&self, index: usize) -> Option<&ToolSpec> {
        self.config.registry.tool(&self.state.calls[index].tool_name)
    }

    /// Starts every call whose turn it is. A call that isn't `parallel_safe` runs alone and in its order; one that waits
    /// for people holds back only such calls.
    pub(super) fn start_ready_calls(&mut self) {
        for index in 0..self.state.calls.len() {
            if self.state.ending.is_some() || !self.may_start(index) {
                continue;
            }
            if self.state.calls[index].business_key {
                self.resume();
                self.state.calls[index].stage = Stage::Key;
            } else {
                self.start(index);
            }
        }
        self.note_progress();
    }

    fn may_start(&self, index: usize) -> bool {
        let calls = &self.state.calls;
        let call = &calls[index];
        if call.stage != Stage::Ready {
            return false;
        }
        let working = |other: &&Call| other.is_at_work();
        if call.parallel_safe {
            let alone = calls.iter().filter(working).any(|other| !other.parallel_safe);
            !alone && calls.iter().filter(working).count() < MAX_AT_ONCE
        } else {
            calls[..index].iter().all(Call::is_done) && !calls.iter().any(Call::is_at_work)
        }
    }

    /// What was so when the call came in may have changed: the limit was lowered, or the same call is unclear by now.
    fn may_still_run(&mut self, index: usize) -> bool {
        let call = &self.state.calls[index];
        if self.is_unsettled(&call.tool_name, &call.input_hash) {
            self.reject(index, ErrorCode::SideEffectUncertain, SAME_IS_UNCLEAR);
            return false;
        }
        if self.state.used.tool_calls >= self.state.budgets.max_tool_calls {
            self.state.over_limit = true;
            let message = self.over_limit_message();
            self.reject(index, ErrorCode::BudgetExhausted, &message);
            return false;
        }
        true
    }

    /// The intent: an entry in the ledger, then the call is out (or parked, where the caller answers it).
    fn start(&mut self, index: usize) {
        if !self.may_still_run(index) {
            return;
        }
        self.resume();
        let timeout_ms = self.tool_of(index).map_or(0, ToolSpec::timeout_ms);
        let call = &mut self.state.calls[index];
        call.started_at = Some(self.at);
        let expires_at = self.at.saturating_add_unsigned(timeout_ms);
        call.stage =
            if call.client { Stage::Parked { expires_at } } else { Stage::Out { attempt: 1, tainted: false } };
        self.state.used.tool_calls += 1;
        let row = LedgerRow {
            id: call.ledger_id(),
            call: call.id,
            step: self.state.step,
            tool_name: call.tool_name.clone(),
            input_hash: call.input_hash.clone(),
            idempotency_key: call.idempotency_key.clone(),
            business_key: call.business_key,
            writes: call.writes,
            until: expires_at.saturating_add_unsigned(ENTRY_GRACE_MS),
        };
        let data = json!({"tool_call_id": call.id, "tool_name": call.tool_name});
        self.records.push(Record::LedgerOpened(Box::new(row)));
        self.emit_in_step(EventType::ToolStarted, data);
    }

    pub(super) fn key_free(&mut self, call: CallId) -> Legal {
        let index = self.index_of(call, "KeyFree")?;
        if self.state.calls[index].stage != Stage::Key {
            return Err(self.illegal("KeyFree"));
        }
        // Nothing is begun any more in a run that is ending.
        if self.state.ending.is_none() {
            self.start(index);
            self.note_progress();
        }
        Ok(())
    }

    /// An earlier call, of any run, had the key: this one takes its outcome and isn't sent.
    pub(super) fn key_taken(&mut self, call: CallId, holder: KeyHolder) -> Legal {
        let index = self.index_of(call, "KeyTaken")?;
        if self.state.calls[index].stage != Stage::Key {
            return Err(self.illegal("KeyTaken"));
        }
        if !holder.same_input {
            let message = "Another call has the same idempotency key with another input.";
            let result = ToolResult::without_run(ResultStatus::Failed, Some(ErrorCode::Conflict), message);
            self.complete(index, result, None);
        } else if holder.result.status == ResultStatus::Uncertain {
            self.complete(index, holder.result, Some(holder.ledger_id));
            self.give_up_on(index);
        } else {
            self.complete(index, holder.result, Some(holder.ledger_id));
        }
        self.note_progress();
        Ok(())
    }

    pub(super) fn call_decided(&mut self, call: CallId, verdict: CallVerdict, by: String, reason: Option<String>) -> Legal {
        let index = self.index_of(call, "CallDecided")?;
        if !matches!(self.state.calls[index].stage, Stage::Asked { .. }) {
            return Err(self.illegal("CallDecided"));
        }
        let status = if matches!(verdict, CallVerdict::Denied) { "denied" } else { "approved" };
        let known = &self.state.calls[index];
        let data = json!({"tool_call_id": known.id, "tool_name": known.tool_name, "approval_id": known.approval_id(),
            "status": status, "by": by, "reason": reason});
        self.emit_in_step(EventType::ApprovalDecided, data);
        match verdict {
            CallVerdict::Approved(approval) => self.approved(index, *approval, by, reason),
            CallVerdict::Denied => {
                let reason = reason.unwrap_or_else(|| "a person said no".into());
                let decision = Decision { effect: Effect::Deny, rule: None, by, reason, decided_at: self.at };
                self.records.push(Record::CallDecided { call, decision: decision.clone() });
                self.deny(index, &decision.by, &decision.reason);
            }
            CallVerdict::Answered(output) => {
                let reason = reason.unwrap_or_else(|| "a person answered instead of the tool".into());
                let decision = Decision { effect: Effect::Allow, rule: None, by, reason, decided_at: self.at };
                self.records.push(Record::CallDecided { call, decision });
                self.succeed(index, output, None);
            }
        }
        self.note_progress();
        Ok(())
    }

    /// The approval is used: what was approved runs, unless policy says no by now.
    fn approved(&mut self, index: usize, approval: super::event::Approval, by: String, reason: Option<String>) {
        let call = self.state.calls[index].id;
        if approval.judged_again.effect == Effect::Deny {
            let decision = Decision::of(&approval.judged_again, self.at);
            self.decided(index, &decision);
            self.deny(index, &decision.by, &decision.reason);
            return;
        }
        if let Some((input, input_hash, key)) = approval.edited {
            let known = &mut self.state.calls[index];
            known.input_hash.clone_from(&input_hash);
            known.idempotency_key = key;
            known.edited = Some(crate::text::head(&input.to_string(), MAX_EDIT_SHOWN).to_owned());
            self.records.push(Record::CallEdited { call, input, input_hash });
        }
        let reason = reason.unwrap_or_else(|| "approved".into());
        let decision = Decision { effect: Effect::Allow, rule: None, by, reason, decided_at: self.at };
        self.records.push(Record::CallDecided { call, decision });
        self.state.calls[index].stage = Stage::Ready;
    }

    pub(super) fn tool_attempted(&mut self, call: CallId, outcome: Attempt, jitter: u16) -> Legal {
        let index = self.index_of(call, "ToolAttempted")?;
        let Stage::Out { attempt, tainted } = self.state.calls[index].stage else {
            return Err(self.illegal("ToolAttempted"));
        };
        let Some(tool) = self.tool_of(index) else { return Err(self.illegal("ToolAttempted")) };
        let tainted_now = tainted || taints(tool, &outcome);
        match after_attempt(tool, attempt, tainted, outcome, jitter) {
            Next::Succeeded(output) => self.executed(index, output),
            Next::Failed(code, message) => self.fail(index, code, &message),
            Next::Uncertain(why) => self.unclear(index, attempt, why),
            Next::Retry(_) if self.state.ending.is_some() => self.not_sent_again(index, attempt, tainted_now),
            Next::Retry(ms) => {
                let until = self.at.saturating_add_unsigned(ms);
                self.state.calls[index].stage = Stage::Backoff { attempt, tainted: tainted_now, until };
            }
        }
        self.note_progress();
        Ok(())
    }

    /// The run ends, so another attempt isn't made: a write that may have happened is asked for, the rest is given up.
    pub(super) fn not_sent_again(&mut self, index: usize, attempt: u32, tainted: bool) {
        if tainted {
            self.unclear(index, attempt, "the run ended before it was known".into());
        } else {
            self.fail(index, ErrorCode::Cancelled, "The run ended before this call was done.");
        }
    }

    /// Sends a call again: the attempt is written down before it is out.
    pub(super) fn send_again(&mut self, index: usize) {
        let Stage::Backoff { attempt, tainted, .. } = self.state.calls[index].stage else { return };
        let call = &self.state.calls[index];
        if self.is_unsettled(&call.tool_name, &call.input_hash) {
            // Its twin, which was out beside it, is unclear by now.
            if tainted {
                self.unclear(index, attempt, SAME_IS_UNCLEAR.into());
            } else {
                self.fail(index, ErrorCode::SideEffectUncertain, SAME_IS_UNCLEAR);
            }
            return;
        }
        let timeout_ms = self.tool_of(index).map_or(0, ToolSpec::timeout_ms);
        let until = self.at.saturating_add_unsigned(timeout_ms + ENTRY_GRACE_MS);
        let ledger_id = self.state.calls[index].ledger_id();
        self.state.calls[index].stage = Stage::Out { attempt: attempt + 1, tainted };
        self.records.push(Record::LedgerAttempt { ledger_id, attempt: attempt + 1, until });
    }

    pub(super) fn result_submitted(&mut self, call: CallId, submitted: Submitted) -> Legal {
        let index = self.index_of(call, "ToolResultSubmitted")?;
        if !matches!(self.state.calls[index].stage, Stage::Parked { .. }) {
            return Err(self.illegal("ToolResultSubmitted"));
        }
        match submitted.status {
            SubmittedStatus::Succeeded => self.executed(index, submitted.output),
            SubmittedStatus::Failed => {
                let code = submitted.error_code.unwrap_or(ErrorCode::Internal);
                self.fail(index, code, &submitted.output.content);
            }
        }
        self.note_progress();
        Ok(())
    }

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
            Stage::Out { attempt, .. } | Stage::Backoff { attempt, .. } | Stage::Reconciling { attempt, .. } => attempt,
            _ => 1,
        };
        let told = told_to_model(&result, call.edited.as_deref());
        let outcome = CallOutcome {
            status: result.status,
            error_code: result.error_code,
            result_hash: sha256_hex(told.as_bytes()),
        };
        self.state.calls[index].stage = Stage::Done(outcome);
        if let Some((message_id, seq)) = message {
            self.records.push(Record::Message(Message {
                id: message_id,
                seq,
                role: Role::Tool,
                content: told,
                tool_calls: vec![],
                tool_call_id: Some(id),
                step: Some(self.state.step),
                extra: None,
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

    /// Shows the loop guard the calls that are done, in call order.
    pub(super) fn note_progress(&mut self) {
        while let Some(call) = self.state.calls.get(self.state.guarded) {
            let Stage::Done(outcome) = &call.stage else { return };
            // Calls that are over a limit say nothing of the tool; the limit itself ends the run.
            if outcome.error_code == Some(ErrorCode::BudgetExhausted) {
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
                Some(Loop::Calls) => (StopReason::RepeatedToolCall, "was called again and again with the same result"),
                Some(Loop::Errors) => (StopReason::SameErrorRepeated, "failed again and again with the same error"),
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
fn told_to_model(result: &ToolResult, edited: Option<&str>) -> String {
    let told = match (result.status, result.error_code) {
        (ResultStatus::Succeeded, _) if result.content.is_empty() => "(no output)".to_owned(),
        (ResultStatus::Succeeded, _) => result.content.clone(),
        (status, code) => json!({"status": status, "error_code": code, "message": result.content}).to_string(),
    };
    match edited {
        Some(input) => format!("[A person changed the arguments of this call before it ran, to {input}]\n{told}"),
        None => told,
    }
}
