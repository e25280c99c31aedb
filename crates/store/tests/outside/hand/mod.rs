//! An engine by hand: what came in for a run, judged and folded as engines do it, and committed when the test says so.

mod gate;

use answerable_core::Millis;
use answerable_core::id::CallId;
use answerable_core::json::input_hash;
use answerable_core::ledger::Outcome;
use answerable_core::registry::Registry;
use answerable_core::run::{
    Approval, Call, CallVerdict, Event, JudgedAgain, LedgerRow, NewCall, Record, RunConfig, RunState, Stage,
    next_due, step,
};
use answerable_core::tool::{Attempt, ErrorCode, Output};
use answerable_ports::commit::{Commit, CommitOutcome, DecisionWord, InboundBody, Release};
use answerable_ports::{Lease, LoadedRun, RunStore, StoreError};
use serde_json::Value;
use uuid::Uuid;

pub(crate) use gate::{Gate, new_key, put_policy, revoke_key};

use crate::world::{World, first_step, new_call};

/// One server's work on a run between two commits.
pub(crate) struct Hand<'a> {
    pub(crate) world: &'a World,
    pub(crate) lease: Lease,
    pub(crate) at: Millis,
}

/// What a server would commit.
#[derive(Clone)]
pub(crate) struct Drafted {
    pub(crate) lease: Lease,
    pub(crate) seq: i64,
    pub(crate) commit: Commit,
}

impl Drafted {
    /// Entries that it opens.
    pub(crate) fn opened(&self) -> impl Iterator<Item = &LedgerRow> {
        self.commit.records.iter().filter_map(|record| match record {
            Record::LedgerOpened(row) => Some(&**row),
            _ => None,
        })
    }

    pub(crate) async fn send(&self, world: &World) -> Result<CommitOutcome, StoreError> {
        world.engine.commit(self.lease, self.seq, self.commit.clone(), Uuid::now_v7()).await
    }
}

impl Hand<'_> {
    /// What came in, then `more`, then what is due; nothing where another server has the run. `again`: the rules have changed
    /// since calls were judged that wait for their turn.
    pub(crate) async fn draft(&self, again: bool, more: Vec<Event>) -> Option<Drafted> {
        let loaded = self.world.engine.load(self.lease).await.expect("an answer")?;
        let gate = Gate::of(self.world, self.lease.run_id).await;
        let registry = self.world.registry();
        let mut events = Vec::new();
        if again {
            events.extend(self.judged_again(&loaded, &gate, &registry));
        }
        events.extend(
            loaded.inbox.iter().filter_map(|item| self.heard(&loaded, &gate, &registry, item.body.clone())),
        );
        events.extend(more);
        Some(self.fold(loaded, &registry, events))
    }

    fn fold(&self, loaded: LoadedRun, registry: &Registry, events: Vec<Event>) -> Drafted {
        let config = RunConfig { registry, max_recoveries: 5 };
        let (mut state, mut records, mut happened) = (loaded.state, Vec::new(), Vec::new());
        let mut apply = |state: &mut RunState, event: Event| {
            // What can't happen any more is dropped, as engines do.
            if let Ok(next) = step(config, state.clone(), event.clone()) {
                *state = next.state;
                records.extend(next.records);
                happened.push(event);
            }
        };
        for event in events {
            apply(&mut state, event);
        }
        if next_due(&state).is_some_and(|due| due <= self.at) {
            apply(&mut state, Event::TimerFired { at: self.at });
        }
        let at_key = |call: &&Call| call.stage == Stage::Key;
        while let Some(call) = state.calls.iter().find(at_key).map(|call| call.id) {
            apply(&mut state, Event::KeyFree { at: self.at, call });
        }
        let release = if state.is_ended() { Release::End } else { Release::Keep };
        if state.is_ended() {
            records.extend(unsent(&records));
        }
        let commit = Commit {
            state,
            spans: vec![Vec::new(); happened.len()],
            events: happened,
            records,
            thread_id: loaded.thread_id,
            asked_inputs: Vec::new(),
            artifacts: Vec::new(),
            consumed: loaded.inbox.iter().map(|inbound| inbound.number).collect(),
            known_inbox: loaded.known_inbox,
            release,
            at: self.at,
        };
        Drafted { lease: self.lease, seq: loaded.seq, commit }
    }

    fn judged_again(&self, loaded: &LoadedRun, gate: &Gate, registry: &Registry) -> Option<Event> {
        let waiting =
            loaded.state.calls.iter().filter(|call| matches!(call.stage, Stage::Ready | Stage::Key));
        let verdicts: Vec<JudgedAgain> = waiting
            .map(|call| {
                let judgement = gate.judge(registry, &call.tool_name, &loaded.inputs[&call.id], self.at);
                let stands =
                    call.approved.as_ref().is_none_or(|given| gate.stands(&judgement, given.approval));
                JudgedAgain { call: call.id, judgement, stands }
            })
            .collect();
        (!verdicts.is_empty()).then_some(Event::RulesChanged { at: self.at, verdicts })
    }

    fn heard(
        &self,
        loaded: &LoadedRun,
        gate: &Gate,
        registry: &Registry,
        body: InboundBody,
    ) -> Option<Event> {
        let at = self.at;
        match body {
            InboundBody::Cancel { reason } => Some(Event::CancelRequested { at, reason }),
            InboundBody::Decided {
                approval_id,
                call_id,
                decision,
                input,
                content,
                reason,
                by,
                at: given_at,
            } => {
                let verdict = match decision {
                    DecisionWord::Deny => CallVerdict::Denied,
                    DecisionWord::Answer => CallVerdict::Answered(Output::plain(content.unwrap_or_default())),
                    DecisionWord::Approve => {
                        let call = loaded.state.call(call_id)?;
                        let wanted = input.as_ref().unwrap_or(&loaded.inputs[&call_id]);
                        let judged_again = gate.judge(registry, &call.tool_name, wanted, at);
                        let stands = gate.stands(&judged_again, approval_id);
                        let deciders = Some(gate.deciders(approval_id));
                        let edited = input.map(|input| {
                            let hash = input_hash(&input);
                            (input, hash, call_id.to_string())
                        });
                        CallVerdict::Approved(Box::new(Approval { judged_again, deciders, stands, edited }))
                    }
                };
                Some(Event::CallDecided {
                    at,
                    call: call_id,
                    approval: Some(approval_id),
                    verdict,
                    by,
                    reason,
                    given_at,
                })
            }
            _ => None,
        }
    }
}

/// What would have been sent in the same breath in which its run ends never is.
fn unsent(records: &[Record]) -> Vec<Record> {
    let closed = |id| {
        records
            .iter()
            .any(|known| matches!(known, Record::LedgerClosed { ledger_id, .. } if *ledger_id == id))
    };
    let opened = records.iter().filter_map(|record| match record {
        Record::LedgerOpened(row) if !closed(row.id) => Some(row.id),
        _ => None,
    });
    let outcome = Outcome::failed(ErrorCode::Cancelled);
    opened.map(|ledger_id| Record::LedgerClosed { ledger_id, outcome }).collect()
}

/// A run of these calls, claimed; what its first step would commit is not committed yet.
pub(crate) async fn begun<'a>(world: &'a World, calls: &[(&str, Value)]) -> (Hand<'a>, Drafted) {
    let run = world.start(|_| ()).await.expect("a run");
    let hand = Hand { world, lease: world.claim(run).await, at: world.now().await };
    let drafted = hand.first(calls).await;
    (hand, drafted)
}

impl Hand<'_> {
    /// The run's first step.
    pub(crate) async fn first(&self, calls: &[(&str, Value)]) -> Drafted {
        self.draft(false, self.step(calls).await).await.expect("the lease")
    }

    /// The run's model makes these calls, judged by the rules of this moment.
    pub(crate) async fn step(&self, calls: &[(&str, Value)]) -> Vec<Event> {
        let (gate, registry) = (Gate::of(self.world, self.lease.run_id).await, self.world.registry());
        let judged = |(name, input): &(&str, Value)| {
            let call = new_call(&registry, name, input, self.at);
            let business = input["id"].as_str().filter(|_| *name == "book");
            NewCall {
                judgement: Some(gate.judge(&registry, name, input, self.at)),
                idempotency_key: business.map_or(call.idempotency_key, |id| (id.to_owned(), true)),
                ..call
            }
        };
        first_step(self.at, calls.iter().map(judged).collect())
    }

    /// What came in is committed.
    pub(crate) async fn work(&self) -> Drafted {
        let drafted = self.draft(false, Vec::new()).await.expect("the lease");
        assert_eq!(drafted.send(self.world).await.expect("an answer"), CommitOutcome::Stored);
        drafted
    }

    /// What was refused is judged by the rules of this moment, and committed.
    pub(crate) async fn work_again(&self, more: Vec<Event>) -> Drafted {
        let drafted = self.draft(true, more).await.expect("the lease");
        assert_eq!(drafted.send(self.world).await.expect("an answer"), CommitOutcome::Stored);
        drafted
    }
}

/// The call's attempt went well.
pub(crate) fn sent(call: CallId, at: Millis) -> Event {
    Event::ToolAttempted { at, call, outcome: Attempt::Succeeded(Output::plain("sent")), jitter: 0 }
}
