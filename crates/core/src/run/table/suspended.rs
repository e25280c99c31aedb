//! Runs whose tenant is suspended: what is out comes to its end, and nothing begins before it is resumed.

use serde_json::json;

use crate::run::trial::{Trial, not_done};
use crate::run::{Event, Status, next_due, outstanding};

fn suspended(calls: &[&str]) -> Trial {
    let mut trial = Trial::begun(&json!({}));
    let calls: Vec<_> = calls.iter().enumerate().map(|(n, name)| (*name, json!({"n": n}))).collect();
    trial.calls(&calls);
    trial.must(Event::Suspended { at: trial.now });
    trial
}

fn rest(trial: &mut Trial) {
    let from = trial.now;
    trial.now += 60_000;
    trial.must(Event::Rested { at: trial.now, from, until: trial.now });
    trial.must(Event::Resumed { at: trial.now });
}

#[test]
fn the_next_call_waits() {
    let mut trial = suspended(&["pay", "refund"]);
    assert_eq!(trial.stages(), ["out", "ready"]);
    trial.works(0);
    assert_eq!((trial.stages(), trial.state.status), (vec!["succeeded", "ready"], Status::Running));
    assert_eq!(
        (outstanding(&trial.state), next_due(&trial.state).is_some()),
        (vec![], true),
        "its time runs"
    );
    rest(&mut trial);
    assert_eq!(trial.stages(), ["succeeded", "out"]);
}

#[test]
fn none_is_sent_again() {
    let mut trial = suspended(&["pay"]);
    trial.attempt(0, not_done());
    assert_eq!(trial.stages(), ["backoff"]);
    trial.now += 10_000;
    trial.must(Event::TimerFired { at: trial.now });
    assert_eq!(trial.stages(), ["backoff"]);
    rest(&mut trial);
    trial.must(Event::TimerFired { at: trial.now });
    assert_eq!(trial.stages(), ["out"]);
}

#[test]
fn what_a_look_finds_begins_later() {
    for (tool, found) in [("order", false), ("help", true)] {
        let mut trial = suspended(&[tool]);
        let look = outstanding(&trial.state);
        let call = trial.state.calls[0].id;
        if found {
            trial.hires(0);
        } else {
            trial.must(Event::KeyFree { at: trial.now, call });
        }
        assert_eq!((trial.stages(), outstanding(&trial.state)), (vec!["key"], look.clone()));
        rest(&mut trial);
        assert_eq!(outstanding(&trial.state), look, "it is looked for again");
    }
}

#[test]
fn what_people_allow_begins_later_and_what_they_end_ends() {
    let mut trial = suspended(&["risky"]);
    trial.approve(0);
    assert_eq!(trial.stages(), ["ready"]);
    assert_eq!(trial.state.status, Status::Running);
    rest(&mut trial);
    assert_eq!(trial.stages(), ["out"]);
    let mut trial = suspended(&["pay", "refund"]);
    trial.cancel();
    assert_eq!(trial.state.status, Status::Cancelled);
}
