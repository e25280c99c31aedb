//! The model's moods: failures, retries, fallbacks, and replies that can't be used.

use serde_json::json;

use crate::budget::Estimate;
use crate::model::{FailureKind, Finish, ModelReply};
use crate::run::trial::{Trial, said};
use crate::run::{Command, Event, EventType, Phase, next_due, outstanding};

#[test]
fn retries_then_the_fallback_then_the_end() {
    let mut trial = Trial::begun(&json!({}));
    trial.model_fails(FailureKind::Passing, 503);
    assert!(outstanding(&trial.state).is_empty() && next_due(&trial.state).is_some(), "it waits a while");
    trial.fire();
    assert_eq!(outstanding(&trial.state), [Command::CallModel { step: 1, attempt: 1 }]);
    trial.model_fails(FailureKind::Passing, 503);
    assert_eq!((trial.state.model.target, trial.state.model.not_before), (1, None), "the fallback, at once");
    trial.model_fails(FailureKind::Passing, 503);
    trial.fire();
    trial.model_fails(FailureKind::Passing, 429);
    assert_eq!(trial.end(), ("model_error", "rate_limited".into()));
    let told = trial.told(EventType::ModelFailed);
    let attempts: Vec<_> = told.iter().map(|data| data["attempt"].as_u64()).collect();
    assert_eq!(attempts, [Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!((told[1]["provider"].as_str(), told[2]["provider"].as_str()), (Some("main"), Some("alt")));
    assert!(told[0]["retry_in_ms"].is_u64() && told[3]["retry_in_ms"].is_null());
}

/// Another model counts and charges otherwise, so what it takes is looked at before it is asked.
#[test]
fn a_fallback_is_estimated_anew() {
    let limits = json!({"budgets": {"max_cost_microusd": 100}});
    let mut trial = Trial::begun(&limits);
    trial.model_fails(FailureKind::Unusable, 401);
    assert_eq!((trial.state.phase, trial.state.model.target), (Phase::Rebuild, 1));
    assert_eq!(outstanding(&trial.state), [Command::BuildContext]);
    let Event::ContextBuilt { at, manifest, estimate, duration_ms, .. } = trial.built(10) else {
        unreachable!()
    };
    let estimate = Estimate { cost_microusd: 101, ..estimate };
    let (provider, model) = ("alt".into(), "n".into());
    trial.must(Event::ContextBuilt { at, manifest, estimate, provider, model, duration_ms });
    assert_eq!(trial.end().0, "max_cost");
    assert_eq!(trial.told(EventType::StepStarted).len(), 1, "it is the same step");
}

/// Journals of older servers have no context between the two.
#[test]
fn a_fallback_may_have_replied_without_a_context_of_its_own() {
    let mut trial = Trial::begun(&json!({}));
    trial.model_fails(FailureKind::Unusable, 401);
    assert_eq!(trial.state.phase, Phase::Rebuild);
    let replied = trial.replied(&said("Done.", &[]), false);
    trial.must(replied);
    assert_eq!(trial.end().0, "final_answer");
}

/// What was shown to the model before is shown to its fallback, however that counts.
#[test]
fn a_fallback_begins_anew() {
    let mut trial =
        Trial::begun(&json!({"model": {"provider": "main", "model": "m", "retry": {"max_attempts": 1},
        "fallbacks": [{"provider": "alt", "model": "n"}]}}));
    trial.model_fails(FailureKind::ContextOverflow, 400);
    trial.model_fails(FailureKind::CapOverWindow, 400);
    trial.model_fails(FailureKind::Passing, 503);
    let model = &trial.state.model;
    assert_eq!((model.target, model.on_target, model.shrunk, model.cap_cut), (1, 0, false, false));
    trial.model_fails(FailureKind::ContextOverflow, 400);
    assert!(trial.state.model.shrunk && trial.state.phase == Phase::Rebuild);
    trial.replies(&said("Done.", &[]));
    assert_eq!(trial.end().0, "final_answer");
}

/// Where nobody was asked there was no attempt: a run waits for its provider as long as it has time.
#[test]
fn waiting_for_a_provider_takes_no_attempts() {
    let mut trial =
        Trial::begun(&json!({"model": {"provider": "p", "model": "m", "retry": {"max_attempts": 2}}}));
    trial.build();
    for _ in 0..5 {
        trial.must(trial.failed(FailureKind::Held, 0, Some(1_000)));
        trial.fire();
    }
    trial.model_fails(FailureKind::Passing, 503);
    trial.fire();
    trial.replies(&said("Done.", &[]));
    assert_eq!(trial.end().0, "final_answer");
}

#[test]
fn a_filter_that_refuses_is_a_refusal() {
    let mut trial = Trial::begun(&json!({}));
    trial.model_fails(FailureKind::Filtered, 400);
    assert_eq!(trial.end().0, "model_refusal");
}

#[test]
fn a_pause_longer_than_the_time_left_is_not_waited_for() {
    let mut trial =
        Trial::begun(&json!({"budgets": {"timeout_ms": 5000}, "model": {"provider": "p", "model": "m"}}));
    trial.build();
    trial.must(trial.failed(FailureKind::Passing, 429, Some(6_000)));
    assert_eq!(trial.end(), ("model_error", "rate_limited".into()));
}

#[test]
fn a_context_that_is_too_long_is_rebuilt_once() {
    let mut trial = Trial::begun(&json!({}));
    trial.model_fails(FailureKind::ContextOverflow, 400);
    assert_eq!((trial.state.phase, outstanding(&trial.state)), (Phase::Rebuild, vec![Command::BuildContext]));
    trial.build();
    assert_eq!(
        (trial.state.step, trial.state.used.steps, trial.told(EventType::StepStarted).len()),
        (1, 1, 1)
    );
    trial.model_fails(FailureKind::ContextOverflow, 400);
    assert_eq!(trial.end().0, "context_overflow");
}

#[test]
fn an_output_cap_is_cut_once_and_what_is_refused_ends() {
    let mut trial = Trial::begun(&json!({}));
    trial.model_fails(FailureKind::CapOverWindow, 400);
    assert!(trial.state.model.cap_cut);
    trial.model_fails(FailureKind::CapOverWindow, 400);
    assert_eq!(trial.end().0, "context_overflow");
    let mut trial = Trial::begun(&json!({}));
    trial.model_fails(FailureKind::Refused, 400);
    assert_eq!(trial.end(), ("model_error", "model_error".into()));
}

#[test]
fn a_useless_reply_is_asked_for_once_more() {
    let cut = ModelReply { finish: Finish::Length, ..said("half", &[("pay", json!({}))]) };
    let schema = json!({"output_schema": {"type": "object"}});
    for (changes, reply, end) in [
        (json!({}), &cut, ("model_error", "reply_truncated")),
        (json!({}), &said(" ", &[]), ("model_error", "empty_reply")),
        (schema, &said("no JSON", &[]), ("output_invalid", "output_invalid")),
    ] {
        let mut trial = Trial::begun(&changes);
        trial.replies(reply);
        assert_eq!(outstanding(&trial.state), [Command::CallModel { step: 1, attempt: 1 }], "{end:?}");
        assert_eq!(
            (trial.state.calls.len(), trial.tables.messages.len()),
            (0, 1),
            "nothing of it runs or is kept"
        );
        let mut other = Trial::begun(&changes);
        other.replies(reply);
        trial.replies(reply);
        assert_eq!(trial.end(), (end.0, end.1.into()));
        assert_eq!((trial.state.step, trial.state.used.tokens(), trial.state.turns), (1, 30, 2));
        other.says("{}");
        assert_eq!((other.end().0, other.state.used.steps), ("final_answer", 1));
    }
}

#[test]
fn every_step_asks_anew() {
    let mut trial =
        Trial::begun(&json!({"model": {"provider": "main", "model": "m", "retry": {"max_attempts": 1},
        "fallbacks": [{"provider": "alt", "model": "n"}]}}));
    for n in 0..2 {
        trial.replies(&said("", &[]));
        trial.model_fails(FailureKind::Passing, 503);
        trial.calls(&[("look", json!({"n": n}))]);
        trial.works(0);
    }
    let asked: Vec<_> =
        trial.told(EventType::ModelFailed).iter().map(|data| data["attempt"].as_u64()).collect();
    assert_eq!(asked, [Some(1), Some(2), Some(1), Some(2)]);
}

#[test]
fn text_beside_calls_is_kept_and_blanks_are_not() {
    for (text, kept) in [("Let me see.", "Let me see."), (" \n", "")] {
        let mut trial = Trial::begun(&json!({}));
        trial.replies(&said(text, &[("look", json!({}))]));
        assert_eq!(trial.tables.messages[&2].content, kept);
    }
}
