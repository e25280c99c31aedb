//! Limits: what still runs, what doesn't, and what is asked for.

use serde_json::{Value, json};

use crate::budget::BudgetPatch;
use crate::model::{FailureKind, Finish, ModelReply, Usage};
use crate::run::trial::{DAWN, Trial, agent, not_done, said, unclear};
use crate::run::{Command, Event, EventType, Phase, Status, outstanding};
use crate::tool::Reconciled;

fn within(budgets: Value) -> Trial {
    Trial::begun(&json!({"budgets": budgets}))
}

#[test]
fn calls_within_the_limit_run_the_rest_are_rejected_and_the_run_ends() {
    let mut trial = within(json!({"max_tool_calls": 2}));
    let calls: Vec<_> = (0..6).map(|n| ("look", json!({"n": n}))).collect();
    trial.calls(&calls);
    assert_eq!(trial.stages(), ["out", "out", "rejected", "rejected", "rejected", "rejected"]);
    trial.works(0);
    trial.works(1);
    assert_eq!(trial.end(), ("max_tool_calls", "max_tool_calls".into()));
    assert_eq!(trial.result(2).1, Some("BUDGET_EXHAUSTED"));
    assert_eq!(trial.tables.calls[&trial.call(2)].row.validation.as_str(), "over_limit");
    // Exactly at the limit is within it.
    let mut trial = within(json!({"max_tool_calls": 2}));
    trial.calls(&calls[..2]);
    trial.works(0);
    trial.works(1);
    trial.says("both");
    assert_eq!(trial.end().0, "final_answer");
}

#[test]
fn a_denied_call_takes_no_place() {
    let mut trial = within(json!({"max_tool_calls": 1}));
    trial.calls(&[("wipe", json!({})), ("look", json!({"n": 1}))]);
    assert_eq!(trial.stages(), ["denied", "out"]);
}

#[test]
fn a_limit_that_was_lowered_holds_when_the_call_would_run() {
    let mut trial = within(json!({"max_tool_calls": 5}));
    trial.calls(&[("risky", json!({}))]);
    trial.budget(BudgetPatch { max_tool_calls: Some(0), ..BudgetPatch::default() });
    trial.approve(0);
    assert_eq!((trial.stages(), trial.end().0), (vec!["rejected"], "max_tool_calls"));
}

#[test]
fn the_calls_of_the_last_step_run() {
    let mut trial = within(json!({"max_steps": 1}));
    trial.calls(&[("look", json!({}))]);
    trial.works(0);
    assert_eq!(trial.end(), ("max_steps", "max_steps".into()));
    let mut trial = within(json!({"max_steps": 1}));
    trial.says("just so");
    assert_eq!(trial.end(), ("final_answer", "just so".into()));
}

#[test]
fn a_final_answer_at_the_limit_counts_whatever_was_said_meanwhile() {
    for (budgets, reason) in [
        (json!({"max_steps": 1}), Some("final_answer")),
        (json!({"max_tokens": 20}), Some("final_answer")),
        (json!({}), None),
    ] {
        let mut trial = within(budgets);
        trial.build();
        let replied = trial.replied(&said("done", &[]), true);
        trial.must(replied);
        assert_eq!(trial.state.end.as_ref().map(|end| end.reason.as_str()), reason);
        if reason.is_none() {
            trial.steer();
            trial.says("briefly done");
            let roles: Vec<_> = trial.tables.messages.values().map(|message| message.role.as_str()).collect();
            assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
        }
    }
}

#[test]
fn a_model_is_not_asked_where_it_cannot_fit() {
    let mut trial = within(json!({"max_tokens": 11}));
    trial.must(trial.built(11));
    assert_eq!((trial.end().0, trial.state.step, trial.state.used.tokens()), ("max_tokens", 0, 0));
    let mut trial = within(json!({"max_cost_microusd": 6}));
    trial.calls(&[("look", json!({}))]);
    trial.works(0);
    trial.must(trial.built(1));
    assert_eq!((trial.end().0, trial.state.step), ("max_cost", 1));
}

#[test]
fn more_is_asked_for_between_steps() {
    let mut trial = within(json!({"max_steps": 1, "on_exhausted": "ask"}));
    trial.calls(&[("look", json!({}))]);
    trial.works(0);
    assert_eq!((trial.state.phase, trial.state.status), (Phase::Budget, Status::WaitingApproval));
    assert_eq!(trial.tables.pending()[0].kind.as_str(), "budget");
    let (little, enough) = (
        BudgetPatch { max_tokens: Some(9_999), ..BudgetPatch::default() },
        BudgetPatch { max_steps: Some(2), ..BudgetPatch::default() },
    );
    assert!(!trial.state.is_enough(&little) && trial.state.is_enough(&enough));
    trial.budget(little);
    assert_eq!(trial.state.phase, Phase::Budget);
    trial.budget(enough);
    assert_eq!(outstanding(&trial.state), [Command::BuildContext]);
    trial.calls(&[("look", json!({"n": 1}))]);
    trial.works(0);
    let first = trial.told(EventType::ApprovalRequested)[0].clone();
    assert_eq!(trial.told(EventType::ApprovalRequested).len(), 2);
    assert_ne!(trial.told(EventType::ApprovalRequested)[1]["approval_id"], first["approval_id"]);
    let approval = trial.state.budget_ask.expect("an ask").approval_id;
    trial.must(Event::BudgetDenied { at: trial.now, approval, by: "key_a".into() });
    assert_eq!((trial.end(), trial.state.used.steps), (("max_steps", "max_steps".into()), 2));
}

#[test]
fn more_is_asked_for_within_a_step_too() {
    let dear = |input| ModelReply {
        finish: Finish::Length,
        usage: Some(Usage { input_tokens: input, output_tokens: 5, ..Usage::default() }),
        ..said("half of", &[])
    };
    let mut trial = within(json!({"max_tokens": 50, "on_exhausted": "ask"}));
    trial.replies(&dear(40));
    let ask = trial.state.budget_ask.expect("an ask");
    assert_eq!(
        (ask.back_to, trial.state.status, trial.state.is_step_open()),
        (Phase::Model, Status::WaitingApproval, true)
    );
    trial.budget(BudgetPatch { max_tokens: Some(90), ..BudgetPatch::default() });
    assert_eq!(outstanding(&trial.state), [Command::CallModel { step: 1, attempt: 1 }]);
    trial.says("whole");
    assert_eq!((trial.end().0, trial.state.step), ("final_answer", 1));
    // Refused, or not answered in time, it ends there; and at once where nobody is to be asked.
    for on_exhausted in ["ask", "stop"] {
        let mut trial = within(json!({"max_tokens": 50, "on_exhausted": on_exhausted}));
        trial.replies(&dear(40));
        if on_exhausted == "ask" {
            trial.runs_out();
        }
        assert_eq!((trial.end().0, trial.state.step), ("max_tokens", 1));
    }
}

#[test]
fn more_is_asked_for_where_a_context_is_rebuilt() {
    let mut trial = within(json!({"max_tokens": 50, "on_exhausted": "ask"}));
    trial.model_fails(FailureKind::ContextOverflow, 400);
    trial.must(trial.built(60));
    assert_eq!(trial.state.budget_ask.map(|ask| ask.back_to), Some(Phase::Rebuild));
    trial.budget(BudgetPatch { max_tokens: Some(99), ..BudgetPatch::default() });
    trial.says("done");
    assert_eq!((trial.end().0, trial.state.used.steps), ("final_answer", 1));
}

#[test]
fn time_is_up_while_it_reads() {
    let mut trial = within(json!({"timeout_ms": 1200}));
    trial.calls(&[("look", json!({}))]);
    trial.fire();
    assert_eq!((trial.end().0, trial.entry(0)), ("timeout", ("failed", "none", 1)));
    assert_eq!((trial.now - DAWN, trial.stages()), (1200, vec!["cancelled"]));
    assert!(
        trial
            .tables
            .ended
            .as_ref()
            .is_some_and(|(answer, _)| answer.as_deref().is_some_and(|a| a.contains("look")))
    );
}

#[test]
fn time_is_up_while_a_write_is_out() {
    for (outcome, stage, entry) in [
        (None, "succeeded", ("succeeded", "committed", 1)),
        (Some(not_done()), "failed", ("failed", "none", 1)),
        (Some(unclear()), "uncertain", ("uncertain", "possible", 1)),
    ] {
        let mut trial = within(json!({"timeout_ms": 1200}));
        trial.calls(&[
            ("note", json!({})),
            ("look", json!({})),
            ("ask_user", json!({})),
            ("sign", json!({})),
        ]);
        trial.fire();
        assert_eq!(trial.state.status, Status::Running, "it waits for the write");
        assert_eq!(outstanding(&trial.state), [Command::RunTool { call: trial.call(0), attempt: 1 }]);
        match outcome {
            Some(outcome) => drop(trial.attempt(0, outcome)),
            None => drop(trial.works(0)),
        }
        assert_eq!((trial.end().0, trial.stages()[0], trial.entry(0)), ("timeout", stage, entry));
        assert_eq!(trial.stages()[1..], ["cancelled"; 3]);
    }
}

#[test]
fn nothing_is_begun_when_time_is_up() {
    // The far side says that it didn't happen: it isn't sent again, and nobody is asked.
    for (state, entry) in [
        (Reconciled::NotApplied, "failed"),
        (Reconciled::Unknown, "uncertain"),
        (Reconciled::Applied, "succeeded"),
    ] {
        let mut trial = within(json!({"timeout_ms": 1200}));
        trial.calls(&[("refund", json!({}))]);
        trial.fire();
        trial.attempt(0, unclear());
        assert_eq!(trial.stages(), ["reconciling"]);
        trial.reconciles(0, state);
        assert_eq!((trial.end().0, trial.entry(0).0), ("timeout", entry));
        assert!(trial.tables.approvals.all.is_empty());
    }
    // A business key that turns out to be free isn't used any more.
    let mut trial =
        Trial::begun(&json!({"budgets": {"timeout_ms": 1200}, "tools": {"order": {"parallel_safe": true}}}));
    trial.calls(&[("note", json!({})), ("order", json!({"n": 1}))]);
    trial.fire();
    trial.must(Event::KeyFree { at: trial.now, call: trial.call(1) });
    assert_eq!(trial.stages(), ["out", "key"]);
    trial.works(0);
    assert_eq!((trial.end().0, trial.tables.ledger.entries.len()), ("timeout", 1));
}

#[test]
fn a_deadline_holds_while_people_are_waited_for() {
    let registry = agent(&json!({"budgets": {"timeout_ms": 1000}}));
    let budgets = registry.spec.budgets.clone();
    let mut trial = Trial::accepted(registry, budgets, Some(DAWN + 50_000));
    trial.must(Event::Started { at: trial.now });
    trial.calls(&[("risky", json!({}))]);
    trial.fire();
    assert_eq!((trial.end().0, trial.now), ("timeout", DAWN + 50_000));
    assert!(trial.state.end.as_ref().is_some_and(|end| end.detail.contains("deadline")));
}
