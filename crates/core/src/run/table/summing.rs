//! Summaries: made before a step, paid by the run, and done without where they can't be had.

use serde_json::json;

use super::replays::stage::{Other, Recorded, run};
use crate::budget::{BudgetPatch, OnExhausted};
use crate::model::{FailureKind, Finish, ModelReply, Usage};
use crate::run::trial::{Trial, round_trip, said};
use crate::run::{Command, EventType, Phase, RunState, next_due, outstanding};

const ASKED: Command = Command::Summarize { step: 0, version: 1, attempt: 0 };

#[test]
fn a_summary_joins_the_history_and_the_step_begins() {
    let mut trial = Trial::summing(&json!({}));
    assert_eq!((outstanding(&trial.state), trial.state.version), (vec![ASKED], 3));
    trial.sums_up(&said(" It went well. ", &[]));
    let summary = &trial.tables.messages[&2];
    assert_eq!(summary.content, "Summary of the conversation so far:\nIt went well.");
    let covers = summary.summary.clone().expect("a summary");
    assert_eq!((covers.upto, covers.version, summary.step), (trial.tables.messages[&1].id, 1, Some(1)));
    assert_eq!(outstanding(&trial.state), [Command::BuildContext]);
    assert_eq!((trial.state.used.tokens(), trial.state.used.steps, trial.state.turns), (15, 0, 0));
    trial.says("done");
    assert_eq!((trial.end().1, trial.state.used.tokens()), ("done".into(), 30));
    let told = trial.told(EventType::ContextSummarized);
    assert_eq!((told[0]["input_tokens"].as_u64(), told[0]["covered"].as_u64()), (Some(10), Some(1)));
}

#[test]
fn one_that_is_too_long_is_cut() {
    let mut trial = Trial::summing(&json!({}));
    trial.sums_up(&said(&"é".repeat(100), &[]));
    let content = &trial.tables.messages[&2].content;
    assert!(content.ends_with(&format!("\n{}", "é".repeat(12))), "{content}");
}

#[test]
fn attempts_go_as_for_a_turn_and_then_it_is_done_without() {
    let mut trial = Trial::summing(&json!({}));
    trial.summary_fails(FailureKind::Passing, 503);
    assert!(outstanding(&trial.state).is_empty() && next_due(&trial.state).is_some(), "it waits a while");
    trial.fire();
    trial.summary_fails(FailureKind::Passing, 503);
    assert_eq!((trial.state.model.target, trial.state.phase), (1, Phase::Summary), "the fallback");
    trial.summary_fails(FailureKind::Refused, 400);
    assert_eq!(outstanding(&trial.state), [Command::BuildContext]);
    assert!(trial.state.summing.given_up && !trial.state.summing.may_be_tried());
    let told = trial.told(EventType::ContextSummaryFailed);
    let again: Vec<bool> = told.iter().map(|data| data["retry_in_ms"].is_u64()).collect();
    assert_eq!(again, [true, true, false]);
    assert!(trial.told(EventType::ModelFailed).is_empty(), "it is no failure of the step");
    trial.calls(&[("look", json!({}))]);
    trial.works(0);
    assert!(trial.state.summing.may_be_tried(), "the next step tries again");
    assert_eq!((trial.state.model.target, trial.tables.messages.len()), (0, 3));
}

#[test]
fn what_is_no_summary_is_not_kept() {
    for reply in [
        said(" \n", &[]),
        ModelReply { finish: Finish::Length, ..said("It was", &[]) },
        ModelReply { finish: Finish::Refusal, ..said("No.", &[]) },
        said("", &[("pay", json!({}))]),
    ] {
        let mut trial = Trial::summing(&json!({}));
        trial.sums_up(&reply);
        assert_eq!((trial.tables.messages.len(), trial.state.calls.len()), (1, 0), "{reply:?}");
        assert_eq!((trial.state.used.tokens(), trial.state.summing.failures), (15, 1), "it was paid for");
        trial.says("done");
        assert_eq!(trial.end().0, "final_answer");
    }
}

#[test]
fn a_request_that_is_too_long_is_made_shorter_once() {
    let mut trial = Trial::summing(&json!({}));
    trial.summary_fails(FailureKind::ContextOverflow, 400);
    assert!(trial.state.model.shrunk && trial.state.phase == Phase::Summary);
    trial.summary_fails(FailureKind::ContextOverflow, 400);
    assert!(trial.state.summing.given_up && trial.state.end.is_none());
}

#[test]
fn three_failures_are_enough_for_a_run() {
    let mut trial = Trial::begun(&json!({}));
    for n in 0..3 {
        assert!(trial.state.summing.may_be_tried());
        let needed = trial.summary_needed(1, 10);
        trial.must(needed);
        trial.summary_fails(FailureKind::Refused, 400);
        trial.calls(&[("look", json!({"n": n}))]);
        trial.works(0);
    }
    assert!(!trial.state.summing.may_be_tried());
}

#[test]
fn one_that_can_not_be_paid_is_done_without_or_asked_for() {
    let budgets = |ask: &str| json!({"budgets": {"max_tokens": 50, "on_exhausted": ask}});
    let mut trial = Trial::begun(&budgets("stop"));
    trial.must(trial.summary_needed(1, 50));
    assert_eq!((trial.state.phase, trial.state.version), (Phase::Boundary, 1));
    assert!(trial.state.summing.given_up && trial.told(EventType::ContextSummarizing).is_empty());
    trial.says("done");
    assert_eq!(trial.end().0, "final_answer", "the step is smaller");

    let mut trial = Trial::begun(&budgets("ask"));
    trial.must(trial.summary_needed(1, 50));
    assert_eq!((trial.state.phase, outstanding(&trial.state)), (Phase::Budget, vec![]));
    trial.budget(BudgetPatch { max_tokens: Some(90), ..BudgetPatch::default() });
    assert_eq!(outstanding(&trial.state), [Command::BuildContext]);
    trial.must(trial.summary_needed(1, 50));
    assert_eq!(outstanding(&trial.state), [ASKED]);
}

#[test]
fn a_retry_that_can_not_be_paid_is_asked_for_and_goes_on_where_it_was() {
    let mut trial = Trial::summing(&json!({"budgets": {"max_tokens": 30, "on_exhausted": "ask"}}));
    let mut failed = trial.summary_failed(FailureKind::Passing, 503, Some(0));
    if let crate::run::Event::SummaryFailed { failure, .. } = &mut failed {
        failure.usage = Some(Usage { input_tokens: 25, ..Usage::default() });
    }
    trial.must(failed);
    assert_eq!(trial.state.budget_ask.map(|ask| ask.back_to), Some(Phase::Summary));
    trial.budget(BudgetPatch { max_tokens: Some(90), ..BudgetPatch::default() });
    assert_eq!(trial.state.phase, Phase::Summary);
    assert_eq!(trial.state.budgets.on_exhausted, OnExhausted::Ask);
    trial.fire();
    assert_eq!(outstanding(&trial.state), [Command::Summarize { step: 0, version: 1, attempt: 1 }]);
}

#[test]
fn a_death_a_cancel_and_the_end_of_its_time_find_it() {
    let mut trial = Trial::summing(&json!({}));
    let stored = round_trip(&trial.state);
    assert_eq!(outstanding(&stored), [ASKED], "the next owner asks again");
    trial.dies();
    trial.steer();
    assert_eq!(outstanding(&trial.state), [ASKED]);
    trial.sums_up(&said("It went well.", &[]));
    assert_eq!(trial.tables.messages[&3].summary.as_ref().map(|summary| summary.version), Some(1));
    trial.check_journal();

    let mut trial = Trial::summing(&json!({}));
    trial.cancel();
    assert_eq!(trial.end().0, "cancelled");
    trial.check_journal();

    let mut trial = Trial::summing(&json!({"budgets": {"timeout_ms": 5000}}));
    trial.later(5_000);
    trial.fire();
    assert_eq!(trial.end().0, "timeout");
    trial.check_journal();

    let mut trial = Trial::summing(&json!({}));
    for _ in 0..3 {
        trial.dies();
    }
    assert_eq!(trial.end().0, "crash_loop");
}

/// While servers are upgraded one after another, older ones go on with runs that never summed up.
#[test]
fn only_a_run_that_sums_up_needs_a_newer_binary() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!({}))]);
    assert_eq!(trial.state.version, 1);
    let trial = Trial::summing(&json!({}));
    let heir: RunState = trial.state.clone().continued(crate::run::Heir {
        run_id: trial.state.run_id,
        budgets: trial.state.budgets.clone(),
        messages: 0,
        effects: 0,
        counts_from: 0,
    });
    assert_eq!((heir.version, heir.summing.task), (3, None));
}

#[test]
fn what_a_provider_told_corrects_the_next_estimate() {
    let mut trial = Trial::begun(&json!({}));
    let told = |input_tokens, estimated| ModelReply {
        usage: Some(Usage { input_tokens, output_tokens: 5, estimated, ..Usage::default() }),
        ..said("", &[("look", json!({}))])
    };
    let permille = |trial: &Trial| trial.state.correction.as_ref().map(|known| known.permille);
    trial.replies(&told(520, true));
    assert_eq!(permille(&trial), None, "an estimate says nothing of estimates");
    trial.works(0);
    trial.replies(&told(520, false));
    assert_eq!(permille(&trial), Some(2_000));
    trial.works(0);
    trial.model_fails(FailureKind::Unusable, 404);
    trial.replies(&told(10, false));
    let known = trial.state.correction.clone().expect("a correction");
    assert_eq!((known.provider.as_str(), known.permille), ("alt", 1_000), "another model begins anew");
}

/// An agent whose history outgrows its room by the third step.
fn narrow(max_tokens: u64) -> serde_json::Value {
    json!({"context": {"max_tokens": max_tokens, "overflow": "summarize"}})
}

/// A run of sixteen steps, each with a look, its contexts and summaries made as a shell makes them. The provider tells no
/// tokens, so that nothing is corrected.
fn looked_around(changes: &serde_json::Value) -> Trial {
    let mut trial = Trial::begun(changes);
    let untold =
        |text: &str, calls: &[(&str, serde_json::Value)]| ModelReply { usage: None, ..said(text, calls) };
    for n in 0..16 {
        while matches!(trial.state.phase, Phase::Boundary | Phase::Summary) {
            trial.later(10);
            if trial.state.phase == Phase::Summary {
                trial.sums_up(&untold("It looked.", &[]));
            } else {
                trial.must(trial.prepared());
            }
        }
        trial.later(10);
        trial.replies(&untold("", &[("look", json!({"n": n}))]));
        trial.works(0);
    }
    trial.must(trial.prepared());
    trial.says("done");
    trial
}

fn summaries(trial: &Trial) -> usize {
    trial.told(EventType::ContextSummarized).len()
}

#[test]
fn a_long_run_sums_up_again_and_again() {
    let trial = looked_around(&narrow(520));
    assert!(summaries(&trial) >= 2, "{}", summaries(&trial));
    let versions = trial.tables.messages.values().filter_map(|message| message.summary.as_ref());
    let versions: Vec<u32> = versions.map(|summary| summary.version).collect();
    assert!(versions.is_sorted() && versions[0] == 1, "{versions:?}");
    trial.check_journal();
}

#[test]
fn recorded_summaries_play_again() {
    let changes = narrow(520);
    let trial = looked_around(&changes);
    let same = run(&trial.recording(), crate::replay::Under::TheSame).expect("played");
    let kinds = |replayed: &crate::replay::Replayed| -> Vec<&'static str> {
        replayed.parts.iter().flat_map(|part| &part.events).map(crate::run::step::name).collect()
    };
    let recorded: Vec<_> = trial.journal.iter().map(crate::run::step::name).collect();
    assert_eq!(kinds(&same), recorded);
    let again = Recorded::of(&trial, &changes);
    assert_eq!(kinds(&again.replayed), recorded, "simulated, they come where they came");
    let (replay, difference) = again.under(&Other { agent: changes, ..Other::default() });
    assert_eq!(difference, None);
    assert_eq!(summaries(&replay), summaries(&trial));
    replay.check_journal();
}

#[test]
fn another_context_needs_fewer_summaries_or_more_than_there_are() {
    let changes = narrow(520);
    let recorded = Recorded::of(&looked_around(&changes), &changes);
    let (wide, difference) = recorded.under(&Other::default());
    assert_eq!((summaries(&wide), wide.end().0), (0, "final_answer"));
    assert!(difference.is_some_and(|difference| difference.field.contains("context")));
    let (narrower, _) = recorded.under(&Other { agent: narrow(480), ..Other::default() });
    assert_eq!(narrower.end().0, "final_answer");
    let failed = narrower.told(EventType::ContextSummaryFailed);
    assert_eq!(failed[0]["error"], "the recording has no more summaries");
    narrower.check_journal();
}
