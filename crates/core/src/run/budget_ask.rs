//! A limit is reached: the run ends, or people are asked for more.

use serde_json::json;

use super::approval_row::{ApprovalKind, ApprovalRow, ApprovalStatus};
use super::event_type::EventType;
use super::record::Record;
use super::state::{BudgetAsk, Phase, RunState};
use super::status::StopReason;
use super::step::{Legal, Machine};
use crate::budget::{BudgetPatch, Limit, OnExhausted, before_model_call};
use crate::id::ApprovalId;
use crate::permission::DEFAULT_EXPIRES_MS;

impl Machine<'_> {
    /// A limit is reached: the run ends, or asks for more.
    pub(super) fn exhausted(&mut self, limit: Limit) {
        if self.state.budgets.on_exhausted == OnExhausted::Stop || limit == Limit::Timeout {
            self.end_by_limit(limit);
            self.settle_ending();
            return;
        }
        self.state.asks += 1;
        let approval_id = self.budget_approval_id();
        let expires_at = self.at.saturating_add_unsigned(DEFAULT_EXPIRES_MS);
        self.state.budget_ask = Some(BudgetAsk {
            approval_id,
            limit,
            expires_at,
            back_to: self.state.phase,
            since: Some(self.at),
        });
        self.state.phase = Phase::Budget;
        let row = ApprovalRow {
            id: approval_id,
            kind: ApprovalKind::Budget,
            call: None,
            step: self.state.step,
            tool_name: None,
            input_hash: None,
            risk: None,
            reason: format!("{} is used up", StopReason::from(limit).as_str()),
            required: 1,
            expires_at,
            tool_version: None,
            self_approval: true,
            remind_every_ms: None,
        };
        self.request_approval(row);
    }

    /// The id follows from the run, the moment and a counter, so the same events always give the same one; like all ids
    /// it sorts by time.
    fn budget_approval_id(&self) -> ApprovalId {
        let time = u128::try_from(self.at).unwrap_or(0) << 80;
        let tail = self.state.run_id.0.as_u128() & ((1 << 80) - 1);
        ApprovalId(uuid::Uuid::from_u128(time | (tail ^ (u128::from(self.state.asks) << 1))))
    }

    pub(super) fn budget_changed(&mut self, patch: &BudgetPatch, by: String) -> Legal {
        self.state.budgets = patch.apply(&self.state.budgets);
        let Some(BudgetAsk { approval_id, limit, back_to, .. }) = self.state.budget_ask else {
            return Ok(());
        };
        if self.state.has_room(limit) {
            self.state.budget_ask = None;
            self.records.push(Record::ApprovalClosed {
                approval_id,
                status: ApprovalStatus::Approved,
                by: by.clone(),
            });
            let data = json!({"approval_id": approval_id, "status": "approved", "by": by});
            self.emit_in_step(EventType::ApprovalDecided, data);
            self.resume();
            self.state.phase = back_to;
        }
        Ok(())
    }

    pub(super) fn budget_denied(&mut self, approval: ApprovalId, by: &str) -> Legal {
        let Some(ask) = self.state.budget_ask.filter(|ask| ask.approval_id == approval) else {
            return Err(self.illegal("BudgetDenied"));
        };
        let data = json!({"approval_id": approval, "status": "denied", "by": by});
        self.emit_in_step(EventType::ApprovalDecided, data);
        self.refused_more(ask);
        Ok(())
    }

    /// There is no more: the run ends where it asked.
    pub(super) fn refused_more(&mut self, ask: BudgetAsk) {
        self.state.budget_ask = None;
        self.state.phase = ask.back_to;
        self.end_by_limit(ask.limit);
    }
}

impl RunState {
    /// Whether limits that are changed so would let the run go on, where it asks for more.
    pub fn is_enough(&self, patch: &BudgetPatch) -> bool {
        let changed = Self { budgets: patch.apply(&self.budgets), ..self.clone() };
        self.budget_ask.is_none_or(|ask| changed.has_room(ask.limit))
    }

    fn has_room(&self, limit: Limit) -> bool {
        match limit {
            Limit::MaxSteps => self.used.steps < self.budgets.max_steps,
            Limit::MaxToolCalls => self.used.tool_calls < self.budgets.max_tool_calls,
            Limit::MaxTokens | Limit::MaxCost => {
                before_model_call(&self.budgets, &self.used, &self.estimate).is_none()
            }
            Limit::Timeout => true,
        }
    }
}
