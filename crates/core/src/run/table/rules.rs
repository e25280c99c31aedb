//! The rules change between the moment that a call is judged and the one in which it would begin.

use serde_json::json;

use super::approved::{asks, called, fates, policy};
use crate::agent::Risk;
use crate::id::GrantId;
use crate::permission::{Grant, Judgement};
use crate::run::trial::Trial;
use crate::run::{Command, Event, EventType, JudgedAgain, outstanding};

/// A call that is allowed and one that was approved wait for one that people are asked about.
fn held() -> Trial {
    let mut trial = called(&["risky", "mail", "risky"]);
    trial.approved_by(2, &["user:ann"], None);
    assert_eq!(trial.stages(), ["asked", "ready", "ready"]);
    trial
}

#[test]
fn what_is_still_allowed_begins_by_the_rules_of_now() {
    let mut trial = held();
    trial.rules_are(Some(&asks("look", 1)));
    trial.approved_by(0, &["user:bob"], None);
    trial.works(0);
    trial.works(1);
    assert_eq!(trial.stages(), ["succeeded", "succeeded", "out"]);
    assert!(trial.tables.ledger.entries.values().all(|entry| entry.row.rules == 1));
    let judged =
        |index| trial.tables.calls[&trial.call(index)].decisions.last().cloned().expect("a decision");
    assert_eq!(judged(1).by, "policy");
    let third = judged(2);
    assert_eq!(
        (third.by.as_str(), third.judged_by.len()),
        ("user:ann", 2),
        "who approved, and all that judged"
    );
    assert_eq!(fates(&trial), [(true, None), (true, None)]);
}

#[test]
fn what_is_forbidden_by_now_does_not_begin() {
    for (rule, stages) in [
        (json!({"tool": "mail", "effect": "ask"}), ["succeeded", "asked", "ready"]),
        (json!({"tool": "risky", "effect": "ask", "approvals": 2}), ["succeeded", "out", "asked"]),
        (json!({"tool": "*", "effect": "deny"}), ["denied", "denied", "denied"]),
    ] {
        let mut trial = held();
        trial.rules_are(Some(&policy(&rule)));
        trial.approved_by(0, &["user:bob", "user:cat"], None);
        if trial.stages()[0] == "out" {
            trial.works(0);
        }
        assert_eq!(trial.stages(), stages, "{rule}");
        let begun = stages.iter().filter(|stage| matches!(**stage, "succeeded" | "out")).count();
        assert_eq!(trial.told(EventType::ToolStarted).len(), begun);
        trial.check_journal();
    }
}

#[test]
fn whoever_approved_is_gone() {
    let mut trial = held();
    trial.rules.number += 1;
    trial.rules.gone = ["user:ann".to_owned()].into();
    trial.approved_by(0, &["user:bob"], None);
    trial.works(0);
    assert_eq!(trial.stages(), ["succeeded", "out", "asked"]);
}

#[test]
fn a_call_that_is_looked_up_is_judged_again() {
    let mut trial = called(&["order"]);
    let call = trial.call(0);
    trial.rules_are(Some(&asks("order", 1)));
    trial.must(Event::KeyFree { at: trial.now, call });
    assert_eq!((trial.stages(), outstanding(&trial.state)), (vec!["asked"], vec![]));
    assert!(
        trial.happens(Event::KeyFree { at: trial.now, call }).is_err(),
        "what was looked up is of no use"
    );
    trial.approved_by(0, &["user:ann"], None);
    assert_eq!(outstanding(&trial.state), [Command::ClaimKey { call }]);
    trial.must(Event::KeyFree { at: trial.now, call });
    assert_eq!((trial.stages(), fates(&trial)), (vec!["out"], vec![(true, None)]));
}

#[test]
fn what_has_begun_is_not_judged_again() {
    let mut trial = called(&["pay"]);
    let (call, before) = (trial.call(0), trial.state.clone());
    let verdict = JudgedAgain { call, judgement: Judgement::denied("closed"), stands: false };
    trial.must(Event::RulesChanged { at: trial.now, verdicts: vec![verdict.clone()] });
    assert_eq!(trial.state, before);
    let of_nobody = JudgedAgain { call: crate::id::CallId(trial.new_id()), ..verdict };
    assert!(trial.happens(Event::RulesChanged { at: trial.now, verdicts: vec![of_nobody] }).is_err());
}

/// A run in which calls of `pay` are made with `gate`, which a remembered approval covers for a second.
fn covered() -> Trial {
    let mut trial = Trial::begun(&json!({}));
    let id = GrantId(trial.new_id());
    trial.rules.grants.push(Grant {
        id,
        tool_name: "gate".into(),
        input_hash: None,
        expires_at: Some(trial.now + 1_000),
        deciders: vec!["user:ann".into()],
        max_risk: Risk::High,
    });
    trial.calls(&[("pay", json!({})), ("gate", json!({}))]);
    assert_eq!(trial.stages(), ["out", "ready"], "nobody is asked");
    trial
}

#[test]
fn a_remembered_approval_lets_nothing_begin_after_its_end() {
    for (late, stage) in [(999, "out"), (1_000, "asked")] {
        let mut trial = covered();
        trial.later(late);
        trial.works(0);
        assert_eq!(trial.stages(), ["succeeded", stage]);
    }
}

#[test]
fn a_remembered_approval_that_was_revoked_lets_nothing_begin() {
    let mut trial = covered();
    trial.rules.grants.clear();
    trial.rules.number += 1;
    trial.works(0);
    assert_eq!(trial.stages(), ["succeeded", "asked"]);
}

#[test]
fn a_denial_by_the_rules_of_now_may_end_the_run() {
    let mut trial = held();
    let stop = json!({"rules": [{"tool": "mail", "effect": "deny"}], "on_deny": "stop"});
    trial.rules_are(Some(&serde_json::from_value(stop).expect("a policy")));
    trial.approved_by(0, &["user:bob"], None);
    trial.works(0);
    assert_eq!((trial.end().0, trial.stages()[1]), ("permission_denied", "denied"));
    assert_eq!(trial.told(EventType::ToolStarted).len(), 1);
}

#[test]
fn in_a_run_that_ends_nothing_is_judged_again() {
    let mut trial = called(&["note", "risky", "pay"]);
    trial.later(600_000);
    trial.must(Event::TimerFired { at: trial.now });
    assert!(trial.state.ending.is_some(), "a write is out");
    let (call, before) = (trial.call(2), trial.state.clone());
    let verdict = JudgedAgain { call, judgement: Judgement::denied("closed"), stands: false };
    trial.must(Event::RulesChanged { at: trial.now, verdicts: vec![verdict] });
    assert_eq!((trial.stages()[2], &trial.state), ("ready", &before));
}
