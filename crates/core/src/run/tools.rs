//! Calls run: in order, within limits, each attempt written down before it is sent.

use serde_json::json;

use super::call::{Call, Stage};
use super::event::{KeyHolder, Submitted, SubmittedStatus};
use super::event_type::EventType;
use super::record::{LedgerRow, Record};
use super::step::{Legal, Machine};
use crate::Millis;
use crate::agent::ToolSpec;
use crate::id::{CallId, LedgerId};
use crate::ledger::{Next, after_attempt, taints};
use crate::tool::{Attempt, ErrorCode, ResultStatus, ToolResult};

/// What the model is told of a call that may have happened before.
pub(super) const SAME_IS_UNCLEAR: &str =
    "The same call was made before and nobody knows whether it happened; it is not sent again.";
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
        if self.state.suspended {
            return;
        }
        for index in 0..self.state.calls.len() {
            if self.state.ending.is_some() || !self.may_start(index) {
                continue;
            }
            let call = &self.state.calls[index];
            if call.agent {
                self.look_for_agent(index);
            } else if call.business_key || (call.writes && self.state.has_effects_to_take()) {
                self.resume();
                self.state.calls[index].stage = Stage::Key;
            } else {
                self.start(index);
            }
            // A call that was refused may end the run; then no other begins.
            self.note_progress();
        }
    }

    /// Whether a call would begin if its tenant weren't suspended.
    pub(super) fn is_held_back(&self) -> bool {
        self.state.suspended && (0..self.state.calls.len()).any(|index| self.may_start(index))
    }

    fn may_start(&self, index: usize) -> bool {
        let calls = &self.state.calls;
        let call = &calls[index];
        if call.stage != Stage::Ready {
            return false;
        }
        let working = |other: &&Call| other.is_busy();
        if call.parallel_safe {
            let alone = calls.iter().filter(working).any(|other| !other.parallel_safe);
            !alone && calls.iter().filter(working).count() < MAX_AT_ONCE
        } else {
            calls[..index].iter().all(Call::is_done) && !calls.iter().any(Call::is_busy)
        }
    }

    /// What was so when the call came in may have changed: the limit was lowered, or the same call is unclear by now.
    pub(super) fn may_still_run(&mut self, index: usize) -> bool {
        if self.is_approval_too_old(index) {
            self.approval_too_old(index);
            return false;
        }
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
        let timeout_ms = self.tool_of(index).map_or(0, ToolSpec::timeout_ms);
        let expires_at = self.at.saturating_add_unsigned(timeout_ms);
        let stage = if self.state.calls[index].client {
            Stage::Parked { expires_at }
        } else {
            Stage::Out { attempt: 1, tainted: false }
        };
        self.begin(index, stage, expires_at);
    }

    /// It begins: it is in the ledger, and everybody may know.
    pub(super) fn begin(&mut self, index: usize, stage: Stage, expires_at: Millis) {
        self.resume();
        let call = &mut self.state.calls[index];
        call.started_at = Some(self.at);
        call.stage = stage;
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
            rules: call.rules_at(self.at),
            approval: call.approved.take().map(|given| given.approval),
        };
        let data = json!({"tool_call_id": call.id, "tool_name": call.tool_name});
        self.records.push(Record::LedgerOpened(Box::new(row)));
        self.emit_in_step(EventType::ToolStarted, data);
    }

    pub(super) fn key_free(&mut self, call: CallId) -> Legal {
        let index = self.index_of(call, "KeyFree")?;
        if self.state.calls[index].stage != Stage::Key || self.state.calls[index].agent {
            return Err(self.illegal("KeyFree"));
        }
        // Nothing is begun any more in a run that is ending; in one that is suspended the key is looked for again.
        if self.state.ending.is_none() && !self.state.suspended {
            self.start(index);
            self.note_progress();
        }
        Ok(())
    }

    /// An earlier call, of any run, had the key or made the effect: this one takes its outcome and isn't sent.
    pub(super) fn key_taken(&mut self, call: CallId, holder: KeyHolder) -> Legal {
        let index = self.index_of(call, "KeyTaken")?;
        if self.state.calls[index].stage != Stage::Key {
            return Err(self.illegal("KeyTaken"));
        }
        if holder.inherited && !self.take_effect(call, holder.ledger_id) {
            // Another call of the step took it in the same moment: look again.
            return Ok(());
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

    /// Takes an effect that the run brought along, once.
    fn take_effect(&mut self, call: CallId, ledger_id: LedgerId) -> bool {
        let Some(inherited) = &mut self.state.inherited else { return false };
        if inherited.taken.contains(&ledger_id) {
            return false;
        }
        inherited.taken.push(ledger_id);
        inherited.effects = inherited.effects.saturating_sub(1);
        self.records.push(Record::EffectTaken { ledger_id, call });
        true
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
        if self.state.suspended {
            return;
        }
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
}
