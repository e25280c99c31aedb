//! Runs that stand on other runs: what was used counts, what was done isn't done again.

use serde_json::{Value, json};

use crate::budget::Budgets;
use crate::id::RunId;
use crate::run::trial::{DAWN, Trial, round_trip};
use crate::run::{Command, Event, Heir, Phase, RunState, STATE_VERSION, Status, StopReason, outstanding};
use crate::tool::ResultStatus;

fn heir(effects: u32, messages: u64) -> Heir {
    Heir {
        run_id: RunId(uuid::Uuid::from_u128(77)),
        budgets: Budgets::default(),
        messages,
        effects,
        counts_from: DAWN + 5_000,
    }
}

fn begun(trial: Trial, state: RunState) -> Trial {
    assert_eq!((state.status, outstanding(&state)), (Status::Queued, vec![]));
    let mut heir = trial.heir(state);
    heir.later(5_000);
    heir.must(Event::Started { at: heir.now });
    heir
}

/// Step 1 looks; then a fork is made of it, in which `effects` of the ledger may be taken, and it calls `calls`.
fn forked(effects: u32, calls: &[(&str, Value)]) -> Trial {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!({}))]);
    trial.works(0);
    let state = trial.state.forked(1, heir(effects, 0));
    let mut fork = begun(trial, state);
    fork.calls(calls);
    fork
}

#[test]
fn a_stopped_run_goes_on_with_more_budget() {
    let mut trial = Trial::begun(&json!({"budgets": {"max_steps": 1}}));
    trial.calls(&[("pay", json!({"n": 1}))]);
    trial.works(0);
    let end = trial.state.end.clone().expect("its end");
    assert_eq!(end.reason, StopReason::MaxSteps);
    let state = trial.state.continued(heir(0, 1));
    assert!(state.version <= STATE_VERSION && round_trip(&state) == state);
    let mut more = begun(trial, state);
    more.says("Paid.");
    assert_eq!(
        (more.state.status, more.state.used.steps, more.state.used.tool_calls),
        (Status::Finished, 2, 1)
    );
    assert_eq!((more.state.attempt(), more.state.step), (1, 2));
    more.check_journal();
}

#[test]
fn the_time_that_was_used_counts_and_the_time_between_does_not() {
    let mut trial = Trial::begun(&json!({}));
    trial.later(3_000);
    trial.says("Done.");
    let more = trial.state.continued(Heir { counts_from: DAWN + 1_000_000, ..heir(0, 1) });
    assert_eq!(more.elapsed_ms(DAWN + 1_000_500), 3_500);
}

#[test]
fn an_effect_of_before_is_taken_once() {
    let mut fork = forked(1, &[("pay", json!({"n": 1})), ("pay", json!({"n": 1}))]);
    assert_eq!(outstanding(&fork.state), [Command::ClaimKey { call: fork.call(0) }]);
    fork.must(fork.effect_found(0, ResultStatus::Succeeded, 5));
    // One look before, and the second payment, which is out.
    assert_eq!((fork.result(0).0, fork.state.used.tool_calls), ("succeeded", 2));
    assert!(!fork.state.has_effects_to_take() && fork.tables.taken.len() == 1);
    assert_eq!(outstanding(&fork.state), [Command::RunTool { call: fork.call(1), attempt: 1 }]);
    fork.works(1);
    assert_eq!(fork.state.inherited.as_ref().map(|inherited| inherited.taken.len()), Some(1));
    fork.build();
    assert_eq!(fork.state.inherited.as_ref().map(|inherited| inherited.taken.len()), Some(0));
    fork.check_journal();
}

#[test]
fn two_calls_at_once_take_two_effects() {
    let mut fork = forked(2, &[("note", json!({"n": 1})), ("note", json!({"n": 1}))]);
    let looks = [Command::ClaimKey { call: fork.call(0) }, Command::ClaimKey { call: fork.call(1) }];
    assert_eq!(outstanding(&fork.state), looks);
    fork.must(fork.effect_found(0, ResultStatus::Succeeded, 5));
    fork.must(fork.effect_found(1, ResultStatus::Succeeded, 5));
    assert_eq!(outstanding(&fork.state), [looks[1]], "the second looks again");
    fork.must(fork.effect_found(1, ResultStatus::Succeeded, 6));
    assert_eq!((fork.state.phase, fork.tables.taken.len()), (Phase::Boundary, 2));
}

#[test]
fn what_was_not_done_before_is_done_now() {
    let mut fork = forked(1, &[("pay", json!({"n": 2}))]);
    fork.must(Event::KeyFree { at: fork.now, call: fork.call(0) });
    fork.works(0);
    assert_eq!((fork.entry(0), fork.state.has_effects_to_take()), (("succeeded", "committed", 1), true));
}

#[test]
fn reads_are_made_anew() {
    let fork = forked(1, &[("peek", json!({}))]);
    assert_eq!(outstanding(&fork.state), [Command::RunTool { call: fork.call(0), attempt: 1 }]);
}

#[test]
fn an_unclear_effect_of_before_stays_unclear() {
    for (tool, ends) in [("pay", true), ("mail", false)] {
        let mut fork = forked(1, &[(tool, json!({"n": 1}))]);
        fork.must(fork.effect_found(0, ResultStatus::Uncertain, 5));
        assert_eq!((fork.result(0).0, fork.state.is_ended()), ("uncertain", ends));
        assert_eq!(fork.tables.ledger.entries.len(), 1, "nothing was sent");
    }
}

#[test]
fn a_checkpoint_keeps_nothing_of_the_step_that_was_begun_with_it() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!({}))]);
    trial.works(0);
    let at_once = trial.state.forked(1, heir(0, 0));
    trial.build();
    assert_eq!(trial.state.step, 2);
    let later = trial.state.forked(1, heir(0, 0));
    assert_eq!((later.step, later.used.clone(), later.next_message), (1, at_once.used, at_once.next_message));
    assert_eq!((later.calls.len(), later.phase), (0, Phase::Queued));
}
