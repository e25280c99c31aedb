//! A run in each place, made by what happens, not by hand; and the stored sample that newer binaries must read.

use serde_json::json;

use crate::agent::Price;
use crate::budget::{Estimate, Limit, Size, Used};
use crate::correction::Correction;
use crate::id::{ApprovalId, LedgerId};
use crate::model::FailureKind;
use crate::run::trial::{Trial, not_done, round_trip, unclear, with_server};
use crate::run::{BudgetAsk, Call, Event, Inherited, Phase, RunState, STATE_VERSION, Stage, Status, Summing};
use crate::tokens::Counter;

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

/// A state as a binary of version 1 stored it, with a call at every stage. The file never changes; today's binary reads it.
#[test]
fn a_state_of_version_1_is_read() {
    let text = include_str!("../samples/state_v1.json");
    let state: RunState = serde_json::from_str(text).expect("today's binary reads it");
    let mut stages: Vec<String> = state.calls.iter().map(|call| format!("{:?}", call.stage)).collect();
    stages.iter_mut().for_each(|stage| stage.truncate(stage.find([' ', '(']).unwrap_or(stage.len())));
    let all =
        ["Asked", "Ready", "Key", "Out", "Backoff", "Parked", "Reconciling", "AskedUncertain", "Done", "Out"];
    assert_eq!(stages, all);
    assert_eq!((state.version, state.calls[1].edited.as_deref()), (1, Some(r#"{"n":7}"#)));
    assert!(state.budget_ask.is_some() && state.ending.is_some() && state.end.is_some());
    assert_eq!(round_trip(&state), state);
    if STATE_VERSION == 1 {
        let stored: serde_json::Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(
            serde_json::to_value(&state).expect("JSON"),
            stored,
            "the form changed: give it a new version"
        );
    }
}

/// The same for version 2: runs that stand on other runs.
#[test]
fn a_state_of_version_2_is_read() {
    let text = include_str!("../samples/state_v2.json");
    let state: RunState = serde_json::from_str(text).expect("today's binary reads it");
    let inherited = state.inherited.clone().expect("what it brought along");
    assert_eq!((state.version, inherited.effects, inherited.taken.len()), (2, 2, 1));
    assert_eq!(inherited.used.steps, 1);
    if STATE_VERSION == 2 {
        let stored: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let again = serde_json::to_value(&state).expect("JSON");
        assert_eq!(again, stored, "the form changed: give it a new version");
    }
}

/// The same for version 3: runs whose history was summed up.
#[test]
fn a_state_of_version_3_is_read() {
    let text = include_str!("../samples/state_v3.json");
    let state: RunState = serde_json::from_str(text).expect("today's binary reads it");
    let task = state.summing.task.clone().expect("a summary that is made");
    assert_eq!((state.version, state.phase, task.version, state.summing.made), (3, Phase::Summary, 2, 1));
    assert_eq!(state.correction.as_ref().map(|known| known.permille), Some(1_250));
    assert_eq!(
        (state.estimate.correction(), state.model.fault.as_deref()),
        (1_250, Some("/n: is no number"))
    );
    if STATE_VERSION == 3 {
        let stored: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let again = serde_json::to_value(&state).expect("JSON");
        assert_eq!(again, stored, "the form changed: give it a new version");
    }
}

/// The same for version 4: runs with tools of MCP servers, and runs that call agents.
#[test]
fn a_state_of_version_4_is_read() {
    let text = include_str!("../samples/state_v4.json");
    let state: RunState = serde_json::from_str(text).expect("today's binary reads it");
    let tools = state.tools.as_ref().expect("tools of servers");
    assert_eq!((state.version, state.depth, tools.hash.is_some()), (4, 2, true));
    assert_eq!(state.by_children.tokens(), 78);
    let child = state.calls.last().expect("a call of an agent");
    assert!(child.agent && matches!(child.stage, Stage::Child { given, .. } if given.tokens == 5_000));
    if STATE_VERSION == 4 {
        let stored: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let again = serde_json::to_value(&state).expect("JSON");
        assert_eq!(again, stored, "the form changed: give it a new version");
    }
}

/// A state with everything in it.
fn sample() -> RunState {
    let places = [
        "asked",
        "ready",
        "key",
        "out",
        "backoff",
        "parked",
        "reconciling",
        "asked_uncertain",
        "done",
        "ending",
        "agents",
        "child",
    ];
    let (mut state, calls): (RunState, Vec<Call>) = {
        let (base, _) = at("asked");
        let calls = places.iter().map(|place| {
            let (trial, index) = at(place);
            trial.state.calls[index].clone()
        });
        (base.state, calls.collect())
    };
    let mut denied = Trial::begun(&json!({}));
    denied.calls(&[("risky", json!({"n": 2})), ("mail", json!({"n": 3})), ("look", json!({}))]);
    denied.works(2);
    denied.deny(0);
    denied.attempt(1, unclear());
    state.denied = denied.state.denied;
    state.unsettled = denied.state.unsettled;
    state.guard = denied.state.guard;
    state.calls = calls;
    state.calls[1].edited = Some(r#"{"n":7}"#.into());
    state.model = at("retry").0.state.model;
    state.ending = at("ending").0.state.ending;
    state.end = at("ended").0.state.end;
    state.deadline = Some(crate::run::trial::DAWN + 86_400_000);
    state.budgets.max_cost_microusd = Some(5_000_000);
    let approval_id = ApprovalId(uuid::Uuid::from_u128(9));
    let expires_at = crate::run::trial::DAWN;
    state.budget_ask = Some(BudgetAsk {
        approval_id,
        limit: Limit::MaxCost,
        expires_at,
        back_to: Phase::Model,
        since: None,
    });
    state.status = Status::WaitingApproval;
    state.deaths = 1;
    state.version = STATE_VERSION;
    state.inherited = Some(Inherited {
        used: state.used.clone(),
        effects: 2,
        taken: vec![LedgerId(uuid::Uuid::from_u128(9))],
    });
    assert!(state.calls.iter().any(|call| matches!(call.stage, Stage::Done(_))));
    state.tools = at("stale").0.state.tools;
    state.depth = 2;
    state.by_children = Used { input_tokens: 70, output_tokens: 8, cost_microusd: 9, ..Used::default() };
    summing_up(state)
}

/// It is asked for its second summary before a step.
fn summing_up(mut state: RunState) -> RunState {
    let (trial, _) = at("summary");
    state.phase = trial.state.phase;
    state.summing = Summing { made: 1, failures: 1, ..trial.state.summing };
    state.summing.task.iter_mut().for_each(|task| task.version = 2);
    let counted = Size { counter: Counter::O200k, counted: 4_000, corrected_by: 1_250 };
    let price = Price { output_microusd_per_mtok: 15_000_000, ..Price::default() };
    state.estimate = Estimate::of(&counted, Some(&price));
    state.correction = Some(Correction { provider: "main".into(), model: "m".into(), permille: 1_250 });
    state.model.fault = Some("/n: is no number".into());
    state
}

/// Prints a sample of today's form, for the file of a new version.
#[test]
#[ignore = "run it by hand when the stored form gets a new version"]
fn print_the_sample() {
    eprintln!("{}", serde_json::to_string_pretty(&sample()).expect("it can be written"));
}
