//! People decide on calls, or don't.

use serde_json::json;

use crate::permission::Effect;
use crate::run::trial::{Trial, approved};
use crate::run::{CallVerdict, EventType, Status};
use crate::tool::{Attempt, ErrorCode, Output};

const ONE: &str = r#"{"n":1}"#;

fn asked() -> Trial {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("risky", json!({"n": 1}))]);
    assert_eq!(trial.state.status, Status::WaitingApproval);
    trial
}

#[test]
fn what_is_approved_runs() {
    let mut trial = asked();
    trial.later(5_000);
    trial.approve(0);
    trial.works(0);
    trial.says("done");
    assert_eq!(trial.end(), ("final_answer", "done".into()));
    assert_eq!(
        trial.tables.names(),
        [
            "run.started",
            "step.started",
            "context.built",
            "model.started",
            "model.completed",
            "permission.decided",
            "approval.requested",
            "run.waiting",
            "approval.decided",
            "run.resumed",
            "tool.started",
            "tool.completed",
            "checkpoint.saved",
            "step.started",
            "context.built",
            "model.started",
            "model.completed",
            "run.finished",
        ]
    );
    assert_eq!(trial.state.elapsed_ms(trial.now), 0, "waiting for people costs no time");
}

#[test]
fn what_a_person_edited_runs_and_the_model_is_told() {
    let mut trial = asked();
    let edited = Some((json!({"n": 7}), "key-7".into()));
    trial.must(trial.decided(0, approved(Effect::Allow, edited)));
    let entry = trial.tables.ledger.entries.values().next().expect("an entry");
    assert_eq!(
        (entry.row.input_hash.clone(), entry.row.idempotency_key.as_str()),
        (crate::json::input_hash(&json!({"n": 7})), "key-7")
    );
    trial.works(0);
    let told = &trial.tables.messages[&3].content;
    assert!(
        told.contains("changed the arguments") && told.contains(r#"{"n":7}"#) && told.ends_with("done 0"),
        "{told}"
    );
    let asked = &trial.tables.messages[&2].tool_calls[0];
    assert_eq!(asked.arguments, ONE, "the history keeps the model's call");
}

#[test]
fn the_same_again_is_denied_without_asking() {
    let mut trial = asked();
    trial.deny(0);
    assert_eq!(trial.result(0).0, "denied");
    assert_eq!(trial.tables.names()[8..], ["approval.decided", "run.resumed", "checkpoint.saved"]);
    let told = &trial.tables.messages[&3].content;
    assert!(
        told.contains(r#""status":"denied""#) && told.contains(r#""error_code":"PERMISSION_DENIED""#),
        "{told}"
    );
    trial.calls(&[("risky", json!({"n": 1})), ("risky", json!({"n": 2}))]);
    assert_eq!(trial.stages(), ["denied", "asked"]);
    let decision = &trial.tables.calls[&trial.call(0)].decisions[0];
    assert_eq!((decision.effect, decision.rule, decision.by.as_str()), (Effect::Deny, None, "policy"));
    assert_eq!(trial.tables.approvals.all.len(), 2);
    assert_eq!(trial.state.denied[0].decided_by, "user:ann");
}

#[test]
fn a_person_answers_instead_of_the_tool() {
    let mut trial = asked();
    trial.must(trial.decided(0, CallVerdict::Answered(Output::plain("receipt 12"))));
    assert_eq!(trial.result(0), ("succeeded", None, "receipt 12".into()));
    assert!(trial.tables.ledger.entries.is_empty() && trial.state.denied.is_empty());
    assert_eq!(
        (trial.told(EventType::ToolStarted).len(), trial.told(EventType::ToolCompleted).len()),
        (0, 1)
    );
}

#[test]
fn nobody_decides() {
    for (on_expiry, reason) in [("deny", None), ("stop", Some("approval_expired"))] {
        let rule = json!({"tool": "pay", "effect": "ask", "expires_ms": 2000, "on_expiry": on_expiry});
        let mut trial = Trial::begun(&json!({"policy": {"rules": [rule]}}));
        trial.calls(&[("pay", json!({"n": 1}))]);
        let began = trial.now;
        trial.runs_out();
        assert_eq!(trial.now - began, 2000);
        assert_eq!((trial.result(0).0, trial.state.denied[0].decided_by.as_str()), ("denied", "expiry"));
        assert_eq!(trial.told(EventType::ApprovalDecided)[0]["status"], "expired");
        assert_eq!(trial.state.end.as_ref().map(|end| end.reason.as_str()), reason);
    }
}

#[test]
fn nothing_is_sent_again_when_an_expiry_ends_the_run() {
    let rule = json!({"tool": "risky", "effect": "ask", "expires_ms": 2000, "on_expiry": "stop"});
    let mut trial = Trial::begun(&json!({"policy": {"rules": [rule]}}));
    trial.calls(&[("note", json!({})), ("risky", json!({}))]);
    trial.attempt(0, Attempt::NotDone(ErrorCode::RateLimited, "busy".into(), Some(2000)));
    trial.runs_out();
    assert_eq!((trial.end().0, trial.entry(0)), ("approval_expired", ("failed", "none", 1)));
}

#[test]
fn policy_says_no_by_now() {
    let mut trial = asked();
    trial.must(trial.decided(0, approved(Effect::Deny, None)));
    assert_eq!((trial.result(0).0, trial.state.denied[0].reason.as_str()), ("denied", "judged again"));
    assert!(trial.tables.ledger.entries.is_empty());
    // `ask` again is what was approved.
    let mut trial = asked();
    trial.must(trial.decided(0, approved(Effect::Ask, None)));
    assert_eq!(trial.stages(), ["out"]);
}

#[test]
fn denials_can_end_the_run() {
    let deny = json!({"tool": "pay", "effect": "deny", "reason": "closed today"});
    let mut trial = Trial::begun(&json!({"policy": {"rules": [deny], "on_deny": "stop"}}));
    trial.calls(&[("pay", json!({"n": 1})), ("risky", json!({"n": 1})), ("look", json!({}))]);
    assert_eq!(trial.end(), ("permission_denied", "permission_denied".into()));
    assert_eq!(trial.stages(), ["denied", "cancelled", "cancelled"]);
    assert!(trial.tables.approvals.all.is_empty(), "nobody is asked any more");

    let mut trial = Trial::begun(&json!({"policy": {"rules": [deny], "max_denials": 2}}));
    trial.calls(&[("pay", json!({"n": 1}))]);
    trial.calls(&[("pay", json!({"n": 2}))]);
    assert_eq!(trial.end().0, "permission_denied");
    assert_eq!((trial.state.step, trial.tables.checkpoints.len()), (2, 2));
}

#[test]
fn a_waiting_call_holds_back_only_those_that_keep_order() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!({})), ("risky", json!({})), ("poll", json!({})), ("mail", json!({}))]);
    assert_eq!(trial.stages(), ["out", "asked", "out", "ready"]);
    assert_eq!(trial.state.status, Status::Running);
    trial.works(2);
    trial.works(0);
    assert_eq!(
        (trial.stages(), trial.state.status),
        (vec!["succeeded", "asked", "succeeded", "ready"], Status::WaitingApproval)
    );
    trial.approve(1);
    assert_eq!(trial.stages()[1..], ["out", "succeeded", "ready"]);
    trial.works(1);
    trial.works(3);
    assert_eq!(trial.state.step, 1);
    assert!(!trial.state.is_step_open());
}

#[test]
fn each_of_several_is_decided_on_its_own() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("risky", json!({"n": 1})), ("risky", json!({"n": 2})), ("ask_user", json!({}))]);
    trial.approve(1);
    assert_eq!(
        (trial.stages(), trial.state.status),
        (vec!["asked", "ready", "ready"], Status::WaitingApproval)
    );
    trial.deny(0);
    assert_eq!(trial.stages(), ["denied", "out", "ready"]);
    trial.works(1);
    assert_eq!((trial.stages()[2], trial.state.status), ("parked", Status::WaitingTool));
}
