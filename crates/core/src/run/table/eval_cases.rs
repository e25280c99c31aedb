//! A run as an eval case.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::eval_case::{Source, eval_case};
use crate::model::FailureKind;
use crate::permission::Effect;
use crate::run::trial::{MAX_RECOVERIES, Trial, approved, refused, unclear};
use crate::run::{CallVerdict, Event, SubmittedStatus};
use crate::tool::{Output, Reconciled, ResultStatus};

fn case(trial: &Trial) -> Value {
    let recording = trial.recording();
    let agent = serde_json::to_value(&recording.registry.spec).expect("JSON");
    eval_case(&Source {
        registry: recording.registry,
        agent: &agent,
        context: &json!({"user": "u-1"}),
        policy: None,
        max_recoveries: MAX_RECOVERIES,
        first: recording.first,
        inputs: recording.inputs,
        hashes: &BTreeMap::new(),
        journal: recording.journal,
    })
}

/// What `part` of the case holds of these fields, in order.
fn fields(case: &Value, part: &str, names: &[&str]) -> Vec<Vec<Value>> {
    let rows = case[part].as_array().expect("a list").iter();
    rows.map(|row| names.iter().map(|name| row[*name].clone()).collect()).collect()
}

fn rows(rows: &[Value]) -> Vec<Vec<Value>> {
    rows.iter().map(|row| row.as_array().expect("a row").clone()).collect()
}

#[test]
fn summaries_stand_where_they_were_asked_for() {
    let mut trial = Trial::summing(&json!({}));
    trial.summary_fails(FailureKind::Passing, 503);
    trial.fire();
    trial.sums_up(&crate::run::trial::said("It went well.", &[]));
    trial.says("Done.");
    let told = fields(&case(&trial), "model", &["step", "attempt", "purpose", "text"]);
    let (summary, none) = (json!("summary"), Value::Null);
    assert_eq!(
        told,
        rows(&[
            json!([1, 1, summary, none]),
            json!([1, 2, summary, "It went well."]),
            json!([1, 1, none, "Done."]),
        ])
    );
}

#[test]
fn what_models_tools_and_people_said_is_in_it() {
    let mut trial = Trial::begun(&json!({}));
    trial.model_fails(FailureKind::Passing, 503);
    trial.later(400);
    trial.fire();
    trial.calls(&[("look", json!({"n": 1})), ("risky", json!({"n": 2})), ("nothing", json!({}))]);
    trial.attempt(0, unclear());
    trial.later(100);
    trial.fire();
    trial.works(0);
    let edited = Some((json!({"n": 7}), "key-7".into()));
    trial.must(trial.decided(1, approved(Effect::Allow, edited)));
    trial.attempt(1, refused());
    trial.steer();
    trial.calls(&[("gate", json!({"n": 3})), ("risky", json!({"n": 4})), ("ask_user", json!({"n": 5}))]);
    trial.must(trial.decided(0, CallVerdict::Answered(Output::plain("by hand"))));
    trial.deny(1);
    trial.must(trial.submitted(2, SubmittedStatus::Failed));
    trial.says("Done.");
    let case = case(&trial);
    assert_eq!(case["input"], json!([{"role": "user", "content": "go"}]));
    assert_eq!((&case["context"], &case["budgets"]["max_steps"]), (&json!({"user": "u-1"}), &json!(20)));
    assert_eq!(
        fields(&case, "model", &["step", "attempt", "provider", "kind", "text", "finish_reason"]),
        rows(&[
            json!([1, 1, "main", null, null, null]),
            json!([1, 2, "main", "calls", "", "stop"]),
            json!([2, 1, "main", "calls", "", "stop"]),
            json!([3, 1, "main", "final", "Done.", "stop"]),
        ])
    );
    assert_eq!(case["model"][0]["error"], json!({"kind": "passing", "status": 503, "message": "no"}));
    let calls = &case["model"][1]["tool_calls"];
    assert_eq!(
        (&calls[0]["name"], &calls[0]["arguments"], &calls[0]["validation"]),
        (&json!("look"), &json!({"n": 1}), &Value::Null)
    );
    assert_eq!(calls[2]["validation"], "unknown_tool");
    assert_eq!(
        fields(
            &case,
            "tools",
            &["step", "tool_name", "input", "attempt", "outcome", "content", "error_code", "at_ms"]
        ),
        rows(&[
            json!([1, "look", {"n": 1}, 1, "unclear", "late", "TIMEOUT", 400]),
            json!([1, "look", {"n": 1}, 2, "succeeded", "done 0", null, 500]),
            json!([1, "risky", {"n": 7}, 1, "refused", "no", "CONFLICT", 500]),
            json!([2, "gate", {"n": 3}, 1, "answered", "by hand", null, 500]),
            json!([2, "ask_user", {"n": 5}, 1, "submitted", "size M", "INTERNAL", 500]),
        ])
    );
    assert_eq!(case["tools"][0]["tool_call_id"], calls[0]["id"]);
    assert_eq!(case["tools"][2]["input_hash"], crate::json::input_hash(&json!({"n": 7})));
    assert_eq!(
        fields(
            &case,
            "decisions",
            &["step", "tool_name", "effect", "rule", "by", "decision", "input", "content"]
        ),
        rows(&[
            json!([1, "look", "allow", null, "policy", null, null, null]),
            json!([1, "risky", "ask", null, "user:ann", "approve", {"n": 7}, null]),
            json!([2, "gate", "ask", null, "user:ann", "answer", null, "by hand"]),
            json!([2, "risky", "ask", null, "user:ann", "deny", null, null]),
            json!([2, "ask_user", "allow", null, "policy", null, null, null]),
        ])
    );
    assert_eq!(case["steers"], json!([{"step": 2, "content": "be brief", "at_ms": 500}]));
}

#[test]
fn what_was_asked_of_the_far_side_is_an_answer_of_the_tool_that_was_asked() {
    for (state, answer) in [
        (Reconciled::Applied, json!({"state": "applied", "result": "found"})),
        (Reconciled::NotApplied, json!({"state": "not_applied"})),
        (Reconciled::Unknown, json!({"state": "unknown"})),
    ] {
        let mut trial = Trial::begun(&json!({}));
        trial.calls(&[("ship", json!({"n": 1}))]);
        for _ in 0..3 {
            trial.attempt(0, unclear());
            if crate::run::next_due(&trial.state).is_some() && trial.stages() == ["backoff"] {
                trial.fire();
            }
        }
        let key = trial.state.calls[0].idempotency_key.clone();
        trial.reconciles(0, state);
        let case = case(&trial);
        let told = &case["tools"][3];
        assert_eq!((&told["tool_name"], &told["input"]), (&json!("find"), &json!({"key": key})));
        let content: Value = serde_json::from_str(told["content"].as_str().expect("text")).expect("JSON");
        assert_eq!(content, answer);
    }
}

#[test]
fn what_the_ledger_answered_was_no_attempt() {
    for (status, outcome) in [
        (ResultStatus::Succeeded, "succeeded"),
        (ResultStatus::Failed, "refused"),
        (ResultStatus::Uncertain, "unclear"),
    ] {
        let mut trial = Trial::begun(&json!({"tools": {"order": {"on_uncertain": "observe"}}}));
        trial.calls(&[("order", json!({"n": 1}))]);
        trial.must(trial.key_taken(0, true, status));
        let told = case(&trial);
        assert_eq!(
            fields(&told, "tools", &["attempt", "outcome", "content"]),
            rows(&[json!([0, outcome, "of before"])])
        );
    }
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("order", json!({"n": 1}))]);
    trial.must(trial.key_taken(0, false, ResultStatus::Succeeded));
    assert_eq!(case(&trial)["tools"], json!([]), "the conflict is the runtime's own word");
}

#[test]
fn a_run_that_has_not_begun_has_a_case_too() {
    let trial = Trial::new(&json!({}));
    let told = case(&trial);
    for part in ["model", "tools", "decisions", "steers"] {
        assert_eq!(told[part], json!([]), "{part}");
    }
    let late = Event::CancelRequested { at: trial.now, reason: None };
    let mut trial = trial;
    trial.must(late);
    assert_eq!(case(&trial)["agent"]["name"], "trial");
}
