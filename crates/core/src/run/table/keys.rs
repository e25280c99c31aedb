//! Business keys, and calls that the caller of the API answers.

use serde_json::json;

use crate::run::trial::Trial;
use crate::run::{Command, Event, EventType, Status, SubmittedStatus, outstanding};
use crate::tool::ResultStatus;

fn ordered() -> Trial {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("order", json!({"n": 1}))]);
    assert_eq!(outstanding(&trial.state), [Command::ClaimKey { call: trial.call(0) }]);
    trial
}

#[test]
fn a_free_key_is_taken() {
    let mut trial = ordered();
    trial.must(Event::KeyFree { at: trial.now, call: trial.call(0) });
    let entry = trial.tables.ledger.entries.values().next().expect("an entry");
    assert_eq!((entry.row.idempotency_key.as_str(), entry.row.business_key), ("order:1", true));
    trial.works(0);
    assert_eq!(trial.entry(0), ("succeeded", "committed", 1));
}

#[test]
fn a_later_call_takes_the_outcome_of_the_first() {
    for (same_input, status, got) in [
        (true, ResultStatus::Succeeded, ("succeeded", None)),
        (true, ResultStatus::Failed, ("failed", None)),
        (false, ResultStatus::Succeeded, ("failed", Some("CONFLICT"))),
        (true, ResultStatus::Uncertain, ("uncertain", Some("SIDE_EFFECT_UNCERTAIN"))),
    ] {
        let mut trial = ordered();
        trial.must(trial.key_taken(0, same_input, status));
        let (status, code, _) = trial.result(0);
        assert_eq!((status, code), got);
        assert!(trial.tables.ledger.entries.is_empty() && trial.told(EventType::ToolStarted).is_empty());
        let ledger_id =
            trial.tables.calls[&trial.call(0)].result.as_ref().and_then(|(_, ledger_id)| *ledger_id);
        assert_eq!((ledger_id.is_some(), trial.state.used.tool_calls), (same_input, 0));
        assert_eq!(trial.state.is_ended(), got.0 == "uncertain");
    }
}

#[test]
fn the_caller_answers() {
    for (status, stage, entry) in [
        (SubmittedStatus::Succeeded, "succeeded", ("succeeded", "none", 1)),
        (SubmittedStatus::Failed, "failed", ("failed", "none", 1)),
    ] {
        let mut trial = Trial::begun(&json!({}));
        trial.calls(&[("ask_user", json!({}))]);
        assert_eq!((trial.state.status, trial.entry(0).0), (Status::WaitingTool, "started"));
        trial.must(trial.submitted(0, status));
        assert_eq!((trial.stages()[0], trial.entry(0)), (stage, entry));
        assert!(trial.happens(trial.submitted(0, status)).is_err(), "once");
    }
}

#[test]
fn the_caller_gives_no_answer() {
    for (tool, code, entry) in [
        ("ask_user", Some("TIMEOUT"), ("failed", "none", 1)),
        ("stamp", Some("SIDE_EFFECT_UNCERTAIN"), ("uncertain", "possible", 1)),
    ] {
        let mut trial = Trial::begun(&json!({}));
        trial.calls(&[(tool, json!({}))]);
        trial.fire();
        assert_eq!((trial.result(0).1, trial.entry(0)), (code, entry));
    }
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("sign", json!({}))]);
    trial.fire();
    let told: Vec<_> =
        trial.told(EventType::RunWaiting).into_iter().map(|data| data["for"].as_str()).collect();
    assert_eq!((told, trial.state.status), (vec![Some("tool"), Some("approval")], Status::WaitingApproval));
}

#[test]
fn an_approval_and_a_client_call_are_both_open() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("gate", json!({})), ("sign", json!({}))]);
    assert_eq!((trial.stages(), trial.state.status), (vec!["asked", "parked"], Status::WaitingApproval));
    trial.deny(0);
    assert_eq!(trial.state.status, Status::WaitingTool);
}
