//! From the start of a turn to the model's reply.

use serde_json::{Value, json};

use super::event::{NewCall, ReplyFacts};
use super::event_type::EventType;
use super::given::VERSION_OF_PARTS;
use super::record::{Record, StepModel};
use super::state::Phase;
use super::status::{Status, StopReason};
use super::step::{Legal, Machine};
use crate::budget::{Estimate, before_model_call};
use crate::context::Manifest;
use crate::correction::Correction;
use crate::id::MessageId;
use crate::message::{Message, MessageCall, Part, Role};
use crate::model::Usage;
use crate::model_retry::{Progress, Reask};
use crate::reply::{ReplyKind, legal_name};
use crate::text::head;

/// Code points that are kept of what was wrong with an answer.
const MAX_FAULT: usize = 500;

impl Machine<'_> {
    pub(super) fn started(&mut self) -> Legal {
        self.state.status = Status::Running;
        self.state.phase = Phase::Boundary;
        self.emit(EventType::RunStarted, json!({}));
        self.expect_tools();
        Ok(())
    }

    pub(super) fn steered(
        &mut self,
        id: MessageId,
        content: String,
        parts: Vec<Part>,
        pinned: bool,
    ) -> Legal {
        let (seq, step) = (self.next_message(), self.step_number());
        if !parts.is_empty() || pinned {
            self.state.version = self.state.version.max(VERSION_OF_PARTS);
        }
        self.records.push(Record::Message(Message {
            step,
            parts,
            pinned,
            ..Message::text(id, seq, Role::User, content)
        }));
        Ok(())
    }

    pub(super) fn context_built(
        &mut self,
        manifest: Manifest,
        estimate: Estimate,
        provider: String,
        model: String,
    ) -> Legal {
        self.state.estimate = estimate;
        if let Some(limit) = before_model_call(&self.state.budgets, &self.state.used, &estimate) {
            self.exhausted(limit);
            return Ok(());
        }
        let opens = self.state.phase == Phase::Boundary;
        if opens {
            self.state.step += 1;
            self.state.used.steps += 1;
            self.state.model = Progress::default();
            self.state.summing = self.state.summing.after_step();
            self.state.calls.clear();
            if let Some(inherited) = &mut self.state.inherited {
                inherited.taken.clear();
            }
            self.state.guarded = 0;
            self.state.over_limit = false;
            self.state.deaths_before_step = self.state.deaths;
            self.emit_in_step(EventType::StepStarted, json!({}));
        }
        self.state.phase = Phase::Model;
        self.note_model_asked();
        let counts = json!({"tokens": manifest.tokens, "included": manifest.included.len(), "omitted": manifest.omitted.len()});
        self.emit_in_step(EventType::ContextBuilt, counts);
        self.records.push(Record::StepOpened { number: self.state.step, manifest });
        self.emit_in_step(EventType::ModelStarted, json!({"provider": provider, "model": model}));
        Ok(())
    }

    pub(super) fn context_overflowed(&mut self, tokens: u64, max_tokens: u64) -> Legal {
        let detail = format!("the context needs {tokens} tokens and may have {max_tokens}");
        self.end_by(StopReason::ContextOverflow, detail, None);
        Ok(())
    }

    pub(super) fn model_replied(
        &mut self,
        reply: ReplyFacts,
        calls: Vec<NewCall>,
        more_input: bool,
    ) -> Legal {
        self.model_was_asked("ModelReplied")?;
        self.settle_usage(&reply.usage, reply.cost_microusd);
        self.state.turns += 1;
        self.state.model.attempts += 1;
        match reply.kind {
            ReplyKind::Truncated => {
                self.reask(&reply, Reask::Truncated, "reply_truncated", "the model's reply was cut off")
            }
            ReplyKind::Empty => {
                self.reask(&reply, Reask::Empty, "empty_reply", "the model's reply was empty")
            }
            ReplyKind::Refusal => {
                self.note_model(&reply, None);
                self.model_completed(&reply, 0);
                self.end_by(StopReason::ModelRefusal, "the model refused to answer".into(), None);
            }
            ReplyKind::Final => match reply.output_fault.clone() {
                Some(fault) => {
                    let detail = format!("the answer doesn't match the agent's output schema ({fault})");
                    self.reask(&reply, Reask::OutputInvalid, "output_invalid", &detail);
                }
                None => self.final_answer(reply, more_input),
            },
            ReplyKind::Calls => self.calls_came(reply, calls),
        }
        Ok(())
    }

    /// What a reply came to takes the place of its estimate; what the provider counted itself corrects the next one.
    pub(super) fn settle_usage(&mut self, usage: &Usage, cost_microusd: u64) {
        self.spend(usage, cost_microusd);
        let counted = self.state.estimate.counted();
        if usage.estimated || !Correction::is_believable(counted, usage.input_tokens) {
            return;
        }
        let (provider, model) = self.target();
        let known = self.state.correction.as_ref();
        self.state.correction =
            Some(Correction::after(known, &provider, &model, counted, usage.input_tokens));
    }

    /// Nothing is out while the next attempt isn't due.
    pub(super) fn model_was_asked(&self, event: &'static str) -> Legal {
        if self.state.model.not_before.is_some() { Err(self.illegal(event)) } else { Ok(()) }
    }

    /// Asks again, once a step; then the run ends.
    fn reask(&mut self, reply: &ReplyFacts, why: Reask, code: &str, detail: &str) {
        let again = self.state.model.reasked.is_none();
        let mut data = self.attempt_data(Some(&reply.usage), reply.cost_microusd, reply.duration_ms);
        data["error"] = json!(code);
        self.note_model(reply, Some(data.clone()));
        data["finish_reason"] = json!(reply.finish_reason);
        if again {
            data["retry_in_ms"] = json!(0);
        }
        self.emit_in_step(EventType::ModelFailed, data);
        if !again {
            let reason =
                if why == Reask::OutputInvalid { StopReason::OutputInvalid } else { StopReason::ModelError };
            self.end_with_code(reason, code, detail.to_owned(), None);
            return;
        }
        self.state.model.reasked = Some(why);
        self.state.model.fault = reply.output_fault.as_deref().map(|fault| head(fault, MAX_FAULT).to_owned());
        self.state.model.on_target = 0;
        self.check_purse_before_retry();
    }

    fn final_answer(&mut self, reply: ReplyFacts, more_input: bool) {
        self.note_model(&reply, None);
        self.model_completed(&reply, 0);
        let text = reply.text.clone();
        self.assistant_message(reply, Vec::new());
        // An answer that comes exactly at a limit counts, whatever was said meanwhile.
        if more_input && self.has_another_turn() {
            self.close_step();
        } else {
            self.records.push(Record::StepClosed { number: self.state.step });
            self.finish_with_answer(text);
        }
    }

    fn has_another_turn(&self) -> bool {
        let (budgets, used) = (&self.state.budgets, &self.state.used);
        used.steps < budgets.max_steps && before_model_call(budgets, used, &self.state.estimate).is_none()
    }

    fn calls_came(&mut self, reply: ReplyFacts, calls: Vec<NewCall>) {
        self.note_model(&reply, None);
        self.model_completed(&reply, calls.len());
        let registry = self.config.registry;
        let in_history = |call: &NewCall| {
            // The history keeps the model's call in a form that providers accept. What a tool is really called it keeps.
            let is_known = registry.tool(&call.tool_name).is_some();
            let name = if is_known { call.tool_name.clone() } else { legal_name(&call.tool_name) };
            call.message_id.map(|_| MessageCall { id: call.id, name, arguments: call.input.to_string() })
        };
        self.assistant_message(reply, calls.iter().filter_map(in_history).collect());
        self.state.phase = Phase::Tools;
        self.take_calls(calls);
    }

    fn assistant_message(&mut self, reply: ReplyFacts, tool_calls: Vec<MessageCall>) {
        let (seq, step) = (self.next_message(), self.step_number());
        // Blank text beside calls is nothing, and some providers refuse it.
        let content = if reply.text.trim().is_empty() { String::new() } else { reply.text };
        self.records.push(Record::Message(Message {
            tool_calls,
            step,
            extra: reply.extra,
            ..Message::text(reply.message_id, seq, Role::Assistant, content)
        }));
    }

    fn model_completed(&mut self, reply: &ReplyFacts, calls: usize) {
        let data = json!({
            "finish_reason": reply.finish_reason, "tool_calls": calls, "attempt": self.state.model.attempts,
            "input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens,
            "cost_microusd": reply.cost_microusd, "duration_ms": reply.duration_ms,
        });
        self.emit_in_step(EventType::ModelCompleted, data);
    }

    fn note_model(&mut self, reply: &ReplyFacts, failure: Option<Value>) {
        let (provider, model) = self.target();
        let model = StepModel {
            provider,
            model,
            attempts: self.state.model.attempts,
            finish_reason: reply.finish_reason.clone(),
            estimated_input_tokens: self.state.estimate.input_tokens,
            input_tokens: reply.usage.input_tokens,
            output_tokens: reply.usage.output_tokens,
            cached_input_tokens: reply.usage.cached_input_tokens,
            cost_microusd: reply.cost_microusd,
            duration_ms: reply.duration_ms,
            usage_estimated: reply.usage.estimated,
            failure,
        };
        self.records.push(Record::StepModel { number: self.state.step, model });
    }

    pub(super) fn target(&self) -> (String, String) {
        let spec = &self.config.registry.spec.model;
        let (provider, model) = spec.target(self.state.model.target).unwrap_or((&spec.provider, &spec.model));
        (provider.to_owned(), model.to_owned())
    }
}
