//! Several calls in one reply, calls that are none, and calls that go round in circles.

use serde_json::json;

use crate::reply::MAX_CALLS;
use crate::run::EventType;
use crate::run::trial::{Trial, refused, said, unclear};

#[test]
fn results_stand_in_call_order_whatever_came_first() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!({"n": 1})), ("poll", json!({})), ("look", json!({"n": 2}))]);
    for index in [2, 0, 1] {
        trial.works(index);
    }
    let told: Vec<_> =
        trial.tables.messages.values().skip(2).map(|message| message.content.as_str()).collect();
    assert_eq!(told, ["done 0", "done 1", "done 2"]);
    trial.steer();
    trial.build();
}

#[test]
fn the_others_run_one_after_another() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("pay", json!({})), ("mail", json!({})), ("look", json!({}))]);
    assert_eq!(trial.stages(), ["out", "ready", "ready"]);
    trial.works(0);
    assert_eq!(trial.stages(), ["succeeded", "out", "ready"]);
    trial.works(1);
    assert_eq!(trial.stages()[2], "out");
    // At most sixteen at once.
    let calls: Vec<_> = (0..20).map(|n| ("look", json!({"n": n}))).collect();
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&calls);
    assert_eq!(trial.stages().iter().filter(|stage| **stage == "out").count(), 16);
    trial.works(3);
    assert_eq!(trial.stages()[16], "out");
}

#[test]
fn what_is_no_legal_call_is_told_and_not_run() {
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[
        ("no such tool!", json!({"n": 1})),
        ("pay", json!("{\"n\": ")),
        ("pay", json!("[1]")),
        ("pay", json!({"n": "one"})),
        ("look", json!("")),
    ]);
    assert_eq!(trial.stages(), ["rejected", "rejected", "rejected", "rejected", "out"]);
    let codes: Vec<_> = (0..4).map(|index| trial.result(index).1).collect();
    let no_such_tool = crate::reply::legal_name("no such tool!");
    let bad = Some("INVALID_ARGUMENTS");
    assert_eq!(codes, [Some("NOT_FOUND"), bad, bad, bad]);
    let calls: Vec<_> = trial.tables.messages[&2]
        .tool_calls
        .iter()
        .map(|call| (call.name.as_str(), call.arguments.as_str()))
        .collect();
    assert_eq!(
        calls,
        [
            (no_such_tool.as_str(), r#"{"n":1}"#),
            ("pay", "{}"),
            ("pay", "{}"),
            ("pay", r#"{"n":"one"}"#),
            ("look", "{}")
        ]
    );
    assert_eq!(trial.told(EventType::PermissionDecided).len(), 1);
}

#[test]
fn digits_survive_the_journal() {
    let input = r#"{"m":1.50,"n":12345678901234567890}"#;
    let mut trial = Trial::begun(&json!({}));
    trial.calls(&[("look", json!(input))]);
    assert_eq!(trial.tables.messages[&2].tool_calls[0].arguments, input);
    assert_eq!(trial.tables.calls[&trial.call(0)].row.input.to_string(), input);
    trial.check_journal();
}

#[test]
fn more_calls_than_a_provider_takes_back() {
    let calls: Vec<_> = (0..200).map(|n| ("look", json!({"n": n}))).collect();
    let mut trial = Trial::begun(&json!({"budgets": {"max_tool_calls": 400}}));
    trial.replies(&said("", &calls));
    assert_eq!(trial.tables.messages[&2].tool_calls.len(), MAX_CALLS);
    for index in 0..MAX_CALLS {
        trial.works(index);
    }
    assert_eq!((trial.state.used.tool_calls, trial.result(199).1), (128, Some("BUDGET_EXHAUSTED")));
    trial.says("seen");
    assert_eq!(trial.end().0, "final_answer");
}

#[test]
fn the_same_call_again_and_again() {
    let guard = json!({"loop_guard": {"max_repeated_calls": 3, "max_repeated_errors": 3}});
    let mut trial = Trial::begun(&guard);
    for _ in 0..3 {
        trial.calls(&[("look", json!({}))]);
        trial.works(0);
    }
    assert_eq!((trial.end().0, trial.state.step), ("repeated_tool_call", 3));
    // `repeat: allow` may.
    let mut trial = Trial::begun(&guard);
    for _ in 0..5 {
        trial.calls(&[("poll", json!({}))]);
        trial.works(0);
    }
    assert!(!trial.state.is_ended());
}

#[test]
fn the_same_error_again_and_again() {
    let guard = json!({"loop_guard": {"max_repeated_calls": 3, "max_repeated_errors": 3}});
    let mut trial = Trial::begun(&guard);
    for n in 0..3 {
        trial.calls(&[("pay", json!({"n": n}))]);
        trial.attempt(0, refused());
    }
    assert_eq!((trial.end().0, trial.state.step), ("same_error_repeated", 3));
    // Rejected calls count, in call order: the third ends the run, and what has not begun doesn't.
    let mut trial = Trial::begun(&guard);
    trial.calls(&[
        ("pay", json!({"n": "a"})),
        ("pay", json!({"n": "b"})),
        ("pay", json!({"n": "c"})),
        ("pay", json!({"n": 1})),
    ]);
    assert_eq!((trial.end().0, trial.stages()[3]), ("same_error_repeated", "cancelled"));
    // Model failures are no loop, nor are calls over a limit.
    let mut trial =
        Trial::begun(&json!({"loop_guard": guard["loop_guard"], "budgets": {"max_tool_calls": 1}}));
    let calls: Vec<_> = (0..8).map(|n| ("look", json!({"n": n}))).collect();
    trial.calls(&calls);
    trial.works(0);
    assert_eq!(trial.end().0, "max_tool_calls");
}

#[test]
fn a_call_that_is_refused_when_its_turn_comes_may_end_the_run_before_another_begins() {
    let guard = json!({"loop_guard": {"max_repeated_calls": 9, "max_repeated_errors": 2}});
    let mut trial = Trial::begun(&guard);
    // The second is the first again, of which nobody knows by then.
    trial.calls(&[("mail", json!({"n": 1})), ("mail", json!({"n": 1})), ("pay", json!({"n": 2}))]);
    assert_eq!(trial.stages(), ["out", "ready", "ready"]);
    trial.attempt(0, unclear());
    assert_eq!(trial.stages(), ["uncertain", "rejected", "cancelled"]);
    assert_eq!(trial.end().0, "same_error_repeated");
    let mut trial = Trial::begun(&guard);
    trial.calls(&[
        ("mail", json!({"n": 1})),
        ("mail", json!({"n": 1})),
        ("note", json!({"n": 2})),
        ("wipe", json!({})),
    ]);
    trial.attempt(0, unclear());
    assert_eq!(trial.tables.ledger.entries.len(), 1, "{:?}", trial.stages());
}
