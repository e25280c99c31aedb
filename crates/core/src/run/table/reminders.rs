//! People hear again of what they are asked: now and then, and when its time is nearly over.

use serde_json::{Value, json};

use crate::Millis;
use crate::run::trial::Trial;
use crate::run::{EventType, OpenApproval, Record, next_due};

const MINUTE: Millis = 60_000;

/// A run that asks by this rule.
fn asked(rule: &Value) -> Trial {
    let mut trial = Trial::begun(&json!({"policy": {"rules": [rule]}}));
    trial.calls(&[("pay", json!({"n": 1}))]);
    trial
}

/// What timers tell, and when, as long as people say nothing.
fn heard(trial: &mut Trial) -> Vec<(Millis, &'static str)> {
    let (began, mut heard) = (trial.now, Vec::new());
    while next_due(&trial.state).is_some() {
        let records = trial.fire();
        let told = records.iter().filter_map(|record| match record {
            Record::Event { kind, .. } if kind.as_str().starts_with("approval.") => Some(kind.as_str()),
            _ => None,
        });
        heard.extend(told.map(|kind| (trial.now - began, kind)));
    }
    heard
}

#[test]
fn people_are_reminded_until_the_last_tenth_of_their_time() {
    let rule = json!({"tool": "pay", "effect": "ask", "expires_ms": 10 * MINUTE, "remind_every_ms": MINUTE,
        "on_expiry": "stop"});
    let mut wanted: Vec<_> = (1..9).map(|n| (n * MINUTE, "approval.reminder")).collect();
    wanted.extend([(9 * MINUTE, "approval.expiring"), (10 * MINUTE, "approval.decided")]);
    assert_eq!(heard(&mut asked(&rule)), wanted);
}

#[test]
fn that_time_is_nearly_over_is_told_an_hour_before_the_end_at_the_earliest() {
    for (minutes, told) in [(24 * 60, 23 * 60), (600, 540), (601, 541), (10, 9)] {
        let rule =
            json!({"tool": "pay", "effect": "ask", "expires_ms": minutes * MINUTE, "on_expiry": "stop"});
        let wanted = [(told * MINUTE, "approval.expiring"), (minutes * MINUTE, "approval.decided")];
        assert_eq!(heard(&mut asked(&rule)), wanted);
    }
    let soon = json!({"tool": "pay", "effect": "ask", "expires_ms": 1, "on_expiry": "stop"});
    assert_eq!(heard(&mut asked(&soon)), [(0, "approval.expiring"), (1, "approval.decided")]);
}

#[test]
fn after_a_long_silence_people_hear_once() {
    let rule = json!({"tool": "pay", "effect": "ask", "expires_ms": 100 * MINUTE, "remind_every_ms": MINUTE});
    let mut trial = asked(&rule);
    trial.later(30 * MINUTE);
    trial.fire();
    assert_eq!(trial.told(EventType::ApprovalReminder).len(), 1);
    assert_eq!(trial.state.open_approvals[0].next_due(), Some(trial.now + MINUTE));
    trial.later(65 * MINUTE);
    trial.fire();
    let told = (trial.told(EventType::ApprovalReminder).len(), trial.told(EventType::ApprovalExpiring).len());
    assert_eq!((told, trial.state.open_approvals[0].next_due()), ((1, 1), None));
}

#[test]
fn what_is_decided_is_told_of_no_more() {
    let rule =
        json!({"tool": "risky", "effect": "ask", "expires_ms": 10 * MINUTE, "remind_every_ms": MINUTE});
    let mut trial = Trial::begun(&json!({"policy": {"rules": [rule]}}));
    trial.calls(&[("risky", json!({"n": 1})), ("risky", json!({"n": 2}))]);
    trial.later(MINUTE / 2);
    trial.deny(0);
    assert_eq!(trial.state.open_approvals.len(), 1);
    trial.fire();
    let told: Vec<_> = trial.told(EventType::ApprovalReminder);
    assert_eq!((told.len(), &told[0]["tool_call_id"]), (1, &json!(trial.call(1))));
    trial.cancel();
    assert!(trial.state.open_approvals.is_empty());
}

#[test]
fn an_expiry_that_ends_the_run_reminds_nobody() {
    let stop = json!({"tool": "gate", "effect": "ask", "expires_ms": 5 * MINUTE, "on_expiry": "stop"});
    let slow =
        json!({"tool": "risky", "effect": "ask", "expires_ms": 50 * MINUTE, "remind_every_ms": 5 * MINUTE});
    let mut trial = Trial::begun(&json!({"policy": {"rules": [stop, slow]}}));
    trial.calls(&[("note", json!({})), ("gate", json!({})), ("risky", json!({}))]);
    trial.later(5 * MINUTE);
    trial.fire();
    assert!(trial.state.ending.is_some(), "a write is out");
    assert_eq!(trial.told(EventType::ApprovalReminder).len(), 0);
    assert!(
        trial
            .state
            .open_approvals
            .iter()
            .all(|open: &OpenApproval| open.row.tool_name.as_deref() == Some("risky"))
    );
}

#[test]
fn all_that_people_are_asked_is_told_again() {
    let mut trial = Trial::begun(&json!({"budgets": {"max_steps": 1, "on_exhausted": "ask"}}));
    trial.calls(&[("look", json!({}))]);
    trial.works(0);
    trial.fire();
    assert_eq!(trial.told(EventType::ApprovalExpiring)[0]["kind"], "budget");
}
