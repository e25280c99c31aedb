//! Cancels, and the ends that nothing else shows.

use serde_json::json;

use super::samples;
use crate::model::{Finish, ModelReply};
use crate::run::trial::{Trial, said, unclear};
use crate::run::{Event, EventType, StopReason};

#[test]
fn a_cancel_ends_the_run_at_once_wherever_it_stands() {
    for (place, stage, entry) in [
        ("asked", "cancelled", None),
        ("ready", "cancelled", None),
        ("key", "cancelled", None),
        // A write that is out: its outcome comes late, to the ledger alone.
        ("out", "cancelled", Some(("started", "none", 1))),
        ("ending", "cancelled", Some(("started", "none", 1))),
        ("backoff", "cancelled", Some(("failed", "none", 1))),
        ("parked", "cancelled", Some(("failed", "none", 1))),
        ("reconciling", "cancelled", Some(("uncertain", "possible", 1))),
        ("asked_uncertain", "uncertain", Some(("uncertain", "possible", 1))),
        ("done", "succeeded", Some(("succeeded", "none", 1))),
    ] {
        let (mut trial, index) = samples::at(place);
        trial.cancel();
        assert_eq!((trial.end(), trial.stages()[index]), (("cancelled", String::new()), stage), "{place}");
        match entry {
            Some(entry) => assert_eq!(trial.entry(index), entry, "{place}"),
            None => assert!(!trial.tables.ledger.entries.contains_key(&trial.state.calls[index].ledger_id())),
        }
    }
    for place in ["queued", "boundary", "rebuild", "model", "retry", "budget"] {
        let (mut trial, _) = samples::at(place);
        trial.cancel();
        assert_eq!((trial.end().0, trial.told(EventType::RunCancelled).len()), ("cancelled", 1), "{place}");
    }
}

#[test]
fn a_read_that_is_out_is_given_up_at_a_cancel() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!({})), ("charge", json!({}))]);
    trial.cancel();
    assert_eq!((trial.entry(0), trial.stages()), (("failed", "none", 1), vec!["cancelled", "cancelled"]));
    // A write whose first attempt is unclear stays so.
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("charge", json!({}))]);
    trial.attempt(0, unclear());
    trial.cancel();
    assert_eq!((trial.entry(0), trial.stages()), (("uncertain", "possible", 1), vec!["cancelled"]));
}

#[test]
fn the_runtime_itself_can_not_go_on() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("pay", json!({}))]);
    trial.must(Event::Broken {
        at: trial.now,
        code: "agent_unreadable".into(),
        detail: "it can't be read".into(),
    });
    assert!(!trial.state.is_ended(), "the write is waited for");
    trial.works(0);
    assert_eq!(trial.end(), ("internal_error", "agent_unreadable".into()));
}

#[test]
fn a_context_that_can_not_be_built() {
    let mut trial = Trial::begun(&json!({}));
    trial.must(Event::ContextOverflowed { at: trial.now, tokens: 9, max_tokens: 5 });
    assert_eq!(trial.end(), ("context_overflow", "context_overflow".into()));
}

#[test]
fn a_refusal() {
    let mut trial = Trial::begun(&json!({}));
    trial.replies(&ModelReply { finish: Finish::Refusal, ..said("no recipe", &[("pay", json!({}))]) });
    assert_eq!((trial.end().0, trial.state.calls.len()), ("model_refusal", 0));
    let answer = trial.tables.ended.clone().and_then(|(answer, _)| answer).expect("a sentence");
    assert!(!answer.contains("recipe"), "the answer is the runtime's, never the model's");
}

#[test]
fn a_queued_run_has_its_time_too() {
    let mut trial = Trial::new(&json!({"budgets": {"timeout_ms": 1000}}));
    trial.fire();
    assert_eq!((trial.end().0, trial.tables.names()), ("timeout", vec!["run.failed"]));
}

#[test]
fn reasons_and_statuses() {
    for (reason, status) in [
        (StopReason::FinalAnswer, "finished"),
        (StopReason::Cancelled, "cancelled"),
        (StopReason::ToolsUnavailable, "failed"),
        (StopReason::Timeout, "failed"),
    ] {
        assert_eq!(reason.status().as_str(), status);
        assert_eq!(serde_json::to_value(reason).expect("JSON"), reason.as_str());
    }
}
