//! Writes that may have happened.

use serde_json::json;

use crate::run::trial::{Trial, not_done, refused, unclear};
use crate::run::{Command, EventType, Status, outstanding};
use crate::tool::{Attempt, ErrorCode, Reconciled};

fn called(tool: &str) -> Trial {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[(tool, json!({"n": 1}))]);
    trial
}

#[test]
fn stop_ends_the_run() {
    let mut trial = called("pay");
    trial.attempt(0, unclear());
    assert_eq!(trial.end(), ("side_effect_uncertain", "side_effect_uncertain".into()));
    assert_eq!(trial.entry(0), ("uncertain", "possible", 1));
    assert_eq!(trial.result(0).1, Some("SIDE_EFFECT_UNCERTAIN"));
}

#[test]
fn observe_tells_the_model_and_refuses_the_same_again() {
    let mut trial = called("mail");
    trial.attempt(0, unclear());
    assert!(trial.tables.messages[&3].content.contains("SIDE_EFFECT_UNCERTAIN"));
    trial.calls(&[("mail", json!({"n": 1})), ("mail", json!({"n": 2}))]);
    assert_eq!(trial.stages(), ["rejected", "out"]);
    assert_eq!(trial.result(0).1, Some("SIDE_EFFECT_UNCERTAIN"));
}

#[test]
fn a_twin_in_the_same_reply_is_refused_too() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("mail", json!({"n": 1})), ("mail", json!({"n": 1})), ("mail", json!({"n": 2}))]);
    trial.attempt(0, unclear());
    assert_eq!(trial.stages(), ["uncertain", "rejected", "out"]);
    // Where both were out already, the other isn't sent once more.
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("note", json!({"n": 1})), ("note", json!({"n": 1}))]);
    trial.attempt(1, not_done());
    trial.attempt(0, unclear());
    trial.fire();
    assert_eq!(trial.stages(), ["uncertain", "failed"]);
    assert_eq!(trial.entry(1), ("failed", "none", 1));
}

#[test]
fn a_person_says_what_became_of_it() {
    for (applied, stage, status, told) in
        [(true, "succeeded", "succeeded", "was done"), (false, "failed", "failed", "not done")]
    {
        let mut trial = called("gate");
        trial.approve(0);
        trial.attempt(0, unclear());
        assert_eq!((trial.stages(), trial.state.status), (vec!["asked uncertain"], Status::WaitingApproval));
        let asked = trial.tables.pending()[0];
        assert_eq!((asked.kind.as_str(), asked.required), ("uncertain_effect", 1));
        trial.must(trial.settled(0, applied));
        assert_eq!((trial.stages()[0], trial.entry(0).0), (stage, status));
        assert!(trial.result(0).2.contains(told));
        assert!(outstanding(&trial.state).contains(&Command::BuildContext), "nothing is sent again");
    }
}

#[test]
fn nobody_can_tell_in_time() {
    let mut trial = called("gate");
    trial.approve(0);
    trial.attempt(0, unclear());
    trial.runs_out();
    assert_eq!((trial.end().0, trial.stages()[0]), ("side_effect_uncertain", "uncertain"));
}

#[test]
fn the_far_side_is_asked() {
    // It happened.
    let mut trial = called("refund");
    trial.attempt(0, unclear());
    let call = trial.call(0);
    assert_eq!(outstanding(&trial.state), [Command::Reconcile { call }]);
    trial.reconciles(0, Reconciled::Applied);
    assert_eq!((trial.entry(0), trial.result(0).2.as_str()), (("succeeded", "committed", 1), "found"));
    assert_eq!(trial.told(EventType::ToolReconciled)[0]["state"], "applied");
    // It didn't: the same key is sent again, as long as there are attempts.
    let mut trial = called("refund");
    for attempt in 2..=3 {
        trial.attempt(0, unclear());
        trial.reconciles(0, Reconciled::NotApplied);
        assert_eq!(outstanding(&trial.state), [Command::RunTool { call: trial.call(0), attempt }]);
    }
    trial.attempt(0, unclear());
    trial.reconciles(0, Reconciled::NotApplied);
    assert_eq!((trial.stages()[0], trial.entry(0)), ("failed", ("failed", "none", 3)));
    // It can't tell.
    let mut trial = called("refund");
    trial.attempt(0, unclear());
    trial.reconciles(0, Reconciled::Unknown);
    assert_eq!((trial.stages()[0], trial.state.status), ("asked uncertain", Status::WaitingApproval));
}

#[test]
fn a_far_side_that_dedupes_is_asked_again_with_the_same_key() {
    let mut trial = called("charge");
    trial.attempt(0, unclear());
    assert_eq!(trial.stages(), ["backoff"]);
    trial.fire();
    trial.attempt(0, refused());
    assert_eq!(trial.entry(0), ("uncertain", "possible", 2), "one attempt may have happened");
    let mut trial = called("charge");
    trial.attempt(0, unclear());
    trial.fire();
    trial.works(0);
    assert_eq!(trial.entry(0), ("succeeded", "committed", 2));
    let mut trial = Trial::begun(&json!({"tools": {"charge": {"retry": {"max_attempts": 4}}}}));
    trial.calls(&[("charge", json!({}))]);
    for outcome in [unclear(), not_done(), not_done()] {
        trial.attempt(0, outcome);
        trial.fire();
    }
    trial.attempt(0, refused());
    assert_eq!(trial.entry(0), ("uncertain", "possible", 4), "it isn't forgotten");
}

#[test]
fn what_was_clearly_not_done_is_sent_again() {
    let mut trial = called("pay");
    trial.attempt(0, Attempt::NotDone(ErrorCode::RateLimited, "busy".into(), Some(2_000)));
    let began = trial.now;
    trial.fire();
    assert_eq!((trial.now - began, trial.entry(0)), (2_000, ("started", "none", 2)));
    trial.attempt(0, not_done());
    trial.fire();
    trial.attempt(0, not_done());
    assert_eq!((trial.entry(0), trial.result(0).1), (("failed", "none", 3), Some("RATE_LIMITED")));
    assert_eq!(trial.told(EventType::ToolCompleted)[0]["attempt"], 3);
    assert_eq!(trial.told(EventType::ToolStarted).len(), 1);
}
