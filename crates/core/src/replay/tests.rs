//! The first difference, field by field.

use serde_json::{Value, json};

use super::*;
use crate::permission::Effect;
use crate::registry::Validation;
use crate::tool::{ErrorCode, ResultStatus, ToolResult};

fn call() -> CallStory {
    CallStory {
        tool_name: "pay".into(),
        input_hash: "sha256:1".into(),
        edited_hash: None,
        validation: Validation::Ok,
        asked: false,
        decision: Some((Effect::Allow, None)),
        result: Some(ResultStory::from(&ToolResult::without_run(ResultStatus::Succeeded, None, "paid"))),
    }
}

fn story() -> Story {
    let mut story = Story::default();
    for number in [1, 2] {
        let context = ContextStory { tokens: 100, included: 3, omitted: 0 };
        let finish_reason = Some("stop".to_owned());
        let step = StepStory { context, failures: Vec::new(), finish_reason, calls: vec![call(), call()] };
        story.steps.insert(number, step);
    }
    story.end.status = "finished".into();
    story.end.stop_reason = Some("final_answer".into());
    story
}

fn second(story: &mut Story) -> &mut StepStory {
    story.steps.get_mut(&2).expect("a step")
}

fn last(story: &mut Story) -> &mut CallStory {
    &mut second(story).calls[1]
}

fn result(story: &mut Story) -> &mut ResultStory {
    last(story).result.as_mut().expect("a result")
}

type Change = fn(&mut Story);

#[test]
fn every_field_of_a_step_is_looked_at() {
    let of_call = |name: &str| format!("tool_calls[1].{name}");
    let table: Vec<(Change, String, Value, Value)> = vec![
        (|s| second(s).context.tokens = 90, "context.tokens".into(), json!(100), json!(90)),
        (|s| second(s).context.included = 2, "context.included".into(), json!(3), json!(2)),
        (|s| second(s).context.omitted = 1, "context.omitted".into(), json!(0), json!(1)),
        (|s| second(s).failures.push(None), "model.failures".into(), json!(0), json!(1)),
        (|s| second(s).finish_reason = None, "model.finish_reason".into(), json!("stop"), json!(null)),
        (|s| last(s).tool_name = "send".into(), of_call("tool_name"), json!("pay"), json!("send")),
        (
            |s| last(s).input_hash = "sha256:2".into(),
            of_call("input_hash"),
            json!("sha256:1"),
            json!("sha256:2"),
        ),
        (
            |s| last(s).validation = Validation::OverLimit,
            of_call("validation"),
            json!("ok"),
            json!("over_limit"),
        ),
        (|s| last(s).asked = true, of_call("decision.effect"), json!("allow"), json!(["ask", "allow"])),
        (|s| last(s).decision = None, of_call("decision.effect"), json!("allow"), json!(null)),
        (
            |s| last(s).decision = Some((Effect::Allow, Some(3))),
            of_call("decision.rule"),
            json!(null),
            json!(3),
        ),
        (
            |s| last(s).edited_hash = Some("sha256:3".into()),
            of_call("input_hash"),
            json!("sha256:1"),
            json!("sha256:3"),
        ),
        (
            |s| result(s).status = ResultStatus::Failed,
            of_call("result.status"),
            json!("succeeded"),
            json!("failed"),
        ),
        (
            |s| result(s).error_code = Some(ErrorCode::Timeout),
            of_call("result.error_code"),
            json!(null),
            json!("TIMEOUT"),
        ),
        (|s| last(s).result = None, of_call("result.status"), json!("succeeded"), json!(null)),
        (|s| drop(second(s).calls.pop()), "tool_calls".into(), json!(2), json!(1)),
        (|s| drop(s.steps.remove(&2)), "status".into(), json!("completed"), json!(null)),
    ];
    for (change, field, expected, got) in table {
        let mut changed = story();
        change(&mut changed);
        let wanted = Difference { step: Some(2), field, expected: expected.clone(), got: got.clone() };
        assert_eq!(first_difference(&story(), &changed), Some(wanted.clone()));
        let back = Difference { expected: got, got: expected, ..wanted };
        assert_eq!(first_difference(&changed, &story()), Some(back), "the other way round");
    }
}

#[test]
fn the_end_is_looked_at_last() {
    let table: Vec<(Change, &str, Value, Value)> = vec![
        (|s| s.end.status = "failed".into(), "status", json!("finished"), json!("failed")),
        (
            |s| s.end.stop_reason = Some("timeout".into()),
            "stop_reason",
            json!("final_answer"),
            json!("timeout"),
        ),
        (|s| s.end.error_code = Some("x".into()), "error.code", json!(null), json!("x")),
        (
            |s| s.end.final_answer = Some("y".repeat(3000)),
            "final_answer",
            json!(null),
            json!("y".repeat(2000)),
        ),
        (|s| s.end.used.steps = 1, "budgets.used.steps", json!(0), json!(1)),
        (|s| s.end.used.input_tokens = 1, "budgets.used.input_tokens", json!(0), json!(1)),
        (|s| s.end.used.output_tokens = 1, "budgets.used.output_tokens", json!(0), json!(1)),
        (|s| s.end.used.tool_calls = 1, "budgets.used.tool_calls", json!(0), json!(1)),
        (|s| s.end.used.cost_microusd = 1, "budgets.used.cost_microusd", json!(0), json!(1)),
    ];
    for (change, field, expected, got) in table {
        let mut changed = story();
        change(&mut changed);
        let wanted = Difference { step: None, field: field.into(), expected, got };
        assert_eq!(first_difference(&story(), &changed), Some(wanted));
        result(&mut changed).content_hash = "sha256:9".into();
        let first = first_difference(&story(), &changed).expect("two differences");
        assert_eq!((first.step, first.field.as_str()), (Some(2), "tool_calls[1].result.content"));
    }
    assert_eq!(first_difference(&story(), &story()), None);
    assert_eq!(first_difference(&Story::default(), &Story::default()), None);
}

#[test]
fn failures_are_told_by_their_words() {
    let with = |words: &[&str]| {
        let mut changed = story();
        second(&mut changed).failures = words.iter().map(|word| Some((*word).to_owned())).collect();
        changed
    };
    let found = first_difference(&with(&["busy", "cut"]), &with(&["busy", "late"])).expect("a difference");
    assert_eq!((found.field.as_str(), found.got), ("model.failures[1].error", json!("late")));
}
