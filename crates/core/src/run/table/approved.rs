//! What was approved, or allowed, is looked at again before it begins.

use serde_json::{Value, json};

use crate::budget::Limit;
use crate::json::input_hash;
use crate::permission::{BY_LINK, Policy};
use crate::run::trial::{CREATOR, Trial, agent};
use crate::run::{Event, Status, StopReason};

pub(super) const OTHERS: &str = "policy asks for others by now than those who approved";

pub(super) fn policy(rule: &Value) -> Policy {
    serde_json::from_value(json!({"rules": [rule]})).expect("a policy")
}

pub(super) fn asks(tool: &str, approvals: u32) -> Policy {
    policy(&json!({"tool": tool, "effect": "ask", "approvals": approvals}))
}

/// Calls of these tools, the number of each being its place.
pub(super) fn called(tools: &[&str]) -> Trial {
    let mut trial = Trial::begun(&json!({}));
    let calls: Vec<_> = tools.iter().enumerate().map(|(n, tool)| (*tool, json!({"n": n}))).collect();
    trial.calls(&calls);
    trial
}

/// What became of each approval, in their order: whether it was used, and why it is void.
pub(super) fn fates(trial: &Trial) -> Vec<(bool, Option<&str>)> {
    trial.tables.approvals.all.values().map(|told| (told.used, told.void.as_deref())).collect()
}

#[test]
fn people_are_asked_anew_when_others_must_approve_by_now() {
    let mut trial = called(&["risky"]);
    let first = trial.state.calls[0].approval_id();
    trial.rules_are(Some(&asks("risky", 2)));
    trial.later(5);
    trial.approved_by(0, &["user:ann"], None);
    assert_eq!((trial.stages(), trial.state.status), (vec!["asked"], Status::WaitingApproval));
    let asked = trial.tables.pending()[0].clone();
    assert_eq!((asked.required, asked.call), (2, Some(trial.call(0))));
    assert_ne!(asked.id, first);
    // What is said of the first one is said too late.
    let mut late = trial.decided(0, trial.approval(0, &["user:bob".to_owned()], None));
    if let Event::CallDecided { approval, .. } = &mut late {
        *approval = Some(first);
    }
    assert!(trial.happens(late).is_err());
    trial.later(5);
    trial.approved_by(0, &["user:ann", "user:bob"], None);
    assert_eq!(fates(&trial), [(false, Some(OTHERS)), (true, None)]);
    trial.works(0);
    let decided = trial.tables.calls.values().next().map(|call| call.decisions.clone()).unwrap_or_default();
    let effects: Vec<_> = decided.iter().map(|decision| decision.effect.as_str()).collect();
    assert_eq!(effects, ["ask", "ask", "allow"]);
    assert_eq!(decided[2].judged_by.last().map(|by| by.version.as_str()), Some("1"));
    assert_eq!(
        trial.spans.decisions(),
        [[Some("ask"), Some("policy"), Some(OTHERS)], [Some("allow"), Some("user:ann"), None]]
    );
    trial.check_journal();
}

#[test]
fn an_edit_is_what_is_asked_about_anew() {
    let mut trial = called(&["risky"]);
    trial.rules_are(Some(&asks("risky", 2)));
    trial.approved_by(0, &["user:ann"], Some((json!({"n": 7}), "key-7")));
    let hash = input_hash(&json!({"n": 7}));
    assert_eq!(trial.tables.pending()[0].input_hash.as_ref(), Some(&hash));
    trial.approved_by(0, &["user:ann", "user:bob"], None);
    let row = &trial.tables.ledger.entries.values().next().expect("an entry").row;
    assert_eq!((&row.input_hash, row.idempotency_key.as_str()), (&hash, "key-7"));
    // What the policy denies isn't run for being an edit; the model hears what was denied.
    let mut trial = called(&["risky"]);
    trial.rules_are(Some(&policy(
        &json!({"tool": "risky", "effect": "deny", "input": {"properties": {"n": {"const": 7}}}}),
    )));
    trial.approved_by(0, &["user:ann"], Some((json!({"n": 7}), "key-7")));
    assert_eq!(
        (trial.stages(), fates(&trial)),
        (vec!["denied"], vec![(false, Some("policy denies it by now"))])
    );
    let told = &trial.tables.messages[&3].content;
    assert!(told.starts_with("[A person changed the arguments of this call, to {\"n\":7}]"), "{told}");
}

#[test]
fn whoever_started_the_run_is_not_enough_where_others_are_asked_for() {
    let others = policy(&json!({"tool": "risky", "effect": "ask", "self_approval": false}));
    for who in [CREATOR, BY_LINK] {
        let mut trial = called(&["risky"]);
        trial.rules_are(Some(&others));
        trial.approved_by(0, &[who], None);
        assert_eq!(trial.stages(), ["asked"]);
        assert!(!trial.tables.pending()[0].self_approval);
        trial.approved_by(0, &["user:ann"], None);
        assert_eq!(trial.stages(), ["out"]);
    }
}

#[test]
fn people_are_asked_five_times_at_most() {
    let mut trial = called(&["risky"]);
    for round in 2..=6 {
        trial.rules_are(Some(&asks("risky", round)));
        let deciders = &["a", "b", "c", "d", "e"][..round as usize - 1];
        trial.approved_by(0, deciders, None);
    }
    assert_eq!(trial.stages(), ["denied"]);
    assert_eq!(fates(&trial), [(false, Some(OTHERS)); 5]);
    assert!(trial.result(0).2.contains("again and again"), "{:?}", trial.result(0));
}

#[test]
fn an_approval_of_another_tool_is_void() {
    let mut trial = called(&["risky"]);
    trial.registry =
        agent(&json!({"tools": {"risky": {"http": {"url": "https://elsewhere.example/risky"}}}}));
    trial.approved_by(0, &["user:ann"], None);
    assert_eq!(fates(&trial)[0], (false, Some("the tool is not the one that was asked about")));
    trial.approved_by(0, &["user:ann"], None);
    assert_eq!((trial.stages(), fates(&trial)[1]), (vec!["out"], (true, None)));
}

/// The second call was approved, and waits for the first, which people are asked about.
fn held(changes: &Value) -> Trial {
    let mut trial = Trial::begun(changes);
    trial.calls(&[("risky", json!({"n": 0})), ("risky", json!({"n": 1}))]);
    trial.approved_by(1, &["user:ann"], None);
    assert_eq!(trial.stages(), ["asked", "ready"]);
    trial
}

#[test]
fn what_is_not_used_in_time_is_used_no_more() {
    for (on_expiry, late, stage, end) in [
        ("deny", 3_600_000, "out", None),
        ("deny", 3_600_001, "denied", None),
        ("stop", 3_600_001, "denied", Some(StopReason::ApprovalExpired)),
    ] {
        let second = json!({"required": ["n"], "properties": {"n": {"const": 1}}});
        let rule = json!({"effect": "ask", "input": second, "expires_ms": 3000, "on_expiry": on_expiry});
        let mut trial = held(&json!({"policy": {"rules": [rule]}}));
        trial.later(late);
        trial.approved_by(0, &["user:ann"], None);
        trial.works(0);
        assert_eq!((trial.stages()[1], trial.state.end.as_ref().map(|end| end.reason)), (stage, end));
        let void = (stage == "denied").then_some("the approval was not used in time");
        assert_eq!(fates(&trial)[1], (void.is_none(), void));
        if void.is_some() {
            assert_eq!(trial.state.denied[0].decided_by, "expiry");
        }
    }
}

/// Nobody was there to hear of it: it counts from when it was given, not from when the run hears of it.
#[test]
fn what_was_given_long_ago_is_used_no_more() {
    let rule = json!({"tool": "risky", "effect": "ask", "expires_ms": 60_000});
    for (ago, stage) in
        [(None, "out"), (Some(3_600_000), "out"), (Some(3_600_001), "denied"), (Some(-5), "out")]
    {
        let mut trial = Trial::begun(&json!({"policy": {"rules": [rule]}}));
        trial.calls(&[("risky", json!({}))]);
        trial.later(7_200_000);
        let mut decided = trial.decided(0, trial.approval(0, &["user:ann".to_owned()], None));
        if let Event::CallDecided { given_at, .. } = &mut decided {
            *given_at = ago.map(|ago| trial.now - ago);
        }
        trial.must(decided);
        assert_eq!(trial.stages(), [stage], "{ago:?}");
        let void = (stage == "denied").then_some("the approval was not used in time");
        assert_eq!(fates(&trial), [(void.is_none(), void)]);
    }
}

#[test]
fn what_is_played_at_another_time_was_given_as_long_before() {
    let mut trial = called(&["risky"]);
    let mut decided = trial.decided(0, trial.approval(0, &["user:ann".to_owned()], None));
    if let Event::CallDecided { given_at, .. } = &mut decided {
        *given_at = Some(trial.now - 7);
    }
    trial.later(1_000);
    let Event::CallDecided { at, given_at, .. } = decided.moved_to(trial.now) else { panic!("a decision") };
    assert_eq!((at, given_at), (trial.now, Some(trial.now - 7)));
}

#[test]
fn what_never_began_is_void_in_the_end() {
    let unused = (false, Some("the call came to its end without it"));
    let mut trial = held(&json!({}));
    trial.cancel();
    assert_eq!(fates(&trial), [(false, None), unused]);
    let mut trial = held(&json!({"policy": {"on_deny": "stop"}}));
    trial.deny(0);
    assert_eq!(fates(&trial), [(false, None), unused]);
    // A run that ends waits for a write: nothing begins any more, and nobody is asked anew.
    for rules in [None, Some(asks("risky", 2))] {
        let mut trial = Trial::begun(&json!({}));
        trial.calls(&[("note", json!({})), ("risky", json!({}))]);
        trial.rules_are(rules.as_ref());
        trial.later(600_000);
        trial.must(Event::TimerFired { at: trial.now });
        assert!(trial.state.ending.is_some());
        trial.approved_by(1, &["user:ann"], None);
        assert_eq!((trial.stages(), trial.tables.pending().len()), (vec!["out", "ready"], 0));
        trial.works(0);
        assert_eq!(trial.state.end.as_ref().map(|end| end.reason), Some(Limit::Timeout.into()));
        assert_eq!(fates(&trial), [if rules.is_some() { (false, Some(OTHERS)) } else { unused }]);
    }
}
