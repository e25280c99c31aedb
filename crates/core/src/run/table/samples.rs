//! A run in each place, made by what happens, not by hand.

use serde_json::json;

use crate::model::FailureKind;
use crate::run::trial::{Trial, not_done, unclear, with_server};
use crate::run::{Event, Phase};

/// A run in the place of that name, and which of its calls stands there.
pub(super) fn at(place: &str) -> (Trial, usize) {
    let one = json!({"n": 1});
    let with_calls = |names: &[&str]| {
        let mut trial = Trial::begun(&json!({}));
        let calls: Vec<_> = names.iter().map(|name| (*name, one.clone())).collect();
        trial.calls(&calls);
        trial
    };
    let (trial, index) = match place {
        "queued" => (Trial::new(&json!({})), 0),
        "boundary" => (Trial::begun(&json!({})), 0),
        "listing" => (Trial::begun(&with_server(&json!({}))), 0),
        "relisting" => (after(after_a_step(Trial::begun_with(&["read"])), changed), 0),
        "stale" => (after_a_step(Trial::begun_with(&["read"])), 0),
        "summary" => (Trial::summing(&json!({})), 0),
        "again" => (
            after(Trial::summing(&json!({})), |trial| drop(trial.summary_fails(FailureKind::Passing, 503))),
            0,
        ),
        "rebuild" => (model(&[FailureKind::ContextOverflow]), 0),
        "model" => (model(&[]), 0),
        "retry" => (model(&[FailureKind::Passing]), 0),
        "budget" => (out_of_steps(), 0),
        "ended" => (ended(), 0),
        "asked" => (with_calls(&["risky"]), 0),
        "ready" => (with_calls(&["risky", "pay"]), 1),
        "key" => (with_calls(&["order"]), 0),
        "out" => (with_calls(&["pay"]), 0),
        "backoff" => (after(with_calls(&["pay"]), |trial| drop(trial.attempt(0, not_done()))), 0),
        "parked" => (with_calls(&["ask_user"]), 0),
        "agents" => (with_calls(&["help"]), 0),
        "child" => (after(with_calls(&["help"]), |trial| drop(trial.hires(0))), 0),
        "reconciling" => (after(with_calls(&["refund"]), |trial| drop(trial.attempt(0, unclear()))), 0),
        "asked_uncertain" => (after(with_calls(&["gate"]), asked_uncertain), 0),
        "done" => (after(with_calls(&["look", "poll"]), |trial| drop(trial.works(0))), 0),
        "ending" => (after(with_calls(&["pay"]), time_is_up), 0),
        other => panic!("no place {other}"),
    };
    let (phase, stage) = (trial.state.phase, trial.stages().get(index).copied());
    let stands = match place {
        "retry" => phase == Phase::Model && trial.state.model.not_before.is_some(),
        "again" => phase == Phase::Summary && trial.state.model.not_before.is_some(),
        "done" => stage == Some("succeeded"),
        "listing" | "relisting" => trial
            .state
            .tools
            .as_ref()
            .is_some_and(|tools| tools.due && tools.has_list() == (place == "relisting")),
        "stale" => phase == Phase::Boundary && trial.state.may_list_again(),
        "asked_uncertain" => stage == Some("asked uncertain"),
        "agents" => stage == Some("key"),
        "ending" => trial.state.ending.is_some() && stage == Some("out"),
        "queued" | "boundary" | "summary" | "rebuild" | "model" | "budget" | "ended" => {
            format!("{phase:?}").eq_ignore_ascii_case(place)
        }
        _ => stage == Some(place),
    };
    assert!(stands, "{place}: {:?}", trial.state);
    (trial, index)
}

fn after(mut trial: Trial, then: impl FnOnce(&mut Trial)) -> Trial {
    then(&mut trial);
    trial
}

/// Before its second step.
/// Its server may have other tools by now.
fn changed(trial: &mut Trial) {
    trial.must(Event::ToolsChanged { at: trial.now });
}

fn after_a_step(mut trial: Trial) -> Trial {
    trial.calls(&[("srv__read", json!({}))]);
    trial.works(0);
    trial
}

fn model(failures: &[FailureKind]) -> Trial {
    let mut trial = Trial::begun(&json!({}));
    trial.build();
    for kind in failures {
        trial.model_fails(*kind, 503);
    }
    trial
}

fn out_of_steps() -> Trial {
    let mut trial = Trial::begun(&json!({"budgets": {"max_steps": 1, "on_exhausted": "ask"}}));
    trial.calls(&[("look", json!({}))]);
    trial.works(0);
    trial
}

fn ended() -> Trial {
    let mut trial = Trial::begun(&json!({}));
    trial.says("done");
    trial
}

fn asked_uncertain(trial: &mut Trial) {
    trial.approve(0);
    trial.attempt(0, unclear());
}

fn time_is_up(trial: &mut Trial) {
    trial.later(600_000);
    trial.fire();
}
