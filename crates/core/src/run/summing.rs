//! The history outgrows its room: a model sums up the oldest turns, before the next step begins. It spends from the run's
//! budgets. If no summary can be had, the step begins without one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::event::ReplyFacts;
use super::event_type::EventType;
use super::record::Record;
use super::state::{Phase, RunState};
use super::step::{Legal, Machine};
use crate::budget::{Estimate, MAX_COUNT, OnExhausted, before_model_call};
use crate::id::MessageId;
use crate::message::{Message, Role, Summary};
use crate::model::{ModelFailure, Usage};
use crate::model_retry::{AfterFailure, Progress, after_failure};

/// Summaries that are made before one step: the history goes in bites.
const MOST_BEFORE_A_STEP: u32 = 8;
/// Times that a run may fail to get one; after that it is asked for none.
const MOST_FAILURES: u32 = 3;
/// Bytes a token that a summary may have; what is longer is cut.
const BYTES_A_TOKEN: usize = 6;
/// What a summary begins with, for the model that goes on from it.
const HEADING: &str = "Summary of the conversation so far:";
/// What a binary must understand to work on a run that sums up.
const VERSION_OF_SUMMARIES: u16 = 3;

/// Where a run stands with its summaries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summing {
    /// The one that is being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<SummaryTask>,
    /// Made since the last step.
    pub made: u32,
    /// None can be had before the next step.
    pub given_up: bool,
    /// Times that none could be had.
    pub failures: u32,
}

impl Summing {
    /// Whether another one may be asked for before the next step.
    pub fn may_be_tried(&self) -> bool {
        !self.given_up && self.made < MOST_BEFORE_A_STEP && self.failures < MOST_FAILURES
    }

    /// A step begins: the next one may be asked for anew.
    #[must_use]
    pub(super) fn after_step(&self) -> Self {
        Self { failures: self.failures, ..Self::default() }
    }
}

/// A summary that is being made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryTask {
    /// The newest message that it covers.
    pub upto: MessageId,
    /// How many summaries the history has had with it.
    pub version: u32,
    /// Messages that it covers beside those of the former one.
    pub covered: u32,
    /// Tokens that it may have.
    pub max_tokens: u32,
}

impl Machine<'_> {
    pub(super) fn summary_needed(&mut self, task: SummaryTask, estimate: Estimate) -> Legal {
        self.state.estimate = estimate;
        // Whoever wants to be asked for more is asked before the history is lost.
        if let Some(limit) = before_model_call(&self.state.budgets, &self.state.used, &estimate) {
            if self.state.budgets.on_exhausted == OnExhausted::Ask {
                self.exhausted(limit);
            } else {
                self.state.summing.given_up = true;
            }
            return Ok(());
        }
        self.state.version = self.state.version.max(VERSION_OF_SUMMARIES);
        self.state.phase = Phase::Summary;
        self.state.model = Progress::default();
        self.note_model_asked();
        let (provider, model) = self.target();
        let data = json!({"upto": task.upto, "version": task.version, "covered": task.covered,
            "provider": provider, "model": model, "tokens": estimate.input_tokens});
        self.state.summing.task = Some(task);
        self.emit(EventType::ContextSummarizing, data);
        Ok(())
    }

    pub(super) fn summarized(&mut self, reply: ReplyFacts) -> Legal {
        self.model_was_asked("Summarized")?;
        // What is sent for a summary is shortened, so it says nothing of how the provider counts.
        self.spend(&reply.usage, reply.cost_microusd);
        self.state.model.attempts += 1;
        let told = self.attempt_data(Some(&reply.usage), reply.cost_microusd, reply.duration_ms);
        match (reply.kind.summary_fault(), self.state.summing.task.take()) {
            (None, Some(task)) => self.keep_summary(reply, &task, told),
            (why, _) => {
                self.summary_failed_event(told, why.unwrap_or("empty_reply"), None);
                self.give_up_summary();
            }
        }
        Ok(())
    }

    fn keep_summary(&mut self, reply: ReplyFacts, task: &SummaryTask, mut told: Value) {
        let seq = self.next_message();
        told["message_id"] = json!(reply.message_id);
        told["version"] = json!(task.version);
        told["covered"] = json!(task.covered);
        let content = format!("{HEADING}\n{}", cut(reply.text.trim(), task.max_tokens));
        // It joins the context of the step that comes.
        let step = Some(self.state.step.saturating_add(1));
        let summary = Some(Summary { upto: task.upto, version: task.version });
        self.records.push(Record::Message(Message {
            step,
            summary,
            ..Message::text(reply.message_id, seq, Role::User, content)
        }));
        self.emit(EventType::ContextSummarized, told);
        self.state.summing.made += 1;
        self.state.model = Progress::default();
        self.state.phase = Phase::Boundary;
    }

    pub(super) fn summary_failed(
        &mut self,
        failure: &ModelFailure,
        cost_microusd: u64,
        jitter: u16,
        duration_ms: u64,
    ) -> Legal {
        self.model_was_asked("SummaryFailed")?;
        self.count_failure(failure, cost_microusd);
        let (spec, left) = (&self.config.registry.spec.model, self.time_left_ms());
        let next = after_failure(spec, &self.state.model, failure, left, jitter);
        let mut told = self.attempt_data(failure.usage.as_ref(), cost_microusd, duration_ms);
        if let Some(status) = failure.status {
            told["status"] = json!(status);
        }
        let again = match next {
            AfterFailure::Retry(ms) => Some(ms),
            AfterFailure::Fallback | AfterFailure::Shrink | AfterFailure::CutCap => Some(0),
            AfterFailure::ContextOverflow | AfterFailure::Refusal | AfterFailure::End(_) => None,
        };
        self.summary_failed_event(told, &failure.message, again);
        match next {
            AfterFailure::Retry(ms) => {
                self.state.model.not_before = Some(self.at.saturating_add_unsigned(ms))
            }
            // What another model charges isn't known here, so where money is limited it is not asked for a summary.
            AfterFailure::Fallback if self.state.budgets.max_cost_microusd.is_some() => {
                self.give_up_summary()
            }
            AfterFailure::Fallback => {
                self.next_target();
                self.note_model_asked();
            }
            AfterFailure::Shrink => self.state.model.shrunk = true,
            AfterFailure::CutCap => self.state.model.cap_cut = true,
            AfterFailure::ContextOverflow | AfterFailure::Refusal | AfterFailure::End(_) => {
                self.give_up_summary()
            }
        }
        self.check_purse_before_summary();
        Ok(())
    }

    /// Retries spend from the same purse.
    fn check_purse_before_summary(&mut self) {
        if self.state.phase != Phase::Summary {
            return;
        }
        match before_model_call(&self.state.budgets, &self.state.used, &self.state.estimate) {
            Some(limit) if self.state.budgets.on_exhausted == OnExhausted::Ask => self.exhausted(limit),
            Some(_) => self.give_up_summary(),
            None => {}
        }
    }

    fn give_up_summary(&mut self) {
        let summing = &mut self.state.summing;
        summing.task = None;
        summing.given_up = true;
        summing.failures = summing.failures.saturating_add(1);
        self.state.model = Progress::default();
        self.state.phase = Phase::Boundary;
    }

    fn summary_failed_event(&mut self, mut told: Value, error: &str, retry_in_ms: Option<u64>) {
        told["error"] = json!(error);
        if let Some(ms) = retry_in_ms {
            told["retry_in_ms"] = json!(ms);
        }
        self.emit(EventType::ContextSummaryFailed, told);
    }

    /// What an attempt on a model is told of by; its tokens and their price as far as they are known.
    pub(super) fn attempt_data(&self, usage: Option<&Usage>, cost_microusd: u64, duration_ms: u64) -> Value {
        let (provider, model) = self.target();
        let mut told = json!({"attempt": self.state.model.attempts, "provider": provider, "model": model,
            "duration_ms": duration_ms});
        if let Some(usage) = usage {
            told["input_tokens"] = json!(usage.input_tokens.min(MAX_COUNT));
            told["output_tokens"] = json!(usage.output_tokens.min(MAX_COUNT));
            told["cost_microusd"] = json!(cost_microusd);
        }
        told
    }
}

impl RunState {
    /// Whether a model is asked for a summary, or will be.
    pub fn is_summing_up(&self) -> bool {
        self.phase == Phase::Summary
    }
}

/// A summary that is longer than it may be, without its end.
fn cut(text: &str, max_tokens: u32) -> &str {
    let most = usize::try_from(max_tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_A_TOKEN);
    &text[..text.floor_char_boundary(most)]
}
