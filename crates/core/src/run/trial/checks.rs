//! What holds after every event, whatever it was.

use std::collections::BTreeSet;

use super::{Trial, history};
use crate::budget::before_model_call;
use crate::id::ApprovalId;
use crate::run::{
    Call, Command, EventType, Phase, Record, RunState, Stage, Status, StopReason, next_due, outstanding,
};

impl Trial {
    pub(super) fn check(&self, before: &RunState, records: &[Record]) {
        self.check_something_is_next();
        self.check_limits(records);
        self.check_waiting();
        self.check_approvals();
        self.check_begun(records);
        self.check_children(records);
        self.check_steps();
        super::events::check(self, records);
        if self.state.is_ended() {
            self.check_end(before);
        }
    }

    /// Law 1: a live run is never stuck. Limits of time don't count as something to do.
    fn check_something_is_next(&self) {
        let state = &self.state;
        let commands = outstanding(state);
        let distinct: BTreeSet<String> = commands.iter().map(|command| format!("{command:?}")).collect();
        assert_eq!(distinct.len(), commands.len(), "a command is outstanding once");
        let asks = matches!(state.phase, Phase::Model | Phase::Summary);
        let retry = asks && state.model.not_before.is_some()
            || state.calls.iter().any(|call| matches!(call.stage, Stage::Backoff { .. }));
        match state.status {
            Status::Running if state.ending.is_some() => {
                assert!(!commands.is_empty(), "it ends when they are done")
            }
            // It goes on when it is resumed.
            Status::Running if state.suspended => {}
            Status::Running => {
                assert!(!commands.is_empty() || retry, "stuck: {state:?}");
                assert!(!retry || next_due(state).is_some());
            }
            Status::WaitingApproval => assert!(!self.tables.pending().is_empty(), "it waits for nobody"),
            Status::WaitingTool => {
                let is_awaited =
                    |call: &Call| matches!(call.stage, Stage::Parked { .. } | Stage::Child { .. });
                assert!(state.calls.iter().any(is_awaited));
            }
            _ => assert!(commands.is_empty()),
        }
        if state.status.is_waiting() {
            assert!(commands.is_empty(), "a waiting run holds nothing");
            assert!(state.clock.since.is_none(), "waiting for people costs no time");
            assert!(next_due(state).is_some(), "nobody is waited for forever");
        }
    }

    /// Nothing begins over a limit, nor in a run that ends.
    fn check_limits(&self, records: &[Record]) {
        let (state, tables) = (&self.state, &self.tables);
        if state.ending.is_some() || state.is_ended() {
            let sends =
                |record: &Record| matches!(record, Record::LedgerOpened(_) | Record::LedgerAttempt { .. });
            assert!(!records.iter().any(sends), "something is sent by a run that ends");
            assert_eq!(next_due(state), None, "it waits for writes alone");
        }
        assert_eq!(
            state.used.tool_calls as usize,
            tables.ledger.entries.len(),
            "each executed call has its entry"
        );
        assert_eq!(state.used.steps, state.step);
        let begins = |wanted: EventType| {
            records.iter().any(|r| matches!(r, Record::Event { kind, .. } if *kind == wanted))
        };
        if begins(EventType::StepStarted) {
            assert!(state.used.steps <= state.budgets.max_steps);
        }
        if begins(EventType::ToolStarted) {
            assert!(state.used.tool_calls <= state.budgets.max_tool_calls);
        }
        if outstanding(state).iter().any(|command| matches!(command, Command::CallModel { .. })) {
            history::check(self.tables.messages.iter());
        }
        if begins(EventType::ModelStarted) || begins(EventType::ContextSummarizing) {
            assert_eq!(before_model_call(&state.budgets, &state.used, &state.estimate), None);
        }
    }

    /// What people owe, by the state and by the rows.
    fn check_waiting(&self) {
        let of_call = |call: &Call| match call.stage {
            Stage::Asked { .. } => Some(call.approval_id()),
            Stage::AskedUncertain { .. } => Some(call.uncertain_approval_id()),
            _ => None,
        };
        let by_state: BTreeSet<ApprovalId> = self.state.calls.iter().filter_map(of_call).collect();
        let by_state = by_state.into_iter().chain(self.state.budget_ask.map(|ask| ask.approval_id)).collect();
        let by_rows: BTreeSet<ApprovalId> = self.tables.pending().iter().map(|row| row.id).collect();
        assert_eq!(by_rows, by_state, "pending approvals");
        for call in &self.state.calls {
            let told = &self.tables.calls[&call.id];
            assert_eq!(told.result.is_some(), call.is_done());
            let entry = self.tables.ledger.entries.get(&call.ledger_id());
            match call.stage {
                Stage::Out { attempt, .. } => {
                    let entry = entry.expect("the intent before the effect");
                    assert!(entry.outcome.is_none() && entry.attempts == attempt);
                }
                Stage::Backoff { .. }
                | Stage::Parked { .. }
                | Stage::Child { .. }
                | Stage::Reconciling { .. } => {
                    assert!(entry.expect("an entry").outcome.is_none());
                }
                Stage::Asked { .. } | Stage::Ready | Stage::Key => assert!(entry.is_none()),
                Stage::AskedUncertain { .. } => assert!(entry.expect("an entry").outcome.is_some()),
                Stage::Done(_) => {}
            }
        }
    }

    /// Those who are asked will hear of it in time; what was approved waits for its call alone.
    fn check_approvals(&self) {
        let open: Vec<_> = self.state.open_approvals.iter().map(|open| &open.row).collect();
        let mut rows = self.tables.pending();
        rows.sort_by_key(|row| open.iter().position(|open| open.id == row.id));
        assert_eq!(open, rows, "the state knows what people are asked");
        for open in &self.state.open_approvals {
            assert!(open.next_due().is_none_or(|due| due <= open.row.expires_at));
        }
        for call in &self.state.calls {
            let Some(given) = &call.approved else { continue };
            assert!(matches!(call.stage, Stage::Ready | Stage::Key), "{call:?} has begun");
            let told = &self.tables.approvals.all[&given.approval];
            assert!(told.given.is_some() && !told.used && told.void.is_none(), "{told:?}");
        }
    }

    /// Each child has its call's entry and no other; together they can't spend more than the run may.
    fn check_children(&self, records: &[Record]) {
        let (state, mut given) = (&self.state, vec![self.state.abandoned]);
        for call in &state.calls {
            if let Stage::Child { given: share, stopping, .. } = call.stage {
                assert!(self.tables.children.contains(&call.id), "a child that was begun");
                assert!(state.ending.is_none() || stopping, "a child works on for a run that ends");
                given.push(share);
            }
        }
        for record in records {
            if let Record::ChildOpened(row) = record {
                assert!(self.tables.ledger.entries.contains_key(&crate::id::LedgerId(row.call.0)));
                assert!(row.budgets.max_tokens > 0 && row.budgets.timeout_ms > 0);
                assert_eq!((row.depth, row.deadline), (state.depth + 1, state.deadline));
                let tokens: u64 = given.iter().map(|share| share.tokens).sum();
                assert!(state.used.tokens() + tokens <= state.budgets.max_tokens, "{given:?}");
                let cost: u64 = given.iter().filter_map(|share| share.cost_microusd).sum();
                let max = state.budgets.max_cost_microusd;
                assert!(max.is_none_or(|max| state.used.cost_microusd + cost <= max), "{given:?}");
            }
        }
        if state.is_ended() {
            let stopped = |call: &&Call| {
                let told = |record: &Record| matches!(record, Record::ChildStopped { call: id, .. } if *id == call.id);
                records.iter().any(told)
            };
            let open = self.tables.children.iter().filter_map(|id| state.call(*id));
            let cut = open.filter(|call| match &call.stage {
                Stage::Done(done) => done.status == crate::tool::ResultStatus::Cancelled,
                _ => false,
            });
            assert!(cut.clone().all(|call| stopped(&call)), "a child outlives its parent");
        }
    }

    fn check_steps(&self) {
        for (number, closed) in &self.tables.steps {
            let open = *number == self.state.step && self.state.is_step_open();
            assert_eq!(*closed, !open, "step {number} of a run in {:?}", self.state.phase);
        }
    }

    fn check_end(&self, before: &RunState) {
        let (state, tables) = (&self.state, &self.tables);
        assert!(!before.is_ended() && state.ending.is_none() && state.budget_ask.is_none());
        assert!(outstanding(state).is_empty() && next_due(state).is_none());
        let end = state.end.as_ref().expect("an ended run says why");
        assert_eq!(state.status, end.reason.status());
        let (answer, error) = tables.ended.as_ref().expect("an end is written");
        match state.status {
            Status::Finished => assert!(answer.is_some() && error.is_none()),
            Status::Cancelled => assert!(answer.is_none() && error.is_none()),
            _ => {
                let answer = answer.as_deref().expect("a sentence of the runtime's");
                let error = error.as_ref().expect("an error");
                assert!(
                    ["code", "message"]
                        .iter()
                        .all(|name| error[name].as_str().is_some_and(|text| !text.is_empty()))
                );
                assert_eq!(error["step"].as_u64(), (state.step > 0).then_some(u64::from(state.step)));
                for word in
                    [end.tool_name.clone(), end.step.map(|step| format!("step {step}"))].into_iter().flatten()
                {
                    assert!(answer.contains(&word), "{answer:?} names {word}");
                }
            }
        }
        assert!(tables.pending().is_empty(), "nobody is asked after the end");
        tables.approvals.check_end();
        assert!(tables.calls.values().all(|call| call.result.is_some()), "every call has a result");
        for entry in tables.ledger.started() {
            assert!(end.reason == StopReason::Cancelled && entry.row.writes, "{entry:?} is left open");
        }
        assert!(tables.steps.values().all(|closed| *closed));
        history::check(tables.messages.iter());
    }
}
