//! A write that may have happened: ask the far side, ask a person, tell the model, or stop. Never just send it again.

use serde_json::json;

use super::approval_row::{ApprovalKind, ApprovalRow};
use super::call::Stage;
use super::event::Reconciliation;
use super::event_type::EventType;
use super::record::Record;
use super::status::StopReason;
use super::step::{Legal, Machine};
use crate::agent::OnUncertain;
use crate::id::CallId;
use crate::ledger::Outcome;
use crate::permission::DEFAULT_EXPIRES_MS;
use crate::tool::{ErrorCode, Output, Reconciled, ResultStatus, ToolResult};

impl Machine<'_> {
    /// Nobody knows what became of a call: first the far side is asked, if the agent says how.
    pub(super) fn unclear(&mut self, index: usize, attempt: u32, why: String) {
        let asks = self.tool_of(index).is_some_and(|tool| tool.reconcile.is_some());
        if asks {
            self.state.calls[index].stage = Stage::Reconciling { attempt, why };
        } else {
            self.uncertain(index, &why);
        }
    }

    pub(super) fn tool_reconciled(&mut self, call: CallId, reconciliation: Reconciliation) -> Legal {
        let index = self.index_of(call, "ToolReconciled")?;
        let Stage::Reconciling { attempt, why } = self.state.calls[index].stage.clone() else {
            return Err(self.illegal("ToolReconciled"));
        };
        let known = &self.state.calls[index];
        let data =
            json!({"tool_call_id": known.id, "tool_name": known.tool_name, "state": reconciliation.state});
        self.emit_in_step(EventType::ToolReconciled, data);
        let attempts = self.tool_of(index).map_or(1, |tool| tool.retry.max_attempts);
        match reconciliation.state {
            Reconciled::Applied => {
                self.executed(index, reconciliation.result.unwrap_or_else(|| Output::plain("")));
            }
            // The far side says that it didn't happen, so the same key may be sent again.
            Reconciled::NotApplied if attempt < attempts && self.state.ending.is_none() => {
                self.state.calls[index].stage = Stage::Backoff { attempt, tainted: false, until: self.at };
                self.send_again(index);
            }
            Reconciled::NotApplied => {
                self.fail(index, ErrorCode::Unavailable, &format!("It was not done: {why}"));
            }
            Reconciled::Unknown => self.uncertain(index, &why),
        }
        self.note_progress();
        Ok(())
    }

    /// Nobody can say: the entry says so, and the agent says what then.
    pub(super) fn uncertain(&mut self, index: usize, why: &str) {
        let ledger_id = self.state.calls[index].ledger_id();
        self.records.push(Record::LedgerClosed { ledger_id, outcome: Outcome::uncertain() });
        let on_uncertain = self.tool_of(index).map_or(OnUncertain::Stop, |tool| tool.on_uncertain);
        if on_uncertain == OnUncertain::Ask && self.state.ending.is_none() {
            self.ask_what_became(index, why);
            return;
        }
        let result = ToolResult { duration_ms: self.duration_ms(index), ..uncertain_result(why) };
        self.complete(index, result, Some(ledger_id));
        self.give_up_on(index);
    }

    /// `on_uncertain` of a call that has its uncertain result.
    pub(super) fn give_up_on(&mut self, index: usize) {
        let on_uncertain = self.tool_of(index).map_or(OnUncertain::Stop, |tool| tool.on_uncertain);
        let call = &self.state.calls[index];
        let (tool_name, input_hash) = (call.tool_name.clone(), call.input_hash.clone());
        if on_uncertain == OnUncertain::Observe {
            self.state.unsettled.push((tool_name, input_hash));
        } else {
            let detail = format!("nobody knows whether the call of {tool_name} happened");
            self.end_by(StopReason::SideEffectUncertain, detail, Some(tool_name));
        }
    }

    fn ask_what_became(&mut self, index: usize, why: &str) {
        let expires_at = self.at.saturating_add_unsigned(DEFAULT_EXPIRES_MS);
        let call = &mut self.state.calls[index];
        call.stage = Stage::AskedUncertain { expires_at };
        let row = ApprovalRow {
            id: call.uncertain_approval_id(),
            kind: ApprovalKind::UncertainEffect,
            call: Some(call.id),
            step: self.state.step,
            tool_name: Some(call.tool_name.clone()),
            input_hash: Some(call.input_hash.clone()),
            risk: self.config.registry.tool(&call.tool_name).map(|tool| tool.risk),
            reason: format!("Did it happen? {why}"),
            required: 1,
            expires_at,
            tool_version: None,
            self_approval: true,
            remind_every_ms: None,
        };
        self.request_approval(row);
    }

    /// A person knows what became of it. The entry and the approval were settled with their word; the run goes on.
    pub(super) fn effect_settled(
        &mut self,
        call: CallId,
        applied: bool,
        content: Option<String>,
        by: String,
    ) -> Legal {
        let index = self.index_of(call, "EffectSettled")?;
        if !matches!(self.state.calls[index].stage, Stage::AskedUncertain { .. }) {
            return Err(self.illegal("EffectSettled"));
        }
        let known = &self.state.calls[index];
        let ledger_id = known.ledger_id();
        let data = json!({"tool_call_id": known.id, "tool_name": known.tool_name, "by": by,
            "approval_id": known.uncertain_approval_id(), "status": if applied { "approved" } else { "denied" }});
        self.emit_in_step(EventType::ApprovalDecided, data);
        if applied {
            let said = content.unwrap_or_else(|| "A person says that it was done.".into());
            self.succeed(index, Output::plain(said), Some(ledger_id));
        } else {
            let said = content
                .unwrap_or_else(|| "A person says that it was not done; it was not sent again.".into());
            let result = ToolResult {
                duration_ms: self.duration_ms(index),
                ..ToolResult::without_run(ResultStatus::Failed, Some(ErrorCode::Unavailable), said)
            };
            self.complete(index, result, Some(ledger_id));
        }
        self.note_progress();
        Ok(())
    }
}

/// What the model is told of a call of which nobody knows.
pub(super) fn uncertain_result(why: &str) -> ToolResult {
    let message = format!(
        "It may have happened or not, and can't be told ({why}). Don't assume either; don't call it again."
    );
    ToolResult::without_run(ResultStatus::Uncertain, Some(ErrorCode::SideEffectUncertain), message)
}
