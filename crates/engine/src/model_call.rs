//! One attempt on a model, and what is made of its reply: validated, judged, never executed here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_core::budget::{self, Estimate};
use answerable_core::id::{CallId, MessageId};
use answerable_core::message::ProviderExtra;
use answerable_core::model::{FailureKind, ModelFailure, ModelReply, ModelRequest, Purpose, Usage};
use answerable_core::registry::Registry;
use answerable_core::reply::{self, ReadCall, Reading, ReplyKind};
use answerable_core::run::{Event, NewCall, ReplyFacts};
use answerable_core::schema::Effort;
use answerable_faults::{self as faults, Point};
use answerable_ports::{DeltaSink, ModelTarget, Patience, Reply, Speaker};
use uuid::Uuid;

use crate::attachments;
use crate::env::{Env, jitter};
use crate::gate::Gate;
use crate::lease::Hold;
use crate::rules::{Asked, judged_by, rules};
use crate::session::{RunFacts, Session, find_target};
use crate::summary_call::Unheard;

/// All that one attempt needs.
pub(crate) struct ModelCall {
    pub(crate) env: Arc<Env>,
    hold: Arc<Hold>,
    /// Through this its request leaves. One that hasn't is whoever's that has the run next.
    pub(crate) gate: Arc<Gate>,
    pub(crate) facts: Arc<RunFacts>,
    registry: Arc<Registry>,
    /// None: its context can't be built any more.
    request: Option<ModelRequest>,
    /// The model that it asks, and whether for a summary.
    model: String,
    pub(crate) is_for_summary: bool,
    /// The provider, if it was just read.
    target: Option<ModelTarget>,
    pub(crate) estimate: Estimate,
    patience: Patience,
    /// Passes its words on to those who watch; a summary's words are nobody's answer.
    speaker: Option<Speaker>,
}

impl ModelCall {
    /// An attempt on the open step's turn.
    pub(crate) fn of(session: &Session) -> Self {
        Self::asking(session, session.request())
    }

    /// An attempt to get the summary that is outstanding.
    pub(crate) fn for_summary(session: &Session) -> Self {
        Self::asking(session, session.summary_request())
    }

    fn asking(session: &Session, request: Option<ModelRequest>) -> Self {
        let state = &session.state;
        let left = state.budgets.timeout_ms.saturating_sub(state.elapsed_ms(session.now())).max(1);
        let spec = &session.registry.spec.model;
        let total = Duration::from_millis(spec.timeout_ms.min(left));
        let at_most = |ms: Option<u64>| ms.map_or(total, |ms| total.min(Duration::from_millis(ms)));
        let (lease, attempt) = (session.facts.lease, state.model.attempts + 1);
        let reply = Reply { epoch: lease.epoch, step: state.step, attempt };
        let is_turn = request.as_ref().is_some_and(|request| request.purpose == Purpose::Turn);
        let is_for_summary = request.as_ref().is_some_and(|request| request.purpose == Purpose::Summary);
        let model = request.as_ref().map(|request| request.model.clone()).unwrap_or_default();
        Self {
            env: Arc::clone(&session.env),
            hold: Arc::clone(&session.hold),
            gate: Arc::default(),
            facts: Arc::clone(&session.facts),
            registry: Arc::clone(&session.registry),
            request,
            model,
            is_for_summary,
            // A later attempt looks again: a key may have been mended meanwhile.
            target: session.target.clone().filter(|_| state.model.attempts == 0),
            estimate: state.estimate,
            patience: Patience {
                total,
                first: at_most(spec.first_token_timeout_ms),
                idle: at_most(spec.idle_timeout_ms),
            },
            speaker: is_turn.then(|| session.env.signals.speaker(lease.run_id, reply)),
        }
    }

    /// Asks once.
    pub(crate) async fn run(mut self) -> Event {
        let Some(mut request) = self.request.take() else {
            let detail = "the context can't be built again".into();
            return Event::Broken { at: self.env.now(), code: "internal_error".into(), detail };
        };
        let target = match self.target.take() {
            Some(target) => Some(target),
            None => find_target(&self.env, &self.facts, &request.provider).await,
        };
        let Some(target) = target else {
            let message = format!("there is no provider {:?}", request.provider);
            return self.failed(None, unusable(message), 0);
        };
        request.max_output_tokens = match self.allowance(&target, &request).await {
            Ok(most) => most,
            Err(instead) => return instead,
        };
        // Whoever waits for an allowance holds no pictures meanwhile.
        attachments::load(&self.env, &self.facts, &mut request).await;
        self.ask(&target, &request).await
    }

    async fn ask(&self, target: &ModelTarget, request: &ModelRequest) -> Event {
        let began = Instant::now();
        self.leave().await;
        faults::before(Point::Model);
        let deltas: &dyn DeltaSink = self.speaker.as_ref().map_or(&Unheard, |speaker| speaker);
        let answer = self.env.models.ask(target, request, self.patience, deltas).await;
        faults::after(Point::Model);
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match answer {
            Err(failure) => self.failed(Some(target), failure, duration_ms),
            Ok(reply) if self.is_for_summary => self.summed_up(target, request, reply, duration_ms),
            Ok(reply) => self.replied(target, request, reply, duration_ms).await,
        }
    }

    /// Waits until the request may leave, which may be never: the lease is lost, or it was called back.
    async fn leave(&self) {
        self.hold.sure().await;
        if !self.gate.leave() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn failed(
        &self,
        target: Option<&ModelTarget>,
        failure: ModelFailure,
        duration_ms: u64,
    ) -> Event {
        let cost_microusd = failure.usage.map_or(0, |usage| self.cost(target, &usage));
        let wire = target.map(|target| target.kind.clone());
        let (at, jitter) = (self.env.now(), jitter());
        if self.is_for_summary {
            return Event::SummaryFailed { at, failure, cost_microusd, jitter, duration_ms, wire };
        }
        Event::ModelFailed { at, failure, cost_microusd, jitter, duration_ms, wire }
    }

    pub(crate) fn cost(&self, target: Option<&ModelTarget>, usage: &Usage) -> u64 {
        target.and_then(|target| target.prices.get(&self.model)).map_or(0, |price| budget::cost(price, usage))
    }

    async fn replied(
        &self,
        target: &ModelTarget,
        request: &ModelRequest,
        reply: ModelReply,
        duration_ms: u64,
    ) -> Event {
        let reading = self.read(request, &reply);
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

    /// The reply, looked at.
    pub(crate) fn read(&self, request: &ModelRequest, reply: &ModelReply) -> Reading {
        let ids = || CallId(Uuid::now_v7());
        let told = reply.usage.map(|usage| usage.output_tokens);
        // An agent without a cap of its own is given one where little is left; not all providers heed it.
        let own = self.registry.spec.model.max_output_tokens.is_some();
        let cap = request.max_output_tokens.filter(|cap| own || told == Some(*cap));
        reply::read(&self.registry, reply, self.estimate.input_tokens, cap, ids)
    }

    async fn judged_calls(&self, calls: Vec<ReadCall>) -> Vec<NewCall> {
        let gate = rules(&self.env, &self.facts).await;
        let (registry, context, at) = (&*self.registry, &self.facts.context, self.env.now());
        let effort = Effort::of_reply();
        let mut judged = Vec::with_capacity(calls.len());
        for call in calls {
            judged.push(NewCall::of(registry, context, call, MessageId(Uuid::now_v7()), |call| {
                let (tool_name, input, input_hash) = (&call.tool_name, &call.input, &call.input_hash);
                judged_by(&gate, &self.facts, registry, &Asked { tool_name, input, input_hash }, &effort, at)
            }));
            // Other runs don't wait for all of them.
            tokio::task::yield_now().await;
        }
        judged
    }
}

fn unusable(message: String) -> ModelFailure {
    ModelFailure { kind: FailureKind::Unusable, status: None, message, retry_after_ms: None, usage: None }
}
