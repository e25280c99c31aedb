//! Calls of a reply come in: rejected, denied, asked for, or ready.

use serde_json::json;

use super::approval_row::{ApprovalKind, ApprovalRow};
use super::call::{Call, Stage};
use super::decision::Decision;
use super::event::NewCall;
use super::event_type::EventType;
use super::record::{CallRow, Record};
use super::state::Denied;
use super::status::StopReason;
use super::step::Machine;
use super::tools::SAME_IS_UNCLEAR;
use crate::agent::{ToolKind, ToolSpec};
use crate::permission::{Denials, Effect, Judgement, OnDeny};
use crate::registry::Validation;
use crate::tool::{ErrorCode, ResultStatus, ToolResult};

impl Machine<'_> {
    /// Takes the calls of a reply, in their order.
    pub(super) fn take_calls(&mut self, calls: Vec<NewCall>) {
        // All results have their places before anything else can be said.
        let places: Vec<_> =
            calls.iter().map(|call| call.message_id.map(|id| (id, self.next_message()))).collect();
        for (index, (new, message)) in calls.into_iter().zip(places).enumerate() {
            let tool = self.config.registry.tool(&new.tool_name);
            let client = tool.is_some_and(|tool| tool.kind == ToolKind::Client);
            let agent = tool.is_some_and(|tool| tool.kind == ToolKind::Agent);
            let validation = self.validation_of(&new);
            self.records.push(Record::CallOpened(Box::new(CallRow {
                id: new.id,
                index: u32::try_from(index).unwrap_or(u32::MAX),
                step: self.state.step,
                model_call_id: new.model_call_id.clone(),
                tool_name: new.tool_name.clone(),
                input: new.input.clone(),
                input_hash: new.input_hash.clone(),
                validation,
                client,
            })));
            self.state.calls.push(Call {
                id: new.id,
                tool_name: new.tool_name.clone(),
                input_hash: new.input_hash.clone(),
                idempotency_key: new.idempotency_key.0.clone(),
                business_key: new.idempotency_key.1,
                message,
                client,
                agent,
                writes: tool.is_some_and(ToolSpec::writes),
                parallel_safe: tool.is_some_and(|tool| tool.parallel_safe),
                edited: None,
                rules: new.judgement.as_ref().map_or(0, |judgement| judgement.rules),
                allowed_until: new.judgement.as_ref().and_then(|judgement| judgement.until),
                asked_before: 0,
                approved: None,
                started_at: None,
                stage: Stage::Ready,
                since: None,
            });
            self.decide_new(index, &new, validation);
        }
        self.note_progress();
    }

    /// Validation's verdict, or `over_limit` where the call is one too many. A verdict may be older than the tools: a replay
    /// keeps those of then. What isn't there now can't run.
    fn validation_of(&mut self, new: &NewCall) -> Validation {
        if new.validation == Validation::Ok && self.config.registry.tool(&new.tool_name).is_none() {
            return Validation::UnknownTool;
        }
        if new.validation != Validation::Ok || self.is_known_bad(new) {
            return new.validation;
        }
        let open =
            self.state.calls.iter().filter(|call| call.started_at.is_none() && !call.is_done()).count();
        let taken = self.state.used.tool_calls as usize + open;
        let denied = new.judgement.as_ref().is_some_and(|judgement| judgement.effect == Effect::Deny);
        if !denied && taken >= self.state.budgets.max_tool_calls as usize {
            self.state.over_limit = true;
            return Validation::OverLimit;
        }
        Validation::Ok
    }

    /// Denied before, or unclear before: it won't run, so it takes no place.
    fn is_known_bad(&self, new: &NewCall) -> bool {
        self.denied_before(&new.tool_name, &new.input_hash).is_some()
            || self.is_unsettled(&new.tool_name, &new.input_hash)
    }

    fn denied_before(&self, tool_name: &str, input_hash: &str) -> Option<&Denied> {
        self.state
            .denied
            .iter()
            .find(|denied| denied.tool_name == tool_name && denied.input_hash == input_hash)
    }

    pub(super) fn is_unsettled(&self, tool_name: &str, input_hash: &str) -> bool {
        self.state.unsettled.iter().any(|(tool, hash)| tool == tool_name && hash == input_hash)
    }

    fn decide_new(&mut self, index: usize, new: &NewCall, validation: Validation) {
        match (validation, &new.judgement) {
            (Validation::Ok, _) if self.is_unsettled(&new.tool_name, &new.input_hash) => {
                self.reject(index, ErrorCode::SideEffectUncertain, SAME_IS_UNCLEAR);
            }
            (Validation::Ok, Some(judgement)) => self.judged(index, judgement),
            // A validated call always comes judged; without a verdict it doesn't run.
            (Validation::Ok, None) => self.reject(index, ErrorCode::Internal, "The call was not judged."),
            (Validation::OverLimit, _) => {
                let message = new.message.clone().unwrap_or_else(|| self.over_limit_message());
                self.reject(index, ErrorCode::BudgetExhausted, &message);
            }
            (validation, _) => {
                let (code, message) = match validation {
                    Validation::UnknownTool => (ErrorCode::NotFound, "There is no such tool."),
                    _ => (ErrorCode::InvalidArguments, "The call is not legal."),
                };
                self.reject(index, code, new.message.as_deref().unwrap_or(message));
            }
        }
    }

    pub(super) fn over_limit_message(&self) -> String {
        format!("The run may make {} tool calls, and they are used up.", self.state.budgets.max_tool_calls)
    }

    pub(super) fn judged(&mut self, index: usize, judgement: &Judgement) {
        let (tool_name, hash) =
            (self.state.calls[index].tool_name.clone(), self.state.calls[index].input_hash.clone());
        let before = self.denied_before(&tool_name, &hash).cloned();
        let mut decision = Decision::of(judgement, self.at);
        if let Some(before) = &before {
            decision.effect = Effect::Deny;
            decision.rule = None;
            decision.by = "policy".into();
            decision.reason = format!("denied before in this run: {}", before.reason);
        }
        self.note_denials(judgement);
        self.decided(index, &decision);
        match decision.effect {
            Effect::Allow => {}
            // An earlier call of this reply has ended the run: nobody needs to be asked.
            Effect::Ask if self.state.ending.is_some() => {}
            Effect::Ask => self.ask(index, judgement),
            Effect::Deny => self.deny(index, &decision.by, &decision.reason),
        }
    }

    /// What a denial leads to by the policies that judged last. Where none could, it stays as it is.
    pub(super) fn note_denials(&mut self, judgement: &Judgement) {
        self.state.denials = judgement.denials.or(self.state.denials);
    }

    /// Writes a decision down.
    pub(super) fn decided(&mut self, index: usize, decision: &Decision) {
        let call = &self.state.calls[index];
        let data = json!({"tool_call_id": call.id, "tool_name": call.tool_name, "effect": decision.effect,
            "rule": decision.rule, "policy": decision.policy, "policy_version": decision.policy_version,
            "by": decision.by, "reason": decision.reason});
        self.records.push(Record::CallDecided { call: call.id, decision: decision.clone() });
        self.emit_in_step(EventType::PermissionDecided, data);
    }

    fn ask(&mut self, index: usize, judgement: &Judgement) {
        let call = &mut self.state.calls[index];
        let expires_at = self.at.saturating_add_unsigned(judgement.expires_ms);
        call.stage = Stage::Asked { expires_at, on_expiry: judgement.on_expiry };
        let risk = self.config.registry.tool(&call.tool_name).map(|tool| tool.risk);
        let row = ApprovalRow {
            id: call.approval_id(),
            kind: ApprovalKind::ToolCall,
            call: Some(call.id),
            step: self.state.step,
            tool_name: Some(call.tool_name.clone()),
            input_hash: Some(call.input_hash.clone()),
            risk,
            reason: judgement.reason.clone(),
            required: judgement.approvals,
            expires_at,
            tool_version: self.config.registry.tool_version(&call.tool_name),
            self_approval: judgement.self_approval,
            remind_every_ms: judgement.remind_every_ms,
        };
        self.request_approval(row);
    }

    /// Writes down that people are asked.
    pub(super) fn request_approval(&mut self, row: ApprovalRow) {
        let data = row.event_data();
        self.keep_open(row.clone());
        self.records.push(Record::ApprovalOpened(Box::new(row)));
        self.emit_in_step(EventType::ApprovalRequested, data);
    }

    /// The call is denied; the run may end with that.
    pub(super) fn deny(&mut self, index: usize, by: &str, reason: &str) {
        let call = &self.state.calls[index];
        let tool_name = call.tool_name.clone();
        self.state.denied.push(Denied {
            tool_call_id: call.id,
            tool_name: tool_name.clone(),
            input_hash: call.input_hash.clone(),
            reason: reason.to_owned(),
            decided_by: by.to_owned(),
        });
        let message = format!("This call was denied: {reason}");
        let result =
            ToolResult::without_run(ResultStatus::Denied, Some(ErrorCode::PermissionDenied), message);
        self.complete(index, result, None);
        let policy = &self.config.registry.spec.policy;
        let own = Denials { on_deny: policy.on_deny(), max_denials: policy.max_denials() };
        let denials = self.state.denials.map_or(own, |denials| denials.stricter(own));
        if denials.on_deny == OnDeny::Stop || self.state.denied.len() >= denials.max_denials as usize {
            self.end_by(
                StopReason::PermissionDenied,
                format!("the call of {tool_name} was denied: {reason}"),
                Some(tool_name),
            );
        }
    }

    /// The call is no legal one.
    pub(super) fn reject(&mut self, index: usize, code: ErrorCode, message: &str) {
        self.complete(index, ToolResult::without_run(ResultStatus::Rejected, Some(code), message), None);
    }
}
