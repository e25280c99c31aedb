//! The server dies, wherever the run stands; another goes on from what is stored.

use serde_json::json;

use super::samples;
use crate::run::trial::{Trial, unclear};
use crate::run::{Command, Event, Phase, outstanding};
use crate::tool::Reconciled;

#[test]
fn in_every_place() {
    for (place, stage) in [
        ("asked", "asked"),
        ("ready", "ready"),
        ("key", "key"),
        ("backoff", "backoff"),
        ("parked", "parked"),
        ("reconciling", "reconciling"),
        ("asked_uncertain", "asked uncertain"),
        ("done", "succeeded"),
        ("out", "uncertain"),
        ("ending", "uncertain"),
    ] {
        let (mut trial, index) = samples::at(place);
        let before = outstanding(&trial.state);
        trial.dies();
        assert_eq!(trial.stages()[index], stage, "{place}");
        if !matches!(place, "out" | "ending" | "done") {
            assert_eq!(outstanding(&trial.state), before, "{place}: the same is to be done");
        }
    }
    for place in ["queued", "boundary", "rebuild", "model", "retry", "budget"] {
        let (mut trial, _) = samples::at(place);
        let (before, phase) = (outstanding(&trial.state), trial.state.phase);
        assert!(trial.dies().is_empty(), "{place}");
        assert_eq!((outstanding(&trial.state), trial.state.phase), (before, phase));
        assert_eq!(trial.state.attempt(), 2);
    }
}

#[test]
fn what_was_out_is_sent_again_only_where_that_is_safe() {
    for (tool, stage) in [
        ("look", "out"),
        ("peek", "failed"),
        ("charge", "out"),
        ("refund", "reconciling"),
        ("pay", "uncertain"),
        ("mail", "uncertain"),
    ] {
        let mut trial = Trial::begun(&json!({}));
        trial.calls(&[(tool, json!({"n": 1})), ("gate", json!({}))]);
        trial.dies();
        assert_eq!(trial.stages()[0], stage, "{tool}");
        if stage == "out" {
            assert!(
                outstanding(&trial.state).contains(&Command::RunTool { call: trial.call(0), attempt: 2 })
            );
        }
    }
    // An attempt that may have happened can't become clear by a second one's refusal.
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("charge", json!({}))]);
    trial.dies();
    trial.attempt(0, crate::run::trial::refused());
    assert_eq!(trial.entry(0), ("uncertain", "possible", 2));
    // The far side's word does.
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("refund", json!({}))]);
    trial.dies();
    trial.reconciles(0, Reconciled::NotApplied);
    trial.works(0);
    assert_eq!(trial.entry(0), ("succeeded", "committed", 2));
}

#[test]
fn too_many_deaths_in_one_step() {
    for (tool, entry) in [("look", ("failed", "none", 3)), ("refund", ("uncertain", "possible", 1))] {
        let mut trial = Trial::begun(&json!({"tools": {"look": {"retry": {"max_attempts": 50}}}}));
        trial.calls(&[(tool, json!({}))]);
        for _ in 0..2 {
            trial.dies();
            assert!(!trial.state.is_ended());
        }
        trial.dies();
        assert_eq!((trial.end().0, trial.entry(0)), ("crash_loop", entry));
    }
    // Also where it only waits for a write before it ends.
    let mut trial = Trial::begun(&json!({"budgets": {"timeout_ms": 1200}}));
    trial.calls(&[("refund", json!({}))]);
    trial.fire();
    for _ in 0..3 {
        trial.dies();
    }
    assert_eq!((trial.end().0, trial.entry(0)), ("timeout", ("uncertain", "possible", 1)));
    // A new step begins anew.
    let mut trial = Trial::begun(&json!({}));
    for n in 0..3 {
        trial.calls(&[("look", json!({"n": n}))]);
        trial.dies();
        trial.dies();
        trial.works(0);
    }
    assert_eq!((trial.state.phase, trial.state.attempt()), (Phase::Boundary, 7));
}

#[test]
fn what_waited_for_its_turn_is_still_to_be_sent() {
    for tool in ["look", "peek", "charge", "refund", "pay", "mail"] {
        let mut trial = Trial::begun(&json!({}));
        trial.calls(&[(tool, json!({"n": 1})), ("gate", json!({}))]);
        let before = outstanding(&trial.state);
        assert_eq!(before, [Command::RunTool { call: trial.call(0), attempt: 1 }], "{tool}");
        trial.dies_with(vec![trial.call(0)]);
        assert_eq!((trial.stages()[0], outstanding(&trial.state)), ("out", before), "{tool}");
    }
    // Unless nothing is sent any more.
    let mut trial = Trial::begun(&json!({"budgets": {"timeout_ms": 1200}}));
    trial.calls(&[("mail", json!({}))]);
    trial.fire();
    trial.dies_with(vec![trial.call(0)]);
    assert_eq!((trial.end().0, trial.entry(0)), ("timeout", ("failed", "none", 1)));
    // A row of servers that die while it waits is a row of deaths all the same.
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("mail", json!({}))]);
    while trial.state.phase == Phase::Tools {
        trial.dies_with(vec![trial.call(0)]);
    }
    assert_eq!((trial.end().0, trial.entry(0)), ("crash_loop", ("failed", "none", 1)));
}

#[test]
fn a_run_that_is_handed_back_loses_nothing() {
    let mut trial = Trial::begun(&json!({}));
    trial.build();
    trial.must(Event::Recovered { at: trial.now, deaths: 0, unsent: Vec::new() });
    assert_eq!((trial.state.attempt(), trial.state.phase), (1, Phase::Model));
}

#[test]
fn a_write_that_is_waited_for_is_asked_for_after_a_death() {
    let mut trial = Trial::begun(&json!({"budgets": {"timeout_ms": 1200}}));
    trial.calls(&[("refund", json!({}))]);
    trial.fire();
    trial.dies();
    assert_eq!(outstanding(&trial.state), [Command::Reconcile { call: trial.call(0) }]);
    trial.reconciles(0, Reconciled::Applied);
    assert_eq!((trial.end().0, trial.entry(0)), ("timeout", ("succeeded", "committed", 1)));
    let mut trial = Trial::begun(&json!({"budgets": {"timeout_ms": 1200}}));
    trial.calls(&[("charge", json!({}))]);
    trial.fire();
    trial.attempt(0, unclear());
    assert_eq!((trial.end().0, trial.entry(0)), ("timeout", ("uncertain", "possible", 1)));
}
