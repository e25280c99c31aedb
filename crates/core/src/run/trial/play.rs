//! What a shell and people do, in words short enough for tests.

use serde_json::{Map, Value};

use super::Trial;
use crate::Millis;
use crate::budget::{BudgetPatch, Budgets, Estimate, Used};
use crate::context::Manifest;
use crate::id::{AgentId, CallId, MessageId};
use crate::json::input_hash;
use crate::ledger::Effect as Made;
use crate::model::{FailureKind, Finish, ModelFailure, ModelReply, ReplyCall, Usage};
use crate::permission::{Effect, Judgement};
use crate::reply::{self, ReadCall};
use crate::run::{
    Approval, CallVerdict, ChildEnd, Event, EventType, KeyHolder, NewCall, Phase, PinnedAgent,
    Reconciliation, Record, ReplyFacts, Stage, StopReason, Submitted, SubmittedStatus,
};
use crate::tool::{Attempt, ErrorCode, Output, Reconciled, ResultStatus, ToolResult};

impl Trial {
    /// A run that has started and whose first context is due.
    pub(in crate::run) fn begun(changes: &Value) -> Self {
        let mut trial = Self::new(changes);
        trial.must(Event::Started { at: trial.now });
        trial
    }

    pub(in crate::run) fn later(&mut self, ms: Millis) {
        self.now += ms;
    }

    /// The context is built.
    pub(in crate::run) fn build(&mut self) -> Vec<Record> {
        self.must(self.built(10))
    }

    pub(in crate::run) fn built(&self, input_tokens: u64) -> Event {
        let included = self.tables.messages.values().map(|message| message.id).collect();
        Event::ContextBuilt {
            at: self.now,
            manifest: Manifest { included, tokens: input_tokens, fixed_tokens: 1, ..Manifest::default() },
            estimate: Estimate { input_tokens, cost_microusd: 2, priced: true, ..Estimate::default() },
            provider: "main".into(),
            model: "m".into(),
            duration_ms: 1,
        }
    }

    /// The model's reply, after the context where that is due.
    pub(in crate::run) fn replies(&mut self, reply: &ModelReply) -> Vec<Record> {
        if matches!(self.state.phase, Phase::Boundary | Phase::Rebuild) {
            self.build();
        }
        let event = self.replied(reply, false);
        self.must(event)
    }

    pub(in crate::run) fn says(&mut self, text: &str) -> Vec<Record> {
        self.replies(&said(text, &[]))
    }

    pub(in crate::run) fn calls(&mut self, calls: &[(&str, Value)]) -> Vec<Record> {
        self.replies(&said("", calls))
    }

    /// A reply as the shell hands it over: read, validated, judged.
    pub(in crate::run) fn replied(&mut self, reply: &ModelReply, more_input: bool) -> Event {
        let ids: Vec<CallId> = reply.calls.iter().map(|_| CallId(self.new_id())).collect();
        let mut ids = ids.into_iter();
        let cap = self.registry.spec.model.max_output_tokens;
        let reading = reply::read(self.equipped(), reply, 10, cap, || ids.next().expect("an id a call"));
        let output_fault = self.equipped().output_fault(&reading.text);
        let facts = ReplyFacts {
            kind: reading.kind,
            text: reading.text,
            extra: None,
            finish_reason: reply.finish_reason.clone(),
            cost_microusd: reading.usage.output_tokens,
            usage: reading.usage,
            duration_ms: 7,
            message_id: MessageId(self.new_id()),
            output_fault,
            wire: Some("openai_chat".into()),
        };
        let calls = reading.calls.into_iter().map(|call| self.new_call(call)).collect();
        Event::ModelReplied { at: self.now, reply: Box::new(facts), calls, more_input }
    }

    fn new_call(&mut self, call: ReadCall) -> NewCall {
        let key = match call.tool_name.as_str() {
            "order" => (format!("order:{}", call.input["n"]), true),
            _ => (call.id.to_string(), false),
        };
        let ok = call.validation == crate::registry::Validation::Ok;
        NewCall {
            judgement: ok.then(|| self.judgement(&call.tool_name, &call.input)),
            message_id: (!call.left_out).then(|| MessageId(self.new_id())),
            id: call.id,
            model_call_id: call.model_call_id,
            tool_name: call.tool_name,
            input: call.input,
            input_hash: call.input_hash,
            validation: call.validation,
            message: call.message,
            idempotency_key: key,
        }
    }

    pub(in crate::run) fn model_fails(&mut self, kind: FailureKind, status: u16) -> Vec<Record> {
        if matches!(self.state.phase, Phase::Boundary | Phase::Rebuild) {
            self.build();
        }
        self.must(self.failed(kind, status, None))
    }

    pub(in crate::run) fn failed(
        &self,
        kind: FailureKind,
        status: u16,
        retry_after_ms: Option<u64>,
    ) -> Event {
        let failure =
            ModelFailure { kind, status: Some(status), message: "no".into(), retry_after_ms, usage: None };
        Event::ModelFailed {
            at: self.now,
            failure,
            cost_microusd: 0,
            jitter: 500,
            duration_ms: 3,
            wire: None,
        }
    }

    /// Id of the open step's call number `index`.
    pub(in crate::run) fn call(&self, index: usize) -> CallId {
        self.state.calls[index].id
    }

    pub(in crate::run) fn attempt(&mut self, index: usize, outcome: Attempt) -> Vec<Record> {
        self.must(Event::ToolAttempted { at: self.now, call: self.call(index), outcome, jitter: 500 })
    }

    pub(in crate::run) fn works(&mut self, index: usize) -> Vec<Record> {
        self.attempt(index, Attempt::Succeeded(Output::plain(format!("done {index}"))))
    }

    pub(in crate::run) fn decided(&self, index: usize, verdict: CallVerdict) -> Event {
        Event::CallDecided {
            at: self.now,
            call: self.call(index),
            approval: Some(self.state.calls[index].approval_id()),
            verdict,
            by: "user:ann".into(),
            reason: None,
            given_at: None,
        }
    }

    pub(in crate::run) fn approve(&mut self, index: usize) -> Vec<Record> {
        self.must(self.decided(index, approved(Effect::Allow, None)))
    }

    pub(in crate::run) fn deny(&mut self, index: usize) -> Vec<Record> {
        self.must(self.decided(index, CallVerdict::Denied))
    }

    pub(in crate::run) fn reconciles(&mut self, index: usize, state: Reconciled) -> Vec<Record> {
        let result = (state == Reconciled::Applied).then(|| Output::plain("found"));
        let reconciliation = Reconciliation { state, result };
        self.must(Event::ToolReconciled { at: self.now, call: self.call(index), reconciliation })
    }

    pub(in crate::run) fn settled(&self, index: usize, applied: bool) -> Event {
        Event::EffectSettled {
            at: self.now,
            call: self.call(index),
            applied,
            content: None,
            by: "key_a".into(),
        }
    }

    pub(in crate::run) fn submitted(&self, index: usize, status: SubmittedStatus) -> Event {
        let submitted = Submitted { status, output: Output::plain("size M"), error_code: None };
        Event::ToolResultSubmitted { at: self.now, call: self.call(index), submitted }
    }

    /// The agent of a call is found, with these limits of its own; or it can't be called.
    pub(in crate::run) fn found(&self, index: usize, own: Option<Budgets>) -> Event {
        let pinned = |budgets| PinnedAgent {
            agent_id: AgentId(uuid::Uuid::from_u128(4)),
            version: 2,
            spec_hash: "sha256:a".into(),
            budgets,
        };
        let found = own.map(pinned).ok_or_else(|| "There is no such agent.".to_owned());
        Event::AgentFound { at: self.now, call: self.call(index), found }
    }

    /// The run of a call ends, having used so many hundredths of what it was given.
    pub(in crate::run) fn child_end(
        &self,
        index: usize,
        reason: StopReason,
        effect: Made,
        part: u64,
    ) -> Event {
        let Stage::Child { given, .. } = self.state.calls[index].stage else { panic!("no child: {index}") };
        let used = Used {
            input_tokens: given.tokens * part / 100,
            cost_microusd: given.cost_microusd.unwrap_or(0) * part / 100,
            ..Used::default()
        };
        let end = ChildEnd {
            status: reason.status(),
            reason,
            output: Output::plain("Ada says: seven."),
            used,
            ran_ms: given.time_ms * part / 100,
            effect,
        };
        Event::ChildEnded { at: self.now, call: self.call(index), end: Box::new(end) }
    }

    pub(in crate::run) fn key_taken(&self, index: usize, same_input: bool, status: ResultStatus) -> Event {
        self.key_taken_by(self.call(index), same_input, status)
    }

    pub(in crate::run) fn key_taken_by(&self, call: CallId, same_input: bool, status: ResultStatus) -> Event {
        let uncertain = status == ResultStatus::Uncertain;
        let code = uncertain.then_some(ErrorCode::SideEffectUncertain);
        let holder = KeyHolder {
            ledger_id: crate::id::LedgerId(uuid::Uuid::from_u128(5)),
            same_input,
            result: ToolResult::without_run(status, code, "of before"),
            inherited: false,
        };
        Event::KeyTaken { at: self.now, call, holder }
    }

    /// The store finds that the run it stands on made the effect: entry number `entry`.
    pub(in crate::run) fn effect_found(&self, index: usize, status: ResultStatus, entry: u128) -> Event {
        let Event::KeyTaken { at, call, holder } = self.key_taken(index, true, status) else {
            unreachable!("that is what it gives")
        };
        let ledger_id = crate::id::LedgerId(uuid::Uuid::from_u128(entry));
        Event::KeyTaken { at, call, holder: KeyHolder { ledger_id, inherited: true, ..holder } }
    }

    pub(in crate::run) fn fire(&mut self) -> Vec<Record> {
        self.now = self.now.max(crate::run::next_due(&self.state).expect("a timer"));
        let before = self.state.clone();
        let records = self.must(Event::TimerFired { at: self.now });
        assert_ne!(self.state, before, "a timer that is due changes something");
        records
    }

    /// Timers fire until one does more than remind people.
    pub(in crate::run) fn runs_out(&mut self) -> Vec<Record> {
        let reminds = |record: &Record| {
            matches!(
                record,
                Record::Event { kind: EventType::ApprovalReminder | EventType::ApprovalExpiring, .. }
            )
        };
        loop {
            let records = self.fire();
            if !records.iter().all(reminds) {
                return records;
            }
        }
    }

    pub(in crate::run) fn cancel(&mut self) -> Vec<Record> {
        self.must(Event::CancelRequested { at: self.now, reason: None })
    }

    pub(in crate::run) fn steer(&mut self) -> Vec<Record> {
        let message_id = MessageId(self.new_id());
        self.must(Event::Steered {
            at: self.now,
            message_id,
            content: "be brief".into(),
            parts: vec![],
            pinned: false,
        })
    }

    pub(in crate::run) fn budget(&mut self, patch: BudgetPatch) -> Vec<Record> {
        self.must(Event::BudgetChanged { at: self.now, patch, by: "key_a".into() })
    }

    /// The server dies; another takes over.
    pub(in crate::run) fn dies(&mut self) -> Vec<Record> {
        self.dies_with(Vec::new())
    }

    /// The same, where some calls waited for their turn.
    pub(in crate::run) fn dies_with(&mut self, unsent: Vec<CallId>) -> Vec<Record> {
        self.must(Event::Recovered { at: self.now, deaths: self.state.deaths + 1, unsent })
    }

    /// Stages of the open step's calls, by name.
    pub(in crate::run) fn stages(&self) -> Vec<&'static str> {
        let name = |stage: &Stage| match stage {
            Stage::Asked { .. } => "asked",
            Stage::Ready => "ready",
            Stage::Key => "key",
            Stage::Out { .. } => "out",
            Stage::Backoff { .. } => "backoff",
            Stage::Parked { .. } => "parked",
            Stage::Child { .. } => "child",
            Stage::Reconciling { .. } => "reconciling",
            Stage::AskedUncertain { .. } => "asked uncertain",
            Stage::Done(outcome) => outcome.status.as_str(),
        };
        self.state.calls.iter().map(|call| name(&call.stage)).collect()
    }

    /// Data of the events of this kind.
    pub(in crate::run) fn told(&self, kind: EventType) -> Vec<&Value> {
        super::events::told(&self.tables.events, kind).collect()
    }

    /// How the run ended: stop reason and `error.code`, or the answer.
    pub(in crate::run) fn end(&self) -> (&'static str, String) {
        let end = self.state.end.as_ref().expect("an end");
        let (answer, error) = self.tables.ended.clone().expect("an end");
        let said = match error {
            Some(error) => error["code"].as_str().expect("a code").to_owned(),
            None => answer.unwrap_or_default(),
        };
        (end.reason.as_str(), said)
    }

    /// A call's result as it is stored: status, error code, content.
    pub(in crate::run) fn result(&self, index: usize) -> (&'static str, Option<&'static str>, String) {
        let (result, _) = self.tables.calls[&self.call(index)].result.as_ref().expect("a result");
        (result.status.as_str(), result.error_code.map(ErrorCode::as_str), result.content.clone())
    }

    /// A call's ledger entry: status, effect, attempts.
    pub(in crate::run) fn entry(&self, index: usize) -> (&'static str, &'static str, u32) {
        let entry = &self.tables.ledger.entries[&self.state.calls[index].ledger_id()];
        let (status, effect) =
            entry.outcome.map_or(("started", "none"), |o| (o.status.as_str(), o.effect.as_str()));
        (status, effect, entry.attempts)
    }
}

/// A whole reply with these calls.
pub(in crate::run) fn said(text: &str, calls: &[(&str, Value)]) -> ModelReply {
    let call = |(name, arguments): &(&str, Value)| ReplyCall {
        id: Some("call_1".into()),
        name: (*name).into(),
        arguments: arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned),
    };
    ModelReply {
        text: text.into(),
        calls: calls.iter().map(call).collect(),
        finish: Finish::Stop,
        finish_reason: Some("stop".into()),
        usage: Some(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() }),
        extra: Map::new(),
    }
}

/// A person says yes; the gate says `judged_again` by now.
pub(in crate::run) fn approved(judged_again: Effect, edited: Option<(Value, String)>) -> CallVerdict {
    let judged_again =
        Judgement { effect: judged_again, expires_ms: 1000, ..Judgement::denied("judged again") };
    let edited = edited.map(|(input, key)| (input.clone(), input_hash(&input), key));
    CallVerdict::Approved(Box::new(Approval { judged_again, deciders: None, stands: true, edited }))
}

/// Nobody knows whether it happened.
pub(in crate::run) fn unclear() -> Attempt {
    Attempt::Unclear(ErrorCode::Timeout, "late".into())
}

/// It clearly didn't happen this time.
pub(in crate::run) fn not_done() -> Attempt {
    Attempt::NotDone(ErrorCode::RateLimited, "busy".into(), None)
}

/// It clearly won't happen.
pub(in crate::run) fn refused() -> Attempt {
    Attempt::Refused(ErrorCode::Conflict, "no".into())
}
