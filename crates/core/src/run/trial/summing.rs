//! Summaries of a trial's history.

use super::Trial;
use crate::budget::Estimate;
use crate::context::{Next, Sizes, next};
use crate::message::Message;
use crate::model::{FailureKind, ModelReply};
use crate::run::{Event, EventType, Record, SummaryTask};

impl Trial {
    /// Its history as far as its message of that place is to be summed up.
    pub(in crate::run) fn summary_needed(&self, upto: u64, input_tokens: u64) -> Event {
        let told = self.told(EventType::ContextSummarized).len();
        let task = SummaryTask {
            upto: self.tables.messages[&upto].id,
            version: u32::try_from(told).expect("few") + 1,
            covered: u32::try_from(upto).expect("few"),
            max_tokens: 4,
        };
        let estimate = Estimate { input_tokens, cost_microusd: 2, priced: true, ..Estimate::default() };
        Event::SummaryNeeded { at: self.now, task, estimate }
    }

    /// What a shell finds to be next where a context is due.
    pub(in crate::run) fn prepared(&self) -> Event {
        let history: Vec<Message> = self.tables.messages.values().cloned().collect();
        let (at, spec) = (self.now, &self.registry.spec.model);
        match next(self.equipped(), &self.state, &history, &Sizes::default()) {
            Next::Overflow(over) => {
                Event::ContextOverflowed { at, tokens: over.tokens, max_tokens: over.max_tokens }
            }
            Next::Summary(plan) => {
                let estimate = Estimate::of(&plan.size, None);
                Event::SummaryNeeded { at, task: plan.into(), estimate }
            }
            Next::Turn(manifest, size) => {
                let estimate = Estimate::of(&size, None);
                let (provider, model) = (spec.provider.clone(), spec.model.clone());
                Event::ContextBuilt { at, manifest, estimate, provider, model, duration_ms: 1 }
            }
        }
    }

    /// A run that is asked for a summary of its first message, before its first step.
    pub(in crate::run) fn summing(changes: &serde_json::Value) -> Self {
        let mut trial = Self::begun(changes);
        let needed = trial.summary_needed(1, 10);
        trial.must(needed);
        trial
    }

    /// The summary, or what the model says in its place.
    pub(in crate::run) fn summarized(&mut self, reply: &ModelReply) -> Event {
        let Event::ModelReplied { at, reply, .. } = self.replied(reply, false) else {
            unreachable!("that is what it gives")
        };
        Event::Summarized { at, reply }
    }

    pub(in crate::run) fn sums_up(&mut self, reply: &ModelReply) -> Vec<Record> {
        let event = self.summarized(reply);
        self.must(event)
    }

    pub(in crate::run) fn summary_fails(&mut self, kind: FailureKind, status: u16) -> Vec<Record> {
        self.must(self.summary_failed(kind, status, None))
    }

    pub(in crate::run) fn summary_failed(&self, kind: FailureKind, status: u16, after: Option<u64>) -> Event {
        let Event::ModelFailed { at, failure, cost_microusd, jitter, duration_ms, wire } =
            self.failed(kind, status, after)
        else {
            unreachable!("that is what it gives")
        };
        Event::SummaryFailed { at, failure, cost_microusd, jitter, duration_ms, wire }
    }
}
