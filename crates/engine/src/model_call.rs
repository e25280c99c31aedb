//! One attempt on a model, and what is made of its reply: validated, judged, never executed here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_core::budget::{self, Estimate};
use answerable_core::id::{CallId, MessageId, RunId};
use answerable_core::message::ProviderExtra;
use answerable_core::model::{FailureKind, ModelFailure, ModelReply, ModelRequest, Usage};
use answerable_core::registry::Registry;
use answerable_core::reply::{self, ReadCall, ReplyKind};
use answerable_core::run::{Event, NewCall, ReplyFacts};
use answerable_faults::{self as faults, Point};
use answerable_ports::{DeltaSink, ModelTarget, Signals};
use uuid::Uuid;

use crate::env::{Env, jitter};
use crate::inbox::{judged_by, rules};
use crate::lease::Hold;
use crate::session::{RunFacts, Session, find_target};

/// All that one attempt needs.
pub(crate) struct ModelCall {
    env: Arc<Env>,
    hold: Arc<Hold>,
    facts: Arc<RunFacts>,
    registry: Arc<Registry>,
    request: Option<ModelRequest>,
    /// The provider, if it was just read.
    target: Option<ModelTarget>,
    estimate: Estimate,
    timeout: Duration,
}

impl ModelCall {
    pub(crate) fn of(session: &Session) -> Self {
        let state = &session.state;
        let left = state.budgets.timeout_ms.saturating_sub(state.elapsed_ms(session.now())).max(1);
        Self {
            env: Arc::clone(&session.env),
            hold: Arc::clone(&session.hold),
            facts: Arc::clone(&session.facts),
            registry: Arc::clone(&session.registry),
            request: session.request(),
            // A later attempt looks again: a key may have been mended meanwhile.
            target: session.target.clone().filter(|_| state.model.attempts == 0),
            estimate: state.estimate,
            timeout: Duration::from_millis(session.registry.spec.model.timeout_ms.min(left)),
        }
    }

    /// Asks once.
    pub(crate) async fn run(mut self) -> Event {
        let known = self.target.take();
        let Some(request) = &self.request else {
            let detail = "the context can't be built again".into();
            return Event::Broken { at: self.env.now(), code: "internal_error".into(), detail };
        };
        let target = match known {
            Some(target) => Some(target),
            None => find_target(&self.env, &self.facts, &request.provider).await,
        };
        let Some(target) = target else {
            let message = format!("there is no provider {:?}", request.provider);
            return self.failed(None, unusable(message), 0);
        };
        let deltas = Deltas { signals: self.env.signals.clone(), run: self.facts.lease.run_id };
        let began = Instant::now();
        self.hold.sure().await;
        faults::before(Point::Model);
        let answer = self.env.models.ask(&target, request, self.timeout, &deltas).await;
        faults::after(Point::Model);
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match answer {
            Err(failure) => self.failed(Some(&target), failure, duration_ms),
            Ok(reply) => self.replied(&target, request, reply, duration_ms).await,
        }
    }

    fn failed(&self, target: Option<&ModelTarget>, failure: ModelFailure, duration_ms: u64) -> Event {
        let cost_microusd = failure.usage.map_or(0, |usage| self.cost(target, &usage));
        let wire = target.map(|target| target.kind.clone());
        Event::ModelFailed { at: self.env.now(), failure, cost_microusd, jitter: jitter(), duration_ms, wire }
    }

    fn cost(&self, target: Option<&ModelTarget>, usage: &Usage) -> u64 {
        let model = self.request.as_ref().map(|request| request.model.as_str()).unwrap_or_default();
        target.and_then(|target| target.prices.get(model)).map_or(0, |price| budget::cost(price, usage))
    }

    async fn replied(
        &self,
        target: &ModelTarget,
        request: &ModelRequest,
        reply: ModelReply,
        duration_ms: u64,
    ) -> Event {
        let ids = || CallId(Uuid::now_v7());
        let cap = request.max_output_tokens;
        let reading = reply::read(&self.registry, &reply, self.estimate.input_tokens, cap, ids);
        let output_fault =
            if reading.kind == ReplyKind::Final { self.registry.output_fault(&reading.text) } else { None };
        let calls = if reading.kind == ReplyKind::Calls {
            self.judged_calls(reading.calls).await
        } else {
            Vec::new()
        };
        let extra = (!reply.extra.is_empty()).then(|| ProviderExtra {
            provider: target.name.clone(),
            model: request.model.clone(),
            wire: target.kind.clone(),
            fields: reply.extra,
        });
        let facts = ReplyFacts {
            kind: reading.kind,
            text: reading.text,
            extra,
            finish_reason: reply.finish_reason,
            cost_microusd: self.cost(Some(target), &reading.usage),
            usage: reading.usage,
            duration_ms,
            message_id: MessageId(Uuid::now_v7()),
            output_fault,
            wire: Some(target.kind.clone()),
        };
        Event::ModelReplied { at: self.env.now(), reply: Box::new(facts), calls, more_input: false }
    }

    async fn judged_calls(&self, calls: Vec<ReadCall>) -> Vec<NewCall> {
        let gate = rules(&self.env, &self.facts).await;
        let (registry, context) = (&*self.registry, &self.facts.context);
        let judged = |call: ReadCall| {
            NewCall::of(registry, context, call, MessageId(Uuid::now_v7()), |call| {
                let (name, input, hash) = (&call.tool_name, &call.input, &call.input_hash);
                judged_by(&self.env, &gate, &self.facts, registry, name, input, hash)
            })
        };
        calls.into_iter().map(judged).collect()
    }
}

fn unusable(message: String) -> ModelFailure {
    ModelFailure { kind: FailureKind::Unusable, status: None, message, retry_after_ms: None, usage: None }
}

/// Passes words on to those who watch.
struct Deltas {
    signals: Signals,
    run: RunId,
}

impl DeltaSink for Deltas {
    fn text(&self, text: &str) {
        self.signals.delta(self.run, text);
    }
}
