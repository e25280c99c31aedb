//! An attempt on a model failed: again, elsewhere, smaller, or not at all.

use serde_json::json;

use super::event_type::EventType;
use super::record::{Record, StepModel};
use super::state::Phase;
use super::status::StopReason;
use super::step::{Legal, Machine};
use crate::budget::{MAX_COUNT, before_model_call};
use crate::model::{FailureKind, ModelFailure};
use crate::model_retry::{AfterFailure, after_failure};

impl Machine<'_> {
    pub(super) fn time_left_ms(&self) -> u64 {
        let left = self.state.budgets.timeout_ms.saturating_sub(self.state.elapsed_ms(self.at));
        let to_deadline = self.state.deadline.map(|deadline| u64::try_from(deadline - self.at).unwrap_or(0));
        to_deadline.map_or(left, |to_deadline| left.min(to_deadline))
    }

    pub(super) fn model_failed(
        &mut self,
        failure: ModelFailure,
        cost_microusd: u64,
        jitter: u16,
        duration_ms: u64,
    ) -> Legal {
        self.model_was_asked("ModelFailed")?;
        self.count_failure(&failure, cost_microusd);
        let left = self.time_left_ms();
        let next = after_failure(&self.config.registry.spec.model, &self.state.model, &failure, left, jitter);
        self.note_failure(&failure, cost_microusd, duration_ms, next);
        match next {
            AfterFailure::Retry(ms) => {
                self.state.model.not_before = Some(self.at.saturating_add_unsigned(ms));
            }
            AfterFailure::Fallback => {
                self.next_target();
                // Another model counts and charges otherwise.
                self.state.phase = Phase::Rebuild;
            }
            AfterFailure::Shrink => {
                self.state.model.shrunk = true;
                self.state.phase = Phase::Rebuild;
            }
            AfterFailure::CutCap => self.state.model.cap_cut = true,
            AfterFailure::ContextOverflow => {
                self.end_by(
                    StopReason::ContextOverflow,
                    format!("the provider said: {}", failure.message),
                    None,
                );
            }
            AfterFailure::Refusal => {
                let detail = format!("the model's filter refused: {}", failure.message);
                self.end_by(StopReason::ModelRefusal, detail, None);
            }
            AfterFailure::End(code) => {
                self.end_with_code(
                    StopReason::ModelError,
                    code,
                    format!("the model could not be asked: {}", failure.message),
                    None,
                );
            }
        }
        self.check_purse_before_retry();
        Ok(())
    }

    /// The next target begins anew: what the one before couldn't take it may.
    pub(super) fn next_target(&mut self) {
        let model = &mut self.state.model;
        model.target += 1;
        model.on_target = 0;
        model.held = 0;
        model.shrunk = false;
        model.cap_cut = false;
    }

    /// An attempt came to nothing. Where nobody was asked it is a wait, of which there may be more.
    pub(super) fn count_failure(&mut self, failure: &ModelFailure, cost_microusd: u64) {
        if failure.kind != FailureKind::Held {
            self.spend(&failure.usage.unwrap_or_default(), cost_microusd);
        }
        let model = &mut self.state.model;
        model.attempts += 1;
        if failure.kind == FailureKind::Held {
            model.held += 1;
        } else {
            model.on_target += 1;
        }
    }

    fn note_failure(
        &mut self,
        failure: &ModelFailure,
        cost_microusd: u64,
        duration_ms: u64,
        next: AfterFailure,
    ) {
        let mut data = self.attempt_data(failure.usage.as_ref(), cost_microusd, duration_ms);
        data["error"] = json!(failure.message);
        if let Some(status) = failure.status {
            data["status"] = json!(status);
        }
        match next {
            AfterFailure::Retry(ms) => data["retry_in_ms"] = json!(ms),
            AfterFailure::Fallback | AfterFailure::Shrink | AfterFailure::CutCap => {
                data["retry_in_ms"] = json!(0)
            }
            AfterFailure::ContextOverflow | AfterFailure::Refusal | AfterFailure::End(_) => {}
        }
        let usage = failure.usage.unwrap_or_default();
        let (provider, model) = self.target();
        let row = StepModel {
            provider,
            model,
            attempts: self.state.model.attempts,
            estimated_input_tokens: self.state.estimate.input_tokens,
            duration_ms,
            input_tokens: usage.input_tokens.min(MAX_COUNT),
            output_tokens: usage.output_tokens.min(MAX_COUNT),
            cost_microusd,
            failure: Some(data.clone()),
            ..StepModel::default()
        };
        self.records.push(Record::StepModel { number: self.state.step, model: row });
        self.emit_in_step(EventType::ModelFailed, data);
    }

    /// Retries spend from the same purse.
    pub(super) fn check_purse_before_retry(&mut self) {
        if self.state.phase == Phase::Model
            && self.state.ending.is_none()
            && let Some(limit) =
                before_model_call(&self.state.budgets, &self.state.used, &self.state.estimate)
        {
            self.exhausted(limit);
        }
    }
}
